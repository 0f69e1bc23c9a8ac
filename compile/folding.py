"""Nodes whose inputs are all known: computed once, in numpy, by the onnx package's evaluator.

Shape arithmetic, constants and weight transforms end here, so that no kernel computes them on
every run and nothing has to be read back from a device.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

Array = np.ndarray[Any, Any]

# The evaluator raises whatever its numpy code raises; any of these means "not foldable".
EVALUATOR_ERRORS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
    onnx.onnx_cpp2py_export.checker.ValidationError,
)


def fold(
    node: onnx.NodeProto, inputs: Sequence[Array | None], opsets: dict[str, int]
) -> list[Array] | None:
    """The node's outputs as arrays, or None when the evaluator cannot compute it."""
    names = [f"i{n}" if value is not None else "" for n, value in enumerate(inputs)]
    outputs = [f"o{n}" if name else "" for n, name in enumerate(node.output)]
    single = onnx.NodeProto()
    single.CopyFrom(node)
    del single.input[:], single.output[:]
    single.input.extend(names)
    single.output.extend(outputs)
    graph = onnx.helper.make_graph(
        [single],
        "fold",
        [onnx.helper.make_empty_tensor_value_info(name) for name in names if name],
        [onnx.helper.make_empty_tensor_value_info(name) for name in outputs if name],
    )
    feeds = {name: value for name, value in zip(names, inputs, strict=True) if name}
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            # What its numpy code warns of is not the user's to cure.
            warnings.simplefilter("ignore")
            results = ReferenceEvaluator(graph, opsets=opsets).run(None, feeds)
    except EVALUATOR_ERRORS:
        return None
    if not all(isinstance(value, np.ndarray | np.generic) for value in results):
        return None
    arrays = iter(np.asarray(value) for value in results)
    return [next(arrays) if name else np.empty(0) for name in outputs]
