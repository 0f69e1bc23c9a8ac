"""May this artifact run here? Judged from the manifest alone, before any weight is read."""

import enum
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from modeld.errors import ArtifactRefusedError
from modeld.manifest import Manifest
from modeld.opencl import DeviceInfo


class Reason(enum.StrEnum):
    """Why an artifact is not simply `ok`. See `artifacts/README.md`."""

    # Always refused: what is on disk is not what was built, or cannot run here.
    UNREADABLE = "unreadable"
    MALFORMED = "malformed"
    NEWER_FORMAT = "newer-format"
    WRONG_PIN = "wrong-pin"
    MISSING_FILE = "missing-file"
    EXTRA_FILE = "extra-file"
    MODIFIED_FILE = "modified-file"
    UNSAFE_FILE = "unsafe-file"
    UNSIGNED = "unsigned"
    BAD_SIGNATURE = "bad-signature"
    OTHER_DEVICE_CLASS = "other-device-class"
    MISSING_EXTENSION = "missing-extension"
    ALIGNMENT = "alignment"
    # Degraded: it can run, and the self-test decides whether its results are right.
    UNPINNED = "unpinned"
    OTHER_PLATFORM = "other-platform"
    OTHER_DEVICE = "other-device"
    OTHER_DRIVER = "other-driver"


DEGRADING = frozenset(
    {
        Reason.UNPINNED,
        Reason.OTHER_PLATFORM,
        Reason.OTHER_DEVICE,
        Reason.OTHER_DRIVER,
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason with both sides named."""

    reason: Reason
    message: str


def judge_target(manifest: Manifest, device: DeviceInfo) -> list[Finding]:
    """Compare what the artifact was built for with the device that is here."""
    target = manifest.target
    findings = [
        Finding(reason, f"built for {what} {built!r}, found {found!r}")
        for reason, what, built, found in (
            (Reason.OTHER_DEVICE_CLASS, "device class", target.device_class, device.device_class),
            (Reason.OTHER_PLATFORM, "platform", target.platform, device.platform),
            (Reason.OTHER_DEVICE, "device", target.device, device.device),
            (Reason.OTHER_DRIVER, "driver", target.driver, device.driver),
        )
        if built != found
    ]
    if absent := sorted(set(target.extensions) - set(device.extensions)):
        findings.append(
            Finding(Reason.MISSING_EXTENSION, f"needs {', '.join(absent)}, the device has none")
        )
    if target.alignment % device.alignment:
        findings.append(
            Finding(
                Reason.ALIGNMENT,
                f"offsets are multiples of {target.alignment} bytes, "
                f"the device wants multiples of {device.alignment}",
            )
        )
    return findings


def verdict(findings: Sequence[Finding], allowed: Collection[str] = ()) -> str:
    """`ok`, `degraded` (all findings allowed by name) or `refuse`."""
    if not findings:
        return "ok"
    runnable = all(f.reason in DEGRADING and f.reason in allowed for f in findings)
    return "degraded" if runnable else "refuse"


def require_runnable(findings: Sequence[Finding], allowed: Collection[str] = ()) -> None:
    """Raise ArtifactRefusedError for the first finding that is not allowed."""
    for finding in findings:
        if finding.reason not in DEGRADING:
            raise ArtifactRefusedError(
                finding.reason,
                f"artifact refused ({finding.reason}): {finding.message}; build it for this device",
            )
        if finding.reason not in allowed:
            raise ArtifactRefusedError(
                finding.reason,
                f"artifact refused ({finding.reason}): {finding.message}; "
                f"build it for this device or accept with --allow {finding.reason}",
            )
