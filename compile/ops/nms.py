"""NonMaxSuppression, as two kernels of its own: a greedy choice is no tensor expression."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from tinygrad import Tensor, dtypes

from compile.kernels.launch import Kernel, defines, launch
from compile.ops.registry import Array, Context, Op, UnsupportedUseError

# Box numbers travel as float32, which holds whole numbers up to here.
_MAX_BOXES = 1 << 24


@cache
def _source() -> str:
    return (Path(__file__).parent / "nms.cl").read_text()


def _number(value: Array | None, default: float) -> float:
    return default if value is None or not value.size else float(value.reshape(-1)[0])


def _literal(value: float) -> str:
    """A float as OpenCL C reads it back exactly."""
    if np.isinf(value):
        return "(-INFINITY)" if value < 0 else "INFINITY"
    return f"({float(np.float32(value)).hex()}f)"


def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    max_output_boxes_per_class: Array | None = None,
    iou_threshold: Array | None = None,
    score_threshold: Array | None = None,
    center_point_box: int = 0,
    *,
    context: Context,
) -> Tensor:
    """Rows (batch, class, box) of the boxes kept, best first within each class.

    How many there are depends on the values, but a compiled model has static shapes: the model
    must declare the number of rows of this output. Where fewer boxes are kept, rows of -1 follow;
    where more are, the last ones are left out.
    """
    declared = context.shapes[0]
    if declared is None:
        raise UnsupportedUseError(
            "how many boxes it keeps depends on the values; declare the number of rows of its "
            "output in the model (rows of -1 fill it up)"
        )
    batches, count = boxes.shape[:2]
    classes = scores.shape[1]
    if count > _MAX_BOXES:
        raise UnsupportedUseError(f"{count} boxes are more than {_MAX_BOXES}")
    limit = min(int(_number(max_output_boxes_per_class, 0)), count)
    rows = declared[0]
    if limit <= 0 or not rows:
        return Tensor.full((rows, 3), -1, dtype=dtypes.int64, buffer=False)
    values: dict[str, int | str] = {
        "BATCHES": batches,
        "CLASSES": classes,
        "BOXES": count,
        "LIMIT": limit,
        "ROWS": rows,
        "CENTER": center_point_box,
        "IOU_LIMIT": _literal(_number(iou_threshold, 0.0)),
        "SCORE_LIMIT": _literal(_number(score_threshold, -np.inf)),
    }
    source = defines(values) + _source()
    select = Kernel("nms_select", source, (batches * classes, 1, 1))
    inputs = (boxes.cast(dtypes.float32), scores.cast(dtypes.float32))
    shapes = ((batches * classes, limit), (batches * classes, count))
    kept, _ = launch(select, shapes, inputs, context.label)
    (listed,) = launch(Kernel("nms_list", source, (1, 1, 1)), ((rows, 3),), (kept,), context.label)
    return listed.cast(dtypes.int64)


def with_declared_rows(model: onnx.ModelProto, outputs: Mapping[str, Array]) -> dict[str, Array]:
    """Another implementation's outputs, where those of NonMaxSuppression get the declared rows."""
    rows = {
        value.name: value.type.tensor_type.shape.dim[0].dim_value
        for node in model.graph.node
        if node.op_type == "NonMaxSuppression"
        for value in model.graph.output
        if value.name == node.output[0]
    }
    return {
        name: _filled(array, rows[name]) if name in rows else array
        for name, array in outputs.items()
    }


def _filled(array: Array, rows: int) -> Array:
    missing = max(rows - len(array), 0)
    return np.pad(array[:rows], ((0, missing), (0, 0)), constant_values=-1)


OPS = (
    Op(
        "NonMaxSuppression",
        non_max_suppression,
        since=10,
        constants=(2, 3, 4),
        context=True,
        foldable=False,
    ),
)
