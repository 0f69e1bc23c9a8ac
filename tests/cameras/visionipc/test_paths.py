from pathlib import Path

import pytest

from modeld.cameras.visionipc.paths import NARROW_ROAD, WIDE_ROAD, VisionIpcConfig
from modeld.errors import ModeldError


def test_paths_without_a_prefix_are_camerads() -> None:
    config = VisionIpcConfig()
    assert config.socket_path == Path("/tmp/visionipc_camerad")
    assert config.ring_path(NARROW_ROAD) == Path("/dev/shm/msgq_visionipc_camerad_0")
    assert config.older_ring_path(WIDE_ROAD) == Path("/dev/shm/visionipc_camerad_2")


def test_a_prefix_is_a_folder_of_rings_and_the_beginning_of_a_socket() -> None:
    config = VisionIpcConfig(server="fake", prefix="a1.b-2")
    assert config.socket_path == Path("/tmp/a1.b-2_visionipc_fake")
    assert config.ring_path(1) == Path("/dev/shm/msgq_a1.b-2/visionipc_fake_1")
    assert config.older_ring_path(1) == Path("/dev/shm/a1.b-2/visionipc_fake_1")


@pytest.mark.parametrize("name", ["../x", "a/b", "", "a b", "..", ".", "x" * 65, "a\0"])
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(ModeldError, match=r"server name .* cannot be part of a file name"):
        VisionIpcConfig(server=name)
    if name:
        with pytest.raises(ModeldError, match=r"prefix .* cannot be part of a file name"):
            VisionIpcConfig(prefix=name)


def test_a_socket_path_that_the_kernel_would_cut_is_refused() -> None:
    with pytest.raises(ModeldError, match="longer than 107 characters"):
        VisionIpcConfig(socket_folder=Path("/tmp") / ("x" * 90))
