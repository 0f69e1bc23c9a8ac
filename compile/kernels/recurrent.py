"""GRU and LSTM layers, after one product of all steps' inputs with their weights.

A gate's columns of 16 hidden units lie beside those of the other gates, so that a work-item that
has a block of units has all of it. Shapes: T steps, B sequences, D directions, G gates, H hidden
units in `blocks` of 16.
"""

from dataclasses import dataclass

import numpy as np

from compile.kernels import epilogue
from compile.kernels.launch import Kernel, defines, make_kernel, template
from compile.kernels.layout import LANES, Array, blocks_of, pad_channels

GATES = {"GRU": 3, "LSTM": 4}
# Sequences of a work-item: with four gates two sums each are 32 registers.
_MAX_ROWS = 4
# One processor has read weights below this, all in its own cache, before a launch for each step has
# reached several: LSTM of 128 units takes 2.3 us a step, 6 with launches.
_MAX_WHOLE_BYTES = 2 << 20


@dataclass(frozen=True)
class Recurrence:
    """A layer of `kind` GRU or LSTM; `reverse` says it for each direction.

    `linear_before_reset` is GRU's: the reset gate acts on the state's product, bias included.
    """

    kind: str
    steps: int
    batch: int
    hidden: int
    reverse: tuple[bool, ...]
    linear_before_reset: bool = False

    @property
    def gates(self) -> int:
        """Gates of the layer."""
        return GATES[self.kind]

    @property
    def states(self) -> int:
        """What a step hands to the next: the hidden units, LSTM's cells."""
        return 2 if self.kind == "LSTM" else 1

    @property
    def whole(self) -> bool:
        """Whether a work-item has all hidden units, so that it can go on to the next step."""
        two_products = self.kind == "GRU" and not self.linear_before_reset
        near = self.gates * self.hidden**2 * 4 <= _MAX_WHOLE_BYTES
        return two_products or (near and self.steps > 1)

    @property
    def all_steps(self) -> bool:
        """Whether one launch has all steps."""
        return self.whole or self.steps == 1

    @property
    def state_shape(self) -> tuple[int, int, int]:
        """(D, B, H): a state of all directions and sequences."""
        return len(self.reverse), self.batch, self.hidden

    @property
    def rows(self) -> int:
        """Sequences of a work-item."""
        return next(r for r in range(_MAX_ROWS, 0, -1) if self.batch % r == 0)


def pack_inputs(values: Array, gates: int) -> Array:
    """(D, G H, …) weights or biases with the columns that the kernel wants: (D blocks G 16, …)."""
    return _blocks(values, gates).reshape(-1, *values.shape[2:])


def pack_state(r: Array, recurrence: Recurrence) -> Array:
    """(D, G H, H) weights, flat: for each direction and block H, G, 16.

    Where GRU's reset comes before the product, the hidden gate's follow on the two others'.
    """
    blocks = _blocks(r, recurrence.gates).transpose(0, 1, 4, 2, 3)  # (D, blocks, H, G, 16)
    if recurrence.kind == "LSTM" or recurrence.linear_before_reset:
        return np.ascontiguousarray(blocks.reshape(-1), np.float32)
    first, last = (part.reshape(len(r), -1) for part in (blocks[..., :2, :], blocks[..., 2, :]))
    return np.concatenate([first, last], 1).astype(np.float32).reshape(-1)


def _blocks(values: Array, gates: int) -> Array:
    """(D, G H, …) as (D, blocks, G, 16, …); units that do not exist are zeros."""
    directions, columns, *rest = values.shape
    padded = pad_channels(values.reshape(directions, gates, columns // gates, *rest), 2)
    return padded.reshape(directions, gates, -1, LANES, *rest).swapaxes(1, 2)


def render(recurrence: Recurrence) -> Kernel:
    """The kernel; parameters are the outputs, then the inputs.

    Outputs: the last state (D, B, H), LSTM's last cells; with `all_steps` the states (T, D, B, H).
    Inputs: products (T, B, D blocks G 16); the state's weights; with `linear_before_reset` the bias
    of the hidden gate (D blocks 16); the state, LSTM's cells; without `all_steps` the step, int32.
    """
    r = recurrence
    blocks, lstm, linear = blocks_of(r.hidden), r.kind == "LSTM", r.linear_before_reset
    outputs = ["out"] + ["out_cell"] * lstm + ["all"] * r.all_steps
    inputs = ["in", "weights"] + ["bias"] * linear + ["initial"] + ["initial_cell"] * lstm
    declared = [f"__global float *restrict {name}" for name in outputs]
    declared += [f"__global const float *restrict {name}" for name in inputs]
    declared += ["__global const int *restrict number"] * (not r.all_steps)
    values: dict[str, int | str] = {
        "LSTM": int(lstm),
        "LINEAR_BEFORE_RESET": int(linear),
        "WHOLE": int(r.whole),
        "ALL_STEPS": int(r.all_steps),
        "GATES": r.gates,
        "HIDDEN": r.hidden,
        "BLOCKS": blocks,
        "ROWS": r.rows,
        "STEPS": r.steps,
        "BATCH": r.batch,
        "DIRECTIONS": len(r.reverse),
        "REVERSE(d)": f"({sum(back << d for d, back in enumerate(r.reverse))} >> (d) & 1)",
        "PARAMETERS": ", ".join(declared),
        "OUT_CHANNEL": 1,
    }
    source = epilogue.helpers((), ("exponential",)) + defines(values)
    source += template("vectors", "lanes", "recurrent")
    # Sequences first: those that read the same weights follow each other.
    size = (r.batch // r.rows, len(r.reverse), 1 if r.whole else blocks)
    macs = len(r.reverse) * r.batch * r.gates * r.hidden**2 * (r.steps if r.all_steps else 1)
    return make_kernel(f"{r.kind.lower()}_{r.steps}_{r.hidden}", source, size, macs=macs)
