import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toy_artifact import toy_files, toy_manifest, write_toy

from modeld import Executor, open_artifact
from modeld.errors import ArtifactRefusedError, ModeldError
from modeld.manifest import canonical_bytes, manifest_digest, parse_manifest


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    write_toy(tmp_path / "toy")
    return tmp_path / "toy"


def refused(path: Path, pin: str | None = None) -> ArtifactRefusedError:
    with pytest.raises(ArtifactRefusedError) as caught:
        artifact = open_artifact(path, pin)
        artifact.verify_files()
    assert "\n" not in str(caught.value)
    return caught.value


def test_manifest_round_trip_is_canonical() -> None:
    manifest = toy_manifest(toy_files())
    content = canonical_bytes(manifest)
    assert parse_manifest(content) == manifest
    assert canonical_bytes(parse_manifest(content)) == content


def test_right_pin_opens_and_verifies(toy: Path) -> None:
    pin = manifest_digest((toy / "manifest.json").read_bytes())
    artifact = open_artifact(toy, pin)
    artifact.verify_files()
    assert artifact.digest == pin


def test_wrong_pin_names_both(toy: Path) -> None:
    error = refused(toy, "sha256:" + "0" * 64)
    assert error.reason == "wrong-pin"
    assert "sha256:" + "0" * 64 in str(error)
    assert manifest_digest((toy / "manifest.json").read_bytes()) in str(error)


def files_of(directory: Path) -> list[Path]:
    return sorted(p for p in directory.rglob("*") if p.is_file())


@pytest.mark.parametrize("index", range(4))
def test_changed_byte_in_any_file_is_refused(toy: Path, index: int) -> None:
    pin = manifest_digest((toy / "manifest.json").read_bytes())
    path = files_of(toy)[index]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    error = refused(toy, pin)
    assert error.reason == ("wrong-pin" if path.name == "manifest.json" else "modified-file")


@pytest.mark.parametrize("change", [b"", b"x", None])
def test_longer_shorter_and_missing_files_are_refused(toy: Path, change: bytes | None) -> None:
    path = toy / "weights.safetensors"
    content = path.read_bytes()
    if change is None:
        path.unlink()
        assert refused(toy).reason == "missing-file"
    else:
        path.write_bytes(content + change if change else content[:-1])
        assert refused(toy).reason == "modified-file"


@pytest.mark.parametrize("name", ["two\nlines.txt", "kernels/two\nlines.cl", "\x1b[2J"])
def test_a_strange_name_stays_on_one_line(toy: Path, name: str) -> None:
    (toy / name).write_text("hello")
    assert ascii(name) in str(refused(toy))
    (toy / name).unlink()
    (toy / name).symlink_to("manifest.json")
    refused(toy)


def test_extra_files_and_links_are_refused(toy: Path, tmp_path: Path) -> None:
    (toy / "notes.txt").write_text("hello")
    assert refused(toy).reason == "extra-file"
    (toy / "notes.txt").unlink()
    (toy / "kernels" / "more.cl").write_text("hello")
    assert refused(toy).reason == "extra-file"
    (toy / "kernels" / "more.cl").unlink()
    weights = toy / "weights.safetensors"
    outside = tmp_path / "weights"
    weights.rename(outside)
    weights.symlink_to(outside)
    assert refused(toy).reason == "unsafe-file"
    weights.unlink()
    os.link(outside, weights)
    assert refused(toy).reason == "unsafe-file"


def test_linked_kernels_directory_and_fifo_are_refused(toy: Path, tmp_path: Path) -> None:
    (toy / "kernels").rename(tmp_path / "kernels")
    (toy / "kernels").symlink_to(tmp_path / "kernels")
    assert refused(toy).reason == "unsafe-file"
    (toy / "kernels").unlink()
    (tmp_path / "kernels").rename(toy / "kernels")
    (toy / "reference.safetensors").unlink()
    os.mkfifo(toy / "reference.safetensors")
    assert refused(toy).reason == "unsafe-file"


