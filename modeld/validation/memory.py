"""The manifest's buffers, and where tensors and weights lie in them."""

from modeld.manifest import Binding, Buffer, Contract, Manifest
from modeld.validation.contract import plain_tensors
from modeld.validation.rules import (
    MAX_BYTES,
    quoted,
    require_apart,
    require_between,
    require_inside,
    require_unique,
    tensor_bytes,
    unsound,
)

ROLES = ("weights", "arena", "input", "output", "state", "frame")
WEIGHTS_BUFFER = "weights"
FRAME_SIDES = ("narrow", "wide")
# What `run_warp` takes beside the frames: matrices, and stride and offset of chroma per frame.
WARP_BYTES = {"transforms": 2 * 3 * 3 * 4, "frame_layout": 2 * 2 * 4}
WARP_OUTPUT = "new_img"


def check_memory(manifest: Manifest) -> None:
    """Raise ModeldError unless all buffers, bindings and weights are sound."""
    buffers = _check_buffers(manifest.buffers)
    _check_weights(manifest, buffers)
    bindings = _check_bindings(manifest, buffers)
    for tensor, role in plain_tensors(manifest.contract):
        _require_binding(bindings, buffers, tensor.name, tensor_bytes(tensor), role)
    _check_state(manifest.contract, bindings, buffers)
    _check_frames(manifest.contract, bindings, buffers)


def _check_buffers(buffers: tuple[Buffer, ...]) -> dict[str, Buffer]:
    require_unique("buffer", (buffer.name for buffer in buffers))
    for buffer in buffers:
        require_between(f"bytes of buffer {quoted(buffer.name)}", buffer.bytes, 1, MAX_BYTES)
        if buffer.role not in ROLES:
            raise unsound(f"buffer {quoted(buffer.name)} has the role {quoted(buffer.role)}")
        if (buffer.role == "weights") != (buffer.name == WEIGHTS_BUFFER):
            raise unsound(f"buffer {quoted(buffer.name)} has the role {quoted(buffer.role)}")
    require_between("bytes of all buffers", sum(b.bytes for b in buffers), 0, MAX_BYTES)
    return {buffer.name: buffer for buffer in buffers}


def _check_weights(manifest: Manifest, buffers: dict[str, Buffer]) -> None:
    require_unique("weight", (weight.name for weight in manifest.weights))
    whole = buffers[WEIGHTS_BUFFER].bytes if WEIGHTS_BUFFER in buffers else 0
    for weight in manifest.weights:
        what = f"weight {quoted(weight.name)}"
        require_inside(what, weight.offset, weight.bytes, whole, manifest.target.alignment)
    require_apart(
        (w.offset, w.offset + w.bytes, f"weight {quoted(w.name)}") for w in manifest.weights
    )


def _check_bindings(manifest: Manifest, buffers: dict[str, Buffer]) -> dict[str, Binding]:
    require_unique("binding of", (binding.tensor for binding in manifest.bindings))
    for binding in manifest.bindings:
        what = f"binding of {quoted(binding.tensor)}"
        if binding.buffer not in buffers:
            raise unsound(f"{what} names the buffer {quoted(binding.buffer)}, which is not there")
        whole = buffers[binding.buffer].bytes
        require_inside(what, binding.offset, binding.bytes, whole, manifest.target.alignment)
    for name in buffers:
        require_apart(
            (b.offset, b.offset + b.bytes, f"binding of {quoted(b.tensor)}")
            for b in manifest.bindings
            if b.buffer == name
        )
    return {binding.tensor: binding for binding in manifest.bindings}


def _require_binding(
    bindings: dict[str, Binding], buffers: dict[str, Buffer], tensor: str, size: int, role: str
) -> Binding:
    binding = bindings.get(tensor)
    if binding is None:
        raise unsound(f"tensor {quoted(tensor)} has no binding")
    if binding.bytes != size:
        raise unsound(f"tensor {quoted(tensor)} has {size} bytes, its binding {binding.bytes}")
    found = buffers[binding.buffer].role
    if found != role:
        raise unsound(f"tensor {quoted(tensor)} lies in a buffer of role {found}, not {role}")
    return binding


def _check_state(
    contract: Contract, bindings: dict[str, Binding], buffers: dict[str, Buffer]
) -> None:
    """Every half of a pair has a buffer of its own, since the runtime swaps whole buffers."""
    sizes = {tensor.name: tensor_bytes(tensor) for tensor in contract.inputs}
    names = [(pair.input, pair.output) for pair in contract.state]
    owners = []
    for before, after in names:
        for name in (before, after):
            binding = _require_binding(bindings, buffers, name, sizes[before], "state")
            whole = buffers[binding.buffer].bytes
            if binding.bytes != whole:
                raise unsound(
                    f"state {quoted(name)} has {binding.bytes} bytes, its buffer has {whole}"
                )
            owners.append(binding.buffer)
    require_unique("buffer of state", owners)
    for buffer in buffers.values():
        if buffer.role == "state" and buffer.name not in owners:
            raise unsound(f"state buffer {quoted(buffer.name)} belongs to no pair")


def _check_frames(
    contract: Contract, bindings: dict[str, Binding], buffers: dict[str, Buffer]
) -> None:
    if not contract.cameras:
        return
    if WARP_OUTPUT not in {tensor.name for tensor in contract.inputs}:
        raise unsound(f"there are cameras, but no input {WARP_OUTPUT}")
    for name, size in WARP_BYTES.items():
        _require_binding(bindings, buffers, name, size, "input")
    for camera in contract.cameras:
        for side in FRAME_SIDES:
            name = f"frame_{side}_{camera.name}"
            if name not in buffers:
                raise unsound(f"there is no buffer {name} for camera {camera.name}")
            _require_binding(bindings, buffers, name, buffers[name].bytes, "frame")
            needed = camera.width * camera.height * 3 // 2
            require_between(f"bytes of buffer {name}", buffers[name].bytes, needed, MAX_BYTES)
