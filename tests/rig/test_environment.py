"""The machine's record, from a file tree made here."""

import os
from pathlib import Path

import pytest

from modeld.rig.environment import environment, resident_bytes, temperatures


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        "proc/cpuinfo": "processor : 0\nmodel name\t: Kryo 385 Gold\n",
        "proc/loadavg": "0.52 0.40 0.30 1/200 4321\n",
        "proc/77/statm": "1000 250 30 4 0 500 0\n",
        "sys/devices/system/clocksource/clocksource0/current_clocksource": "arch_sys_counter\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
        "sys/devices/system/cpu/cpu7/cpufreq/scaling_governor": "schedutil\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "1766400\n",
        "sys/devices/system/cpu/cpu7/cpufreq/scaling_cur_freq": "2649600\n",
        "sys/class/kgsl/kgsl-3d0/gpuclk": "710000000\n",
        "sys/class/thermal/thermal_zone0/temp": "61300\n",
        "sys/class/thermal/thermal_zone0/type": "cpu-1\n",
        "sys/class/thermal/thermal_zone1/temp": "-273200\n",
        "sys/class/thermal/thermal_zone1/type": "modem\n",
        "sys/class/thermal/thermal_zone2/temp": "broken\n",
        "sys/class/thermal/thermal_zone2/type": "gpu\n",
    }
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return tmp_path


def test_clocks_governors_and_temperatures_are_recorded(root: Path) -> None:
    record = environment(root)
    assert record["cpu"] == "Kryo 385 Gold"
    assert record["load"] == 0.52
    assert record["clock"] == "arch_sys_counter"
    assert record["governors"] == ["performance", "schedutil"]
    assert record["cpu_mhz"] == [1766, 2650]
    assert record["gpu_mhz"] == [710]
    assert record["temperatures_c"] == {"0:cpu-1": 61.3}


def test_what_a_machine_lacks_is_left_out(tmp_path: Path) -> None:
    assert set(environment(tmp_path)) == {"machine", "kernel", "cpus"}
    assert temperatures(tmp_path) == {}


def test_resident_memory_is_counted_in_pages(root: Path) -> None:
    assert resident_bytes(77, root) == 250 * os.sysconf("SC_PAGE_SIZE")
    assert resident_bytes(78, root) is None
    own = resident_bytes(os.getpid())
    assert own is not None
    assert own > 10 << 20
