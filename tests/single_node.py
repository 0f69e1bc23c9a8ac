"""Models of one node, run by our operators and by ONNX Runtime."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from tinygrad import Tensor

from compile.runner import GraphRunner
from modeld.errors import ModeldError

Array = npt.NDArray[Any]


def sparsely(cases: Iterable[Any], every: int) -> list[Any]:
    """Cases of which the default suite runs each `every`-th; all others are marked slow."""
    result = []
    for number, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        marks = () if number % every == 0 else (pytest.mark.slow,)
        result.append(pytest.param(*values, marks=marks))
    return result


def node_model(
    op: str,
    inputs: Sequence[Array | None],
    outputs: int = 1,
    opset: int = 17,
    known: Sequence[int] = (),
    domain: str = "",
    shapes: Sequence[Sequence[int]] = (),
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node; the inputs at positions `known` are initializers, None is left out."""
    names = [f"i{n}" if value is not None else "" for n, value in enumerate(inputs)]
    given = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for n, (name, value) in enumerate(zip(names, inputs, strict=True))
        if value is not None and n not in known
    ]
    made = [f"o{n}" for n in range(outputs)]
    infos = [helper.make_empty_tensor_value_info(name) for name in made]
    for n, shape in enumerate(shapes):
        infos[n] = helper.make_tensor_value_info(made[n], onnx.TensorProto.INT64, shape)
    graph = helper.make_graph(
        [helper.make_node(op, names, made, name="it", domain=domain, **attributes)],
        "graph",
        given,
        infos,
        [numpy_helper.from_array(inputs[n], names[n]) for n in known],
    )
    opsets = [helper.make_opsetid("", opset)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 5 if domain == "ai.onnx.ml" else 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def feeds(model: onnx.ModelProto, inputs: Sequence[Array | None]) -> dict[str, Array]:
    """Values for the graph inputs, `i0`, `i1`, …."""
    return {i.name: inputs[int(i.name[1:])] for i in model.graph.input}


def ours(model: onnx.ModelProto, given: Mapping[str, Array]) -> list[Array]:
    """What our operators make of it, on the device."""
    runner = GraphRunner(model)
    results = runner({name: device_tensor(given[name]) for name in runner.inputs})
    return [tensor.contiguous().realize().numpy() for tensor in results.values()]


def device_tensor(array: Array) -> Tensor:
    """An array in device memory, also when it has no dimensions."""
    return Tensor(np.ascontiguousarray(array).reshape(-1)).realize().reshape(array.shape)


def peer(model: onnx.ModelProto, given: Mapping[str, Array]) -> list[Array]:
    """What ONNX Runtime makes of it."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return [np.asarray(value) for value in session.run(None, dict(given))]


def run(op: str, *inputs: Array | None, **options: Any) -> Array:
    """The first output of a node by our operators."""
    model = node_model(op, inputs, **options)
    return ours(model, feeds(model, inputs))[0]


def assert_like_peer(op: str, *inputs: Array | None, atol: float = 2e-6, **options: Any) -> None:
    """Our outputs have ONNX Runtime's shapes and types, and its values to the last few bits."""
    model = node_model(op, inputs, **options)
    given = feeds(model, inputs)
    for found, expected in zip(ours(model, given), peer(model, given), strict=True):
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=atol)


def refusal(op: str, *inputs: Array | None, **options: Any) -> str:
    """The message with which a node is refused."""
    model = node_model(op, inputs, **options)
    try:
        ours(model, feeds(model, inputs))
    except ModeldError as error:
        return str(error)
    raise AssertionError(f"{op} was not refused")
