"""Every command that the documentation shows is run, in the order in which a reader would."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from modeld.artifact import open_artifact

ROOT = Path(__file__).parents[1]
# Commands that end by themselves only with a camera server: a simulated drive stands in for it.
MORE_FLAGS = {"modeld run": ["--source", "road:1", "--frames", "5"]}


def shell_commands(page: Path) -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
    lines = [line.partition("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


@pytest.fixture(scope="module")
def workspace(reference_artifact: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(reference_artifact, folder / "artifacts" / "driving")
    shutil.copy(reference_artifact.parent / "reference.onnx", folder)
    return folder


def test_readme_commands(workspace: Path) -> None:
    pin = open_artifact(workspace / "artifacts" / "driving").digest
    commands = [c for c in shell_commands(ROOT / "README.md") if not c.startswith("make ")]
    # The workspace has this artifact already.
    commands = [c for c in commands if not c.startswith("modeld-compile build")]
    assert len(commands) >= 8
    for command in commands:
        words = command.replace("sha256:…", pin).split()
        words += MORE_FLAGS.get(" ".join(words[:2]), [])
        words[0] = str(Path(sys.executable).with_name(words[0]))
        done = subprocess.run(
            words,
            cwd=workspace,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def test_readme_library_use(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    program = block + "print(*outputs)\n"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=workspace,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "outputs\n"


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    shown = {c.split()[1] for c in shell_commands(ROOT / "README.md") if c.startswith("make ")}
    assert shown <= targets
