"""What is captured, and what can not be."""

import numpy as np
import pytest
from tinygrad import Tensor, dtypes
from tinygrad.uop.ops import UOp

from compile.capture import CapturedRun, _storage_of, device_tensor, materialize
from modeld.errors import ModeldError

pytestmark = pytest.mark.usefixtures("device")


def capture(function, **inputs: np.ndarray) -> CapturedRun:  # type: ignore[no-untyped-def]
    tensors = {name: device_tensor(array) for name, array in inputs.items()}
    Tensor.realize(*materialize(function(tensors)).values())
    return CapturedRun(
        lambda given: materialize(function(given)), tensors, {}, lambda done, total: None
    )


def test_launches_name_their_storages_by_role() -> None:
    w = device_tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
    x, bias = np.ones((2, 3), np.float32), np.ones(4, np.float32)
    run = capture(lambda t: {"y": (t["x"] @ w).contiguous().relu() + t["bias"]}, x=x, bias=bias)
    roles = sorted((s.role, s.name, s.bytes) for s in run.program.storages)
    assert roles == [
        ("input", "bias", 16),
        ("input", "x", 24),
        ("output", "y", 32),
        ("scratch", "", 32),
        ("weight", "constant_2", 48),
    ]
    first, second = run.program.launches
    assert [o.access for o in first.operands] == ["write", "read", "read"]
    assert run.program.storages[second.operands[0].storage].name == "y"
    assert f"void {first.kernel}(" in first.source
    expected = np.maximum(x @ np.arange(12, dtype=np.float32).reshape(3, 4), 0) + bias
    np.testing.assert_allclose(run.run({"x": x, "bias": bias})["y"], expected)


def test_run_takes_new_inputs_each_time() -> None:
    run = capture(lambda t: {"y": t["a"] - t["b"]}, a=np.zeros(3), b=np.zeros(3))
    a, b = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.0, -1.0])
    np.testing.assert_array_equal(run.run({"a": a, "b": b})["y"], a - b)
    np.testing.assert_array_equal(run.run({"a": b, "b": a})["y"], b - a)


def test_next_state_never_shares_the_state_buffer() -> None:
    def shift(t: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"next_q": t["q"][1:].cat(t["x"].reshape(1, 3)), "same": t["q"]}

    run = capture(shift, q=np.zeros((4, 3), np.float32), x=np.ones(3, np.float32))
    for launch in run.program.launches:
        written = {o.storage for o in launch.operands if o.access != "read"}
        read = {o.storage for o in launch.operands if o.access != "write"}
        assert not written & read
    assert {s.name for s in run.program.storages if s.role == "output"} == {"next_q", "same"}


def test_work_sizes_count_work_items() -> None:
    run = capture(lambda t: {"y": t["x"] * 2}, x=np.zeros((64, 48), np.float32))
    (launch,) = run.program.launches
    assert launch.local_size is not None
    assert all(g % n == 0 for g, n in zip(launch.global_size, launch.local_size, strict=True))
    per_item = 64 * 48 // np.prod(launch.global_size)
    assert per_item * np.prod(launch.global_size) == 64 * 48


def test_views_of_contiguous_ranges_are_offsets() -> None:
    buffer = UOp.new_buffer("CL", 100, dtypes.float32)
    assert _storage_of(buffer) == (buffer, 0, 400)
    assert _storage_of(buffer.reshape(10, 10)) == (buffer, 0, 400)
    assert _storage_of(buffer.shrink(((20, 50),))) == (buffer, 80, 120)
    nested = buffer.shrink(((20, 50),)).shrink(((5, 10),)).reshape(5, 1)
    assert _storage_of(nested) == (buffer, 100, 20)
    halves = UOp.new_buffer("CL", 100, dtypes.int8).shrink(((40, 80),)).bitcast(dtypes.float32)
    base, offset, size = _storage_of(halves)
    assert (base.nbytes(), offset, size) == (100, 40, 40)


def test_views_that_are_no_range_are_refused() -> None:
    buffer = UOp.new_buffer("CL", 100, dtypes.float32)
    with pytest.raises(ModeldError, match="2-dimensional view"):
        _storage_of(buffer.reshape(10, 10).shrink(((0, 10), (0, 5))))
    with pytest.raises(ModeldError, match="PERMUTE"):
        _storage_of(buffer.reshape(10, 10).permute(1, 0))


def test_copies_from_the_host_during_capture_become_weights() -> None:
    # An operator that uploads an array on every call must not leave a host copy in the program.
    def function(t: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"y": t["x"] + Tensor(np.arange(4, dtype=np.float32))}

    run = capture(function, x=np.zeros(4, np.float32))
    assert [s.role for s in run.program.storages].count("weight") == 1
    x = np.ones(4, np.float32)
    np.testing.assert_array_equal(run.run({"x": x})["y"], x + np.arange(4))


def test_value_read_while_capturing_is_an_error_not_a_constant() -> None:
    def function(t: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"y": t["x"] * t["x"].sum().item()}

    with pytest.raises(Exception, match="during JIT capture"):
        capture(function, x=np.ones(4, np.float32))
    # The failed capture must not leave tinygrad capturing.
    np.testing.assert_array_equal((device_tensor(np.ones(2)) + 1).numpy(), [2, 2])


def test_numbers_below_the_normal_range_are_zero() -> None:
    x = np.full(16, 1e-30, np.float32)
    run = capture(lambda t: {"y": t["x"] * 1e-9}, x=x)
    np.testing.assert_array_equal(run.run({"x": x})["y"], np.zeros(16, np.float32))
