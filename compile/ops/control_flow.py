"""If, Loop and Scan: unrolled when the model is built.

A device list of launches has no branches. A known condition picks its branch; an unknown one
computes both and selects. A loop whose trip count is known is unrolled; if only its condition is
computed, later turns keep the values that the last valid turn left.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import onnx
from tinygrad import Tensor

from compile.ops.indexing import stack, take
from compile.ops.registry import Array, Context, Op, UnknownValueError, UnsupportedUseError, Value

# A longer loop would make a model of tens of thousands of launches.
_MAX_TURNS = 4096


def if_(
    condition: Value,
    *,
    then_branch: onnx.GraphProto,
    else_branch: onnx.GraphProto,
    context: Context,
) -> tuple[Value, ...]:
    """The branch that a known condition names, or both and a selection."""
    if isinstance(condition, np.ndarray):
        taken = then_branch if bool(condition.reshape(-1)[0]) else else_branch
        return tuple(context.run_subgraph(taken, [], "taken"))
    whether = context.tensor(condition).reshape(())
    then = context.run_subgraph(then_branch, [], "then")
    otherwise = context.run_subgraph(else_branch, [], "else")
    return tuple(_select(context, whether, a, b) for a, b in zip(then, otherwise, strict=True))


def _select(context: Context, whether: Tensor, a: Value, b: Value) -> Tensor:
    if isinstance(a, list) or isinstance(b, list) or a is None or b is None:
        raise UnsupportedUseError(
            "its condition is computed and its branches give sequences; only tensors can be chosen"
        )
    first, second = context.tensor(a), context.tensor(b)
    if first.shape != second.shape or first.dtype != second.dtype:
        raise UnsupportedUseError(
            f"its condition is computed and its branches differ ({first.shape}, {second.shape}); "
            "make the condition known (freeze its input) or the shapes equal"
        )
    return whether.where(first, second)


def _known(value: Value) -> bool | None:
    """A condition's value, None when it is computed on the device."""
    if value is None:
        return True
    return bool(value.reshape(-1)[0]) if isinstance(value, np.ndarray) else None


def loop(
    trip_count: Array | None,
    condition: Value,
    *carried: Value,
    body: onnx.GraphProto,
    context: Context,
) -> tuple[Value, ...]:
    """The body repeated, values carried from turn to turn; then what each turn gave, stacked."""
    if trip_count is None and _known(condition) is None:
        raise UnknownValueError(1)
    limit = _MAX_TURNS + 1 if trip_count is None else int(trip_count.reshape(-1)[0])
    state = list(carried)
    scans: list[list[Value]] = [[] for _ in body.output[1 + len(carried) :]]
    active: Tensor | None = None
    for turn in range(limit):
        if turn >= _MAX_TURNS:
            raise UnsupportedUseError(f"it takes more than {_MAX_TURNS} turns")
        known = _known(condition)
        if known is False:
            break
        if known is None:
            if scans and turn == 0:
                raise UnknownValueError(1)
            if scans:
                raise UnsupportedUseError(
                    "its body computes the condition, so that its stacked outputs have no length"
                )
            now = context.tensor(condition).reshape(())
            active = now if active is None else active & now
        number = np.array(turn, np.int64)
        results = context.run_subgraph(body, [number, condition, *state], str(turn))
        condition, new = results[0], results[1 : 1 + len(carried)]
        if active is not None:
            new = [_select(context, active, a, b) for a, b in zip(new, state, strict=True)]
        state = [_settled(value) for value in new]
        for collected, value in zip(scans, results[1 + len(carried) :], strict=True):
            collected.append(value)
    return *state, *(_stacked(context, values, 0) for values in scans)


def _settled(value: Value) -> Value:
    """A carried tensor in memory, so that a later turn does not compute all earlier ones again."""
    return value.contiguous() if isinstance(value, Tensor) else value


