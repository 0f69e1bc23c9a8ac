"""The machine's condition: clocks, governors and temperatures explain latencies.

Read from sysfs and procfs; what a machine does not have is left out of the record.
"""

import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_PAGE = os.sysconf("SC_PAGE_SIZE")
# Frequencies in Hz (devfreq, Mali and Adreno among them) or kHz (cpufreq).
_GPU_CLOCKS = ("sys/class/kgsl/kgsl-3d0/gpuclk", "sys/class/devfreq/*gpu*/cur_freq")


def environment(root: Path = Path("/")) -> dict[str, Any]:
    """What to know about the machine, as plain values for a report."""
    record: dict[str, Any] = {
        "machine": platform.machine(),
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
        "cpu": _cpu_model(root),
        "load": _load(root),
        "clock": _text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "governors": sorted(
            {t for t in map(_text, _glob(root, _cpufreq("scaling_governor"))) if t}
        ),
        "cpu_mhz": [round(value / 1e3) for value in _numbers(root, _cpufreq("scaling_cur_freq"))],
        "gpu_mhz": [
            round(value / 1e6) for pattern in _GPU_CLOCKS for value in _numbers(root, pattern)
        ],
        "temperatures_c": temperatures(root),
    }
    return {name: value for name, value in record.items() if value not in (None, [], {}, "")}


def temperatures(root: Path = Path("/")) -> dict[str, float]:
    """Degrees Celsius by thermal zone, for zones that have a sane reading."""
    found = {}
    for zone in _glob(root, "sys/class/thermal/thermal_zone*"):
        value = _number(zone / "temp")
        # Zones of parts that are off read 0 or -273 or an error.
        if value is not None and 0 < value < 200_000:
            found[f"{zone.name.removeprefix('thermal_zone')}:{_text(zone / 'type')}"] = value / 1e3
    return found


def resident_bytes(pid: int, root: Path = Path("/")) -> int | None:
    """Resident set size of a process, or None when it is gone."""
    text = _text(root / f"proc/{pid}/statm")
    fields = text.split() if text else []
    return int(fields[1]) * _PAGE if len(fields) > 1 else None


def _cpufreq(name: str) -> str:
    return f"sys/devices/system/cpu/cpu[0-9]*/cpufreq/{name}"


def _cpu_model(root: Path) -> str | None:
    for line in (_text(root / "proc/cpuinfo") or "").splitlines():
        if line.startswith(("model name", "Hardware", "Model")):
            return line.partition(":")[2].strip()
    return None


def _load(root: Path) -> float | None:
    text = _text(root / "proc/loadavg")
    return float(text.split()[0]) if text else None


def _glob(root: Path, pattern: str) -> Iterator[Path]:
    return iter(sorted(root.glob(pattern)))


def _numbers(root: Path, pattern: str) -> list[float]:
    values = map(_number, _glob(root, pattern))
    return [value for value in values if value is not None]


def _number(path: Path) -> float | None:
    text = _text(path)
    try:
        return float(text) if text else None
    except ValueError:
        return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
