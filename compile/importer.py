"""ONNX file → checked model with static shapes, and a record of the files it came from."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from modeld.errors import ModeldError
from modeld.manifest import Source, SourceFile

# Domains whose operators the artifact can never hold, and why.
_TRAINING = "training runs offline, by `compile.training`; export the model for inference"
_REFUSED_DOMAINS = {"ai.onnx.training": _TRAINING, "ai.onnx.preview.training": _TRAINING}


@dataclass(frozen=True)
class ImportedModel:
    """A model whose shapes are all numbers; `base_dir` is where its external weights lie."""

    model: onnx.ModelProto
    source: Source
    base_dir: Path
    name: str


def import_model(path: Path, dims: Mapping[str, int]) -> ImportedModel:
    """Read, check and fix the shapes of the model at `path`.

    `dims` gives a value to each symbolic dimension. Raises ModeldError when the file is no ONNX
    model, is malformed, needs a dimension that is not given, or has nodes of refused domains.
    """
    model = _read(path)
    _check_domains(model)
    _set_dims(model, dims)
    files = [path, *_external_files(model, path.parent)]
    source = Source(
        files=tuple(_source_file(file) for file in files),
        ir_version=model.ir_version,
        opsets={o.domain or "ai.onnx": o.version for o in model.opset_import},
        producer=" ".join(p for p in (model.producer_name, model.producer_version) if p),
        metadata={p.key: p.value for p in model.metadata_props},
    )
    return ImportedModel(model, source, path.parent, path.stem)


def _read(path: Path) -> onnx.ModelProto:
    try:
        model = onnx.load_model(path, load_external_data=False)
    except OSError as error:
        raise ModeldError(f"{path} cannot be read ({error.strerror})") from None
    except DecodeError as error:
        raise ModeldError(f"{path} is not an ONNX model ({error}); export it again") from None
    if not model.graph.node and not model.graph.output:
        raise ModeldError(f"{path} is not an ONNX model (it has no graph); export it again")
    try:
        # By path, so that external weights are found.
        onnx.checker.check_model(path)
    except onnx.checker.ValidationError as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), "")
        raise ModeldError(f"{path} breaks the ONNX rules ({reason.strip()})") from None
    return model


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Nodes of a graph and of all graphs inside it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from all_nodes(attribute.g)
            for graph_below in attribute.graphs:
                yield from all_nodes(graph_below)


def _check_domains(model: onnx.ModelProto) -> None:
    refused = [node for node in all_nodes(model.graph) if node.domain in _REFUSED_DOMAINS]
    if refused:
        names = ", ".join(f"{node.name or node.op_type} ({node.op_type})" for node in refused)
        domain = refused[0].domain
        raise ModeldError(f"nodes of {domain}: {names}; {_REFUSED_DOMAINS[domain]}")


def _set_dims(model: onnx.ModelProto, dims: Mapping[str, int]) -> None:
    """Put numbers in place of symbolic input dimensions."""
    constants = {tensor.name for tensor in model.graph.initializer}
    unknown: dict[str, list[str]] = {}
    used: set[str] = set()
    for value in model.graph.input:
        if value.name in constants or not value.type.HasField("tensor_type"):
            continue
        for index, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value > 0:
                continue
            # Exporters that know no names write 0 or nothing; such a one is named by its place.
            name = dim.dim_param or f"{value.name}.{index}"
            if name in dims:
                dim.dim_value = dims[name]
                used.add(name)
            elif dim.dim_param or not dim.HasField("dim_value"):
                unknown.setdefault(name, []).append(value.name)
    if unknown:
        listed = "; ".join(f"{name} (of {', '.join(users)})" for name, users in unknown.items())
        options = " ".join(f"--dim {name}=N" for name in unknown)
        raise ModeldError(f"symbolic dimensions without a value: {listed}; give {options}")
    if extra := sorted(dims.keys() - used):
        raise ModeldError(f"--dim {extra[0]}={dims[extra[0]]}: no input has a dimension so named")
    for output in model.graph.output:
        for dim in output.type.tensor_type.shape.dim:
            if dim.dim_param in dims:
                dim.dim_value = dims[dim.dim_param]


def _external_files(model: onnx.ModelProto, base_dir: Path) -> list[Path]:
    locations = {
        entry.value
        for tensor in model.graph.initializer
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return [base_dir / location for location in sorted(locations)]


def _source_file(path: Path) -> SourceFile:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 22):
            digest.update(chunk)
        return SourceFile(path.name, stream.tell(), digest.hexdigest())