def _stacked(context: Context, values: Sequence[Value], axis: int) -> Value:
    if not values:
        raise UnsupportedUseError("it makes no turn, so that its stacked outputs have no shape")
    if all(isinstance(value, np.ndarray) for value in values):
        return np.stack(values, axis)  # type: ignore[arg-type]
    return stack([context.tensor(value) for value in values], axis)


def _at(context: Context, value: Value, axis: int, position: int) -> Value:
    """One position along an axis. It is read from memory on the device, so that all turns of a
    scan are launches of the same kernels.
    """
    if isinstance(value, np.ndarray):
        return np.take(value, position, axis)
    if not isinstance(value, Tensor):
        raise ValueError("only tensors can be scanned")
    axis = axis % value.ndim
    item = take(value, axis, context.stored(np.array([position], np.int32)))
    return item.squeeze(axis)


def _options(values: Sequence[int] | None, count: int) -> Sequence[int]:
    return values or (0,) * count


def scan(
    *inputs: Value,
    body: onnx.GraphProto,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] | None = None,
    scan_input_directions: Sequence[int] | None = None,
    scan_output_axes: Sequence[int] | None = None,
    scan_output_directions: Sequence[int] | None = None,
    context: Context,
) -> tuple[Value, ...]:
    """The body for each position along the scanned inputs, with states carried on."""
    states, sequences = list(inputs[:-num_scan_inputs]), inputs[-num_scan_inputs:]
    axes = _options(scan_input_axes, num_scan_inputs)
    lengths = {
        int(sequence.shape[axis])  # type: ignore[union-attr]
        for sequence, axis in zip(sequences, axes, strict=True)
    }
    if len(lengths) != 1:
        raise ValueError(f"scanned inputs have different lengths {sorted(lengths)}")
    (length,) = lengths
    backwards = _options(scan_input_directions, num_scan_inputs)
    outputs: list[list[Value]] = [[] for _ in body.output[len(states) :]]
    for turn in range(length):
        items = [
            _at(context, sequence, axis, length - 1 - turn if back else turn)
            for sequence, axis, back in zip(sequences, axes, backwards, strict=True)
        ]
        results = context.run_subgraph(body, [*states, *items], str(turn))
        states = [_settled(value) for value in results[: len(states)]]
        for collected, value in zip(outputs, results[len(states) :], strict=True):
            collected.append(value)
    out_axes = _options(scan_output_axes, len(outputs))
    reverse = _options(scan_output_directions, len(outputs))
    stacked = (
        _stacked(context, values[::-1] if back else values, axis)
        for values, axis, back in zip(outputs, out_axes, reverse, strict=True)
    )
    return *states, *stacked


def scan_8(
    sequence_lens: Value,
    *inputs: Value,
    body: onnx.GraphProto,
    num_scan_inputs: int,
    directions: Sequence[int] | None = None,
    context: Context,
) -> tuple[Value, ...]:
    """Scan of opset 8: batches first, each scanned along its first axis."""
    if sequence_lens is not None:
        raise UnsupportedUseError("sequence_lens of opset 8 is not supported; export opset 9")
    batch = int(inputs[0].shape[0])  # type: ignore[union-attr]
    each = []
    for n in range(batch):
        mine = [_at(context, value, 0, n) for value in inputs]
        inner = replace(context, run_subgraph=_labelled(context, n))
        each.append(
            scan(
                *mine,
                body=body,
                num_scan_inputs=num_scan_inputs,
                scan_input_directions=directions,
                context=inner,
            )
        )
    return tuple(_stacked(context, values, 0) for values in zip(*each, strict=True))


def _labelled(
    context: Context, batch: int
) -> Callable[[onnx.GraphProto, list[Value], str], list[Value]]:
    return lambda graph, inputs, label: context.run_subgraph(graph, inputs, f"{batch}/{label}")


OPS = (
    Op("If", if_, any_value=True, context=True),
    Op("Loop", loop, constants=(0,), any_value=True, context=True),
    Op("Scan", scan, since=9, any_value=True, context=True),
    Op("Scan", scan_8, since=8, any_value=True, context=True),
)
