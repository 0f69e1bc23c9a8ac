"""Making keys and signing artifacts (the device side only verifies, see `modeld.signature`)."""

import os
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from modeld.artifact import open_artifact, read_signature
from modeld.errors import ModeldError
from modeld.files import cannot_write, check_writable, read_small, write_atomic
from modeld.manifest import SIGNATURE_FILE
from modeld.signature import DOMAIN, PublicKey, parse_signatures, signature_file

# In the first line of every private key in PEM form, whatever its kind.
_PRIVATE = "PRIVATE KEY-----"


def generate_key(private_path: Path, public_path: Path, password: str | None = None) -> PublicKey:
    """Make a key pair: PKCS#8 PEM (mode 0600) and our one-line public key file.

    Raises ModeldError rather than overwrite either file.
    """
    if private_path.resolve() == public_path.resolve():
        raise ModeldError(f"{public_path} is --private as well; give each key its own file")
    for path in (private_path, public_path):
        if path.exists():
            raise ModeldError(f"{path} exists; keys are not overwritten, choose another name")
    check_writable(private_path, public_path)
    private = Ed25519PrivateKey.generate()
    encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    public = _public(private)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(private_path, flags, 0o600), "wb") as stream:
            stream.write(pem)
        write_atomic(public_path, public.line.encode())
    except OSError as error:
        raise cannot_write(error.filename, error) from None
    return public


def sign_artifact(directory: Path, private_path: Path, password: str | None = None) -> PublicKey:
    """Verify every file of the artifact, then add this key's signature beside the others."""
    private = _load_private(private_path, password)
    artifact = open_artifact(directory)
    artifact.verify_files()
    public = _public(private)
    existing = read_signature(artifact)
    signatures = {} if existing is None else parse_signatures(existing)
    signatures[public.key_id] = private.sign(DOMAIN + artifact.manifest_bytes)
    try:
        write_atomic(directory / SIGNATURE_FILE, signature_file(signatures))
    except OSError as error:
        raise cannot_write(directory, error) from None
    return public


def _load_private(path: Path, password: str | None) -> Ed25519PrivateKey:
    try:
        pem = read_small(path)
    except UnicodeDecodeError:
        pem = ""
    if _PRIVATE not in pem:
        raise ModeldError(
            f"{path} holds no private key in PEM form; name the file that keygen --private wrote"
        )
    try:
        key = load_pem_private_key(pem.encode(), password.encode() if password else None)
    except TypeError:
        remedy = (
            "is not encrypted; leave --password-file out"
            if password
            else "is encrypted; give its --password-file"
        )
        raise ModeldError(f"{path} {remedy}") from None
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ModeldError(f"{path} is no private key that this password opens ({error})") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ModeldError(f"{path} is a {type(key).__name__}, not an Ed25519 key; run keygen")
    return key


def _public(private: Ed25519PrivateKey) -> PublicKey:
    return PublicKey(private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
