"""Is a file a sound ONNX model at all? Asked by every command that reads one."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx.external_data_helper import ExternalDataInfo, uses_external_data

from compile.graph import all_nodes
from compile.values import DTYPES, dtype_of, numpy_dtype
from modeld.errors import ModeldError
from modeld.files import cannot_read, check_regular

# What the checker raises: its own error, and what its bindings make of text that is not UTF-8 and
# of what protobuf cannot hold.
_CHECKER_ERRORS = (onnx.checker.ValidationError, ValueError, RuntimeError, OSError)

# How the checker says that an operator is unknown; it stops at the first one.
_UNKNOWN_OPERATOR = "No Op registered"

# Of the checker's words on a fault.
_MAX_REASON = 400


def read_model(path: Path) -> onnx.ModelProto:
    """The model at `path` without its external weights, also when it breaks the ONNX rules.

    Raises ModeldError when it cannot be read or is no ONNX model.
    """
    check_regular(path)
    try:
        # Whatever the name ends with: the other formats are not what the checker reads.
        model = onnx.load_model(path, format="protobuf", load_external_data=False)
    except OSError as error:
        raise cannot_read(path, error) from None
    except DecodeError as error:
        raise ModeldError(f"{path} is not an ONNX model ({error}); export it again") from None
    if not model.graph.node and not model.graph.output:
        raise ModeldError(f"{path} is not an ONNX model (it has no graph); export it again")
    return model


def broken_rule(path: Path, model: onnx.ModelProto) -> str:
    """Why no build can begin with the `model` read from `path`, in one line; empty when it can."""
    if not model.graph.output:
        return f"{path} has no outputs, so there is nothing to compute; export it with outputs"
    # Before the checker: what it says of such text depends on the version of Python.
    for text in _texts(model):
        if isinstance(text, bytes):  # what the bindings make of it
            return f"{path} breaks the ONNX rules ({text!r} is not UTF-8); export it again"
    try:
        # By path, so that external weights are found.
        onnx.checker.check_model(path)
    except _CHECKER_ERRORS as error:
        return f"{path} breaks the ONNX rules ({_reason(error)}); export it again"
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = {value.name for value in model.graph.input} - constants
    for output in model.graph.output:
        if output.name in inputs:
            return (
                f"{path}: output {output.name} is an input, which no kernel writes; "
                "leave it out, or give it a name of its own with an Identity"
            )
    return _broken_data(path, model)


def refusal(path: Path, model: onnx.ModelProto, incomplete: bool) -> str:
    """What stops a build besides missing operators, in one line; empty when nothing does.

    `incomplete`: operators are missing, which the checker then need not say again.
    """
    if rule := broken_rule(path, model):
        return "" if incomplete and _UNKNOWN_OPERATOR in rule else rule
    shapes = "" if incomplete else _shapes_that_do_not_fit(model)
    return f"{path}: shapes do not fit ({shapes}); export it again" if shapes else ""


def _shapes_that_do_not_fit(model: onnx.ModelProto) -> str:
    """What ONNX's shape inference says about nodes that cannot run on their inputs' shapes."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    # What a model says about shapes besides its inputs may be wrong; a build does not mind.
    del bare.graph.value_info[:]
    for output in bare.graph.output:
        output.type.tensor_type.ClearField("shape")
    try:
        onnx.shape_inference.infer_shapes(bare, strict_mode=True)
    except onnx.shape_inference.InferenceError as error:
        # Errors in the bodies of ONNX's own functions are the body's, which a build does not use.
        return "" if str(error).count("Inference error(s)") > 1 else _reason(error)
    except (ValueError, RuntimeError):
        return ""  # too large to be asked
    return ""


def external_files(model: onnx.ModelProto, base_dir: Path) -> list[Path]:
    """The files beside a sound model that hold its weights, sorted."""
    found = {ExternalDataInfo(tensor).location for tensor in _external_tensors(model)}
    return [base_dir / location for location in sorted(found)]


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    yield from all_nodes(model.graph)
    for function in model.functions:
        yield from function.node


def _texts(model: onnx.ModelProto) -> Iterator[str | bytes]:
    """Whatever an artifact would quote of a model."""
    yield from (model.producer_name, model.producer_version)
    for entry in model.metadata_props:
        yield from (entry.key, entry.value)
    for node in _nodes(model):
        yield from (node.name, *node.input, *node.output)
    for value in (*model.graph.input, *model.graph.output):
        yield value.name
        yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
    yield from (tensor.name for tensor in model.graph.initializer)


def _external_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    for node in _nodes(model):
        for attribute in node.attribute:
            held = (attribute.t, *attribute.tensors, *attribute.g.initializer)
            inner = (tensor for graph in attribute.graphs for tensor in graph.initializer)
            yield from filter(uses_external_data, (*held, *inner))
    yield from filter(uses_external_data, model.graph.initializer)


def _broken_data(path: Path, model: onnx.ModelProto) -> str:
    """Which external weights are not there in full; the checker asks for the file alone."""
    for tensor in _external_tensors(model):
        try:
            problem = _missing_part(tensor, path.parent)
        except (ValueError, OSError) as error:
            problem = _reason(error)
        if problem:
            return f"{path}: weights {tensor.name}: {problem}; export the model again"
    return ""


def _missing_part(tensor: onnx.TensorProto, base_dir: Path) -> str:
    info = ExternalDataInfo(tensor)
    offset = info.offset or 0
    file_bytes = (base_dir / info.location).stat().st_size
    length = max(file_bytes - offset, 0) if info.length is None else info.length
    if offset + length > file_bytes:
        return (
            f"bytes {offset} to {offset + length} of {info.location} are wanted, "
            f"which has {file_bytes}"
        )
    if tensor.data_type not in DTYPES:
        return ""  # refused for its type
    size = math.prod(tensor.dims) * np.dtype(numpy_dtype(dtype_of(tensor.data_type))).itemsize
    if length != size:
        return f"{length} bytes of {info.location} for {list(tensor.dims)}, which needs {size}"
    return ""


def _reason(error: Exception) -> str:
    """The error's text in one line, also where what it quotes is no text."""
    text = (
        error.object.decode("utf-8", "replace")
        if isinstance(error, UnicodeDecodeError)
        else str(error)
    )
    return " ".join(text.split()).rstrip(".")[:_MAX_REASON] or type(error).__name__
