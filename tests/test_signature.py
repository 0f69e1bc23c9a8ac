from pathlib import Path

import pytest
from toy_artifact import write_toy

from compile.signing import generate_key, sign_artifact
from modeld.artifact import open_artifact
from modeld.cli import main
from modeld.errors import ArtifactRefusedError, ModeldError
from modeld.signature import load_public_key, require_signature


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    write_toy(tmp_path / "toy")
    return tmp_path / "toy"


def key(folder: Path, name: str, password: str | None = None) -> tuple[Path, Path]:
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    generate_key(private, public, password)
    return private, public


def test_signed_artifact_is_accepted_and_its_key_named(toy: Path, tmp_path: Path) -> None:
    private, public = key(tmp_path, "release")
    assert private.stat().st_mode & 0o777 == 0o600
    signer = sign_artifact(toy, private)
    assert require_signature(open_artifact(toy), [load_public_key(public)]) == signer.key_id
    assert main(["check", str(toy), "--no-run", "--trust", str(public)]) == 0


def test_rotation_old_and_new_key_sign_side_by_side(toy: Path, tmp_path: Path) -> None:
    (old, old_public), (new, new_public) = key(tmp_path, "old"), key(tmp_path, "new", "secret")
    sign_artifact(toy, old)
    sign_artifact(toy, new, "secret")
    artifact = open_artifact(toy)
    for trusted in ([old_public], [new_public], [new_public, old_public]):
        require_signature(artifact, [load_public_key(p) for p in trusted])


def test_unsigned_other_key_and_changed_manifest_are_refused(toy: Path, tmp_path: Path) -> None:
    (private, public), (_, other) = key(tmp_path, "a"), key(tmp_path, "b")
    with pytest.raises(ArtifactRefusedError, match="no signature") as caught:
        require_signature(open_artifact(toy), [load_public_key(public)])
    assert caught.value.reason == "unsigned"
    signer = sign_artifact(toy, private)
    with pytest.raises(ArtifactRefusedError, match=f"signed by {signer.key_id}, trusted is"):
        require_signature(open_artifact(toy), [load_public_key(other)])
    manifest = toy / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"toy"', b'"tox"'))
    with pytest.raises(ArtifactRefusedError, match="does not fit the manifest") as caught:
        require_signature(open_artifact(toy), [load_public_key(public)])
    assert caught.value.reason == "bad-signature"


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b'{"ed25519": {"x": "zz"}}', b"x" * 70_000, b"\xff"]
)
def test_malformed_signature_files_are_refused(toy: Path, tmp_path: Path, content: bytes) -> None:
    _, public = key(tmp_path, "a")
    (toy / "manifest.sig").write_bytes(content)
    with pytest.raises(ArtifactRefusedError) as caught:
        require_signature(open_artifact(toy), [load_public_key(public)])
    assert caught.value.reason == "bad-signature"


def test_one_file_cannot_hold_both_keys(tmp_path: Path) -> None:
    with pytest.raises(ModeldError, match=r"key is --private as well; give each key its own file"):
        generate_key(tmp_path / "key", tmp_path / "x" / ".." / "key")
    assert list(tmp_path.iterdir()) == []


def test_keys_are_never_overwritten_and_bad_ones_named(toy: Path, tmp_path: Path) -> None:
    private, public = key(tmp_path, "a", "secret")
    with pytest.raises(ModeldError, match=r"a\.pem exists"):
        generate_key(private, tmp_path / "z.pub")
    with pytest.raises(ModeldError, match="no private key that this password opens"):
        sign_artifact(toy, private, "wrong")
    with pytest.raises(ModeldError, match="no private key"):
        sign_artifact(toy, public)
    with pytest.raises(ModeldError, match="no public key"):
        load_public_key(private)
    assert not (toy / "manifest.sig").exists()


def test_pin_file(toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pin_file = tmp_path / "driving.pin"
    pin_file.write_text(open_artifact(toy).digest + "  toy\n")
    assert main(["check", str(toy), "--no-run", "--pin-file", str(pin_file)]) == 0
    pin_file.write_text("sha256:00\n")
    assert main(["check", str(toy), "--no-run", "--pin-file", str(pin_file)]) == 1
    assert "wrong-pin" in capsys.readouterr().err
    pin_file.write_text("")
    assert main(["check", str(toy), "--no-run", "--pin-file", str(pin_file)]) == 1
    assert "does not begin with sha256" in capsys.readouterr().err
