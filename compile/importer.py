"""ONNX files → checked model with static shapes, and a record of the files it came from."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from compile.coverage import check_coverage, coverage
from compile.generations import TODAY, find_network, is_part, read_part, wrap
from compile.graph import all_nodes
from compile.rules import broken_rule, external_files, read_model
from modeld.errors import ModeldError
from modeld.manifest import Source, SourceFile

# Domains whose operators the artifact can never hold, and why.
_TRAINING = "training runs offline, by `compile.training`; export the model for inference"
_REFUSED_DOMAINS = {"ai.onnx.training": _TRAINING, "ai.onnx.preview.training": _TRAINING}


@dataclass(frozen=True)
class ImportedModel:
    """A model whose shapes are all numbers; `base_dir` is where its external weights lie.

    `generation` is that of the files, if they are a driving network.
    """

    model: onnx.ModelProto
    source: Source
    base_dir: Path
    name: str
    generation: str


def import_model(
    path: Path, dims: Mapping[str, int], policies: Sequence[Path] = ()
) -> ImportedModel:
    """Read, check and fix the shapes of the model at `path`, or of a vision part and its policies.

    `dims` gives a value to each symbolic dimension. A driving network of a past generation is
    wrapped into today's interface. Raises ModeldError when a file is no ONNX model, is malformed,
    needs a dimension that is not given, has nodes of refused domains or (all of them named) ones
    that ONNX does not know, or is a driving network that is not whole or of no known generation.
    """
    paths = (path, *policies)
    models = [_read(file) for file in paths]
    for model in models:
        _check_domains(model)
    _set_dims(models, dims)
    source = _source(paths, models)
    model, generation = _as_today(paths, models)
    return ImportedModel(model, source, path.parent, path.stem, generation)


def _source(paths: Sequence[Path], models: Sequence[onnx.ModelProto]) -> Source:
    """Where the model comes from; of several files, each one's metadata after its name."""
    files: list[Path] = []
    metadata: dict[str, str] = {}
    opsets: dict[str, int] = {}
    for path, model in zip(paths, models, strict=True):
        files += [path, *external_files(model, path.parent)]
        prefix = f"{path.stem}." if len(paths) > 1 else ""
        metadata |= {f"{prefix}{p.key}": p.value for p in model.metadata_props}
        opsets |= {o.domain or "ai.onnx": o.version for o in model.opset_import}
    first = models[0]
    return Source(
        files=tuple(_source_file(file) for file in files),
        ir_version=first.ir_version,
        opsets=opsets,
        producer=" ".join(p for p in (first.producer_name, first.producer_version) if p),
        metadata=metadata,
    )


def _as_today(
    paths: Sequence[Path], models: Sequence[onnx.ModelProto]
) -> tuple[onnx.ModelProto, str]:
    """One model, wrapped where it needs to be, and the generation it is of."""
    if len(models) == 1 and not is_part(models[0]):
        return models[0], TODAY
    for path, model in zip(paths, models, strict=True):
        if not is_part(model):
            raise ModeldError(
                f"{path.name} is neither vision nor policy of a driving network of two files; "
                "build it by itself"
            )
        if path.parent != paths[0].parent:
            # The wrapped model has one folder for external weights.
            onnx.load_external_data_for_model(model, str(path.parent))
    parts = [read_part(path.name, model) for path, model in zip(paths, models, strict=True)]
    network = find_network(parts)
    return wrap(network), network.generation


def _read(path: Path) -> onnx.ModelProto:
    model = read_model(path)
    if rule := broken_rule(path, model):
        # The checker stops at the first operator that it does not know; ours names all.
        if coverage(model).unsupported:
            check_coverage(model)
        raise ModeldError(rule)
    return model


def _check_domains(model: onnx.ModelProto) -> None:
    refused = [node for node in all_nodes(model.graph) if node.domain in _REFUSED_DOMAINS]
    if refused:
        names = ", ".join(f"{node.name or node.op_type} ({node.op_type})" for node in refused)
        domain = refused[0].domain
        raise ModeldError(f"nodes of {domain}: {names}; {_REFUSED_DOMAINS[domain]}")


def _set_dims(models: Sequence[onnx.ModelProto], dims: Mapping[str, int]) -> None:
    """Put numbers in place of symbolic dimensions."""
    unknown: dict[str, list[str]] = {}
    used: set[str] = set()
    for model in models:
        _set_input_dims(model, dims, used, unknown)
        for output in model.graph.output:
            for dim in output.type.tensor_type.shape.dim:
                if dim.dim_param in dims:
                    dim.dim_value = dims[dim.dim_param]
    if unknown:
        listed = "; ".join(f"{name} (of {', '.join(users)})" for name, users in unknown.items())
        options = " ".join(f"--dim {name}=N" for name in unknown)
        raise ModeldError(f"symbolic dimensions without a value: {listed}; give {options}")
    if extra := sorted(dims.keys() - used):
        raise ModeldError(f"--dim {extra[0]}={dims[extra[0]]}: no input has a dimension so named")


def _set_input_dims(
    model: onnx.ModelProto, dims: Mapping[str, int], used: set[str], unknown: dict[str, list[str]]
) -> None:
    constants = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.name in constants or not value.type.HasField("tensor_type"):
            continue
        for index, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value > 0:
                continue
            # Exporters that know no names write -1, 0 or nothing; such a one is named by its place.
            name = dim.dim_param or f"{value.name}.{index}"
            if name in dims:
                dim.dim_value = dims[name]
                used.add(name)
            elif not dim.HasField("dim_value") or dim.dim_value < 0:
                unknown.setdefault(name, []).append(value.name)


def _source_file(path: Path) -> SourceFile:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 22):
            digest.update(chunk)
        return SourceFile(path.name, stream.tell(), digest.hexdigest())
