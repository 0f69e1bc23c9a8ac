"""Building one model in two processes that have nothing in common but the model."""

import os
import subprocess
import sys
from pathlib import Path


def build_twice(model: Path, folder: Path, options: list[str]) -> tuple[Path, Path]:
    """`modeld-compile build` with other hash seeds in folders of their own, below `folder`.

    Returns the folders. Each holds the artifact `out`, and what `options` write beside it.
    """
    folders = []
    for seed in ("1", "271828"):
        folders.append(folder / f"seed{seed}")
        folders[-1].mkdir()
        done = subprocess.run(
            [sys.executable, "-m", "compile", "build", model, "--out", "out", *options],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=folders[-1],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("sha256:")
    return folders[0], folders[1]


def require_same_files(first: Path, second: Path) -> None:
    """Fail unless both folders hold the same names with the same bytes."""
    files = [
        {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        for folder in (first, second)
    ]
    assert files[0].keys() == files[1].keys()
    assert [str(name) for name in files[0] if files[0][name] != files[1][name]] == []
