"""Finding the OpenCL device and saying what it is."""

from dataclasses import dataclass

from modeld import environment  # read by pyopencl when it loads, so before it

# isort: split
import pyopencl as cl

from modeld.errors import ModeldError


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What identifies a device and bounds what may be sent to it; sizes in bytes."""

    platform: str
    device: str
    driver: str
    opencl_c: str
    extensions: tuple[str, ...]
    alignment: int
    device_class: str  # "cpu" or "gpu"
    host_memory: bool  # True where device and host share one memory


def describe_device(device: cl.Device) -> DeviceInfo:
    """Read the identity of `device` from its driver."""
    return DeviceInfo(
        platform=device.platform.name.strip(),
        device=device.name.strip(),
        driver=device.driver_version.strip(),
        opencl_c=device.opencl_c_version.strip(),
        extensions=tuple(sorted(device.extensions.split())),
        alignment=max(device.mem_base_addr_align // 8, 1),
        device_class="cpu" if device.type & cl.device_type.CPU else "gpu",
        host_memory=bool(device.host_unified_memory),
    )


def list_devices() -> list[cl.Device]:
    """All OpenCL devices, platform by platform; empty where no platform is installed."""
    try:
        platforms = cl.get_platforms()
    except cl.LogicError:  # the loader's way of saying that no driver is installed
        return []
    devices: list[cl.Device] = []
    for platform in platforms:
        try:
            devices.extend(platform.get_devices())
        except cl.RuntimeError:  # a platform whose hardware is absent
            continue
    return devices


def select_device(selector: str | None = None) -> cl.Device:
    """The device that `selector` names: a part of the platform's name, optionally `:index`.

    Without a selector the first device is taken. Raises ModeldError naming the platforms found.
    """
    devices = list_devices()
    if not devices:
        raise ModeldError(f"no OpenCL platform found; {_remedy()}")
    if selector is None:
        return devices[0]
    name, _, index_text = selector.partition(":")
    matches = [d for d in devices if name.lower() in d.platform.name.lower()]
    index = int(index_text) if index_text.isdecimal() else 0
    if (index_text and not index_text.isdecimal()) or index >= len(matches):
        names = sorted({d.platform.name for d in devices})
        raise ModeldError(
            f"no OpenCL device matches {selector!r}; found {len(matches)} on matching platforms, "
            f"name a part of one of {', '.join(names)}, and an index below their number of devices"
        )
    return matches[index]


def _remedy() -> str:
    """What brings a platform: PoCL is none, too, where it cannot keep what it compiles."""
    if trouble := environment.trouble_with(environment.kernel_cache()):
        return (
            f"PoCL has no place for its kernels ({trouble}); make room there, or set "
            "POCL_CACHE_DIR to a folder that has some"
        )
    return "install one, e.g. `apt install pocl-opencl-icd`, or the board vendor's driver"
