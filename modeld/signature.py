"""Ed25519 signatures of artifacts: who built this, checked on every load when a key is trusted.

What is signed is `DOMAIN` followed by the manifest file's bytes; the manifest holds the hash of
every other file. `manifest.sig` is JSON with one entry per signer, so that a key can be rotated:
sign with the new key as well, move the devices over, drop the old key.
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from modeld.artifact import Artifact, read_signature, refused
from modeld.errors import ModeldError
from modeld.files import read_small
from modeld.verdict import Reason

# Keeps a signature made for an artifact from being valid for anything else.
DOMAIN = b"modeld-artifact-signature-1\n"
PUBLIC_PREFIX = "modeld-ed25519-public"
KEY_ID = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A trusted signer: 32 raw bytes, and the id that names them in files and messages."""

    raw: bytes

    @property
    def key_id(self) -> str:
        """First 16 hex digits of the sha256 of the raw key."""
        return hashlib.sha256(self.raw).hexdigest()[:16]

    @property
    def line(self) -> str:
        """The key as its file holds it."""
        return f"{PUBLIC_PREFIX}:{self.key_id}:{base64.b64encode(self.raw).decode()}\n"


def load_public_key(path: Path) -> PublicKey:
    """Read a public key file. Raises ModeldError when it is none."""
    try:
        prefix, key_id, text = read_small(path).strip().split(":")
        key = PublicKey(base64.b64decode(text, validate=True))
    except (ValueError, binascii.Error):
        raise ModeldError(f"{path} is no public key; make one with modeld-compile keygen") from None
    if prefix != PUBLIC_PREFIX or len(key.raw) != 32 or key_id != key.key_id:
        raise ModeldError(f"{path} is no public key; make one with modeld-compile keygen")
    return key


def require_signature(artifact: Artifact, trusted: Sequence[PublicKey]) -> str:
    """The id of a trusted key that signed the artifact.

    Raises ArtifactRefusedError (`unsigned` or `bad-signature`) when there is none, and
    ModeldError where the package `cryptography` is missing.
    """
    content = read_signature(artifact)
    names = ", ".join(key.key_id for key in trusted)
    if content is None:
        raise refused(
            Reason.UNSIGNED, f"no signature, one by {names} is required; run modeld-compile sign"
        )
    signatures = parse_signatures(content)
    for key in trusted:
        if key.key_id in signatures:
            if _verifies(key, signatures[key.key_id], artifact.manifest_bytes):
                return key.key_id
            raise refused(
                Reason.BAD_SIGNATURE, f"the signature by {key.key_id} does not fit the manifest"
            )
    raise refused(
        Reason.BAD_SIGNATURE, f"signed by {', '.join(sorted(signatures))}, trusted is {names}"
    )


def signature_file(signatures: dict[str, bytes]) -> bytes:
    """The content of `manifest.sig` for signatures by key id."""
    document = {"ed25519": {key_id: raw.hex() for key_id, raw in signatures.items()}}
    return json.dumps(document, sort_keys=True, indent=1).encode() + b"\n"


def parse_signatures(content: bytes) -> dict[str, bytes]:
    """Signatures by key id. Raises ArtifactRefusedError for a malformed file."""
    try:
        entries = json.loads(content)["ed25519"]
        signatures = {str(key_id): bytes.fromhex(text) for key_id, text in entries.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise refused(Reason.BAD_SIGNATURE, "manifest.sig is malformed; sign again") from None
    if not all(KEY_ID.fullmatch(key_id) for key_id in signatures):
        raise refused(Reason.BAD_SIGNATURE, "manifest.sig has a malformed key id; sign again")
    return signatures


def _verifies(key: PublicKey, signature: bytes, manifest: bytes) -> bool:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ModuleNotFoundError:
        raise ModeldError("checking signatures needs cryptography; install modeld[sign]") from None
    try:
        Ed25519PublicKey.from_public_bytes(key.raw).verify(signature, DOMAIN + manifest)
    except InvalidSignature:
        return False
    return True