def test_world_writable_directory_is_refused(toy: Path) -> None:
    toy.chmod(0o777)
    assert refused(toy).reason == "unsafe-file"


def test_missing_artifact_is_refused(tmp_path: Path) -> None:
    assert "No such file" in str(refused(tmp_path / "none"))
    (tmp_path / "file").write_text("")
    assert refused(tmp_path / "file").reason == "unreadable"


def test_newer_and_other_formats(toy: Path) -> None:
    document = json.loads((toy / "manifest.json").read_text())
    (toy / "manifest.json").write_text(json.dumps(document | {"format_version": 99}))
    error = refused(toy)
    assert error.reason == "newer-format"
    assert "99" in str(error)
    (toy / "manifest.json").write_text(json.dumps(document | {"format": "elf"}))
    assert "'elf'" in str(refused(toy))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("target", "alignment"), "512", "manifest.target.alignment is '512', expected int"),
        (("target", "alignment"), True, "manifest.target.alignment is True, expected int"),
        (("buffers", 0, "extra"), 1, r"manifest.buffers\[0\] has unknown extra"),
        (("contract", "inputs"), {}, "manifest.contract.inputs is {}, expected a list"),
        (("files", 0, "path"), "../../etc/passwd", "leaves the directory"),
    ],
)
def test_malformed_manifests_name_the_field(
    toy: Path, path: tuple[Any, ...], value: Any, message: str
) -> None:
    document = json.loads((toy / "manifest.json").read_text())
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    (toy / "manifest.json").write_text(
        json.dumps(document, sort_keys=True, separators=(",", ":")) + "\n"
    )
    with pytest.raises(ModeldError, match=message):
        open_artifact(toy)


def test_other_spellings_of_a_manifest_are_refused(toy: Path) -> None:
    good = (toy / "manifest.json").read_bytes()
    repeated = good.replace(b'"name":"toy"', b'"name":"other","name":"toy"')
    surrogate = good.replace(b'"name":"toy"', b'"name":"\\ud800"')
    for content in (good + b" ", good[:-1], good.decode().encode("utf-16"), repeated, surrogate):
        (toy / "manifest.json").write_bytes(content)
        assert "canonical spelling" in str(refused(toy))


def test_deeply_nested_manifest_is_refused(toy: Path) -> None:
    good = (toy / "manifest.json").read_bytes()
    for depth in (500, 900, 100_000):
        nested = b"[" * depth + b"]" * depth
        (toy / "manifest.json").write_bytes(good.replace(b'"toy"', nested))
        assert refused(toy).reason == "malformed"


@given(data=st.data())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_mutation_of_any_file_is_loaded(toy: Path, data: st.DataObject) -> None:
    pin = manifest_digest((toy / "manifest.json").read_bytes())
    path = data.draw(st.sampled_from(files_of(toy)))
    good = path.read_bytes()
    start = data.draw(st.integers(0, len(good) - 1))
    stop = data.draw(st.integers(start, len(good)))
    patch = data.draw(st.binary(max_size=12))
    bad = good[:start] + patch + good[stop:]
    try:
        path.write_bytes(bad)
        if bad == good:
            open_artifact(toy, pin).verify_files()
        else:
            refused(toy, pin)
    finally:
        path.write_bytes(good)


@given(content=st.binary(max_size=200))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_hostile_weights_with_a_matching_manifest_are_refused(toy: Path, content: bytes) -> None:
    # Whoever made the artifact made both, so the hash fits: the header must still be checked.
    files = toy_files() | {"weights.safetensors": content}
    (toy / "weights.safetensors").write_bytes(content)
    (toy / "manifest.json").write_bytes(canonical_bytes(toy_manifest(files)))
    with pytest.raises(ModeldError):
        Executor(open_artifact(toy))
