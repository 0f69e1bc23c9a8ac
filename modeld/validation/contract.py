"""The manifest's runtime interface."""

from collections.abc import Iterator

from modeld.manifest import Camera, Contract, Manifest, Tensor
from modeld.validation.identity import SHA256
from modeld.validation.rules import (
    array_bytes,
    quoted,
    require_between,
    require_unique,
    tensor_bytes,
    unsound,
)

KINDS = ("driving", "generic")
# What heads are slices of.
SLICED_OUTPUT = "outputs"
MAX_FRAME_SIDE = 1 << 16


def check_contract(manifest: Manifest) -> None:
    """Raise ModeldError unless the contract is sound in itself."""
    contract = manifest.contract
    if contract.kind not in KINDS:
        raise unsound(f"contract.kind is {quoted(contract.kind)}, neither driving nor generic")
    inputs = (*contract.inputs, *contract.outputs)
    require_unique("tensor", [*(t.name for t in inputs), *(f.name for f in contract.frozen)])
    for tensor in inputs:
        tensor_bytes(tensor)
    _check_frozen(contract)
    _check_state(contract)
    _check_slices(contract)
    _check_cameras(contract.cameras)


def _check_frozen(contract: Contract) -> None:
    for frozen in contract.frozen:
        array_bytes(quoted(frozen.name), frozen.shape, frozen.dtype)
        if not SHA256.fullmatch(frozen.sha256):
            raise unsound(f"sha256 of frozen {quoted(frozen.name)} is {quoted(frozen.sha256)}")


def _check_state(contract: Contract) -> None:
    inputs = {tensor.name: tensor for tensor in contract.inputs}
    outputs = {tensor.name: tensor for tensor in contract.outputs}
    require_unique("state", (name for p in contract.state for name in (p.input, p.output)))
    for pair in contract.state:
        before, after = inputs.get(pair.input), outputs.get(pair.output)
        if before is None or after is None:
            raise unsound(
                f"state {quoted(pair.input)} → {quoted(pair.output)} names no input or no output"
            )
        if (before.shape, before.dtype) != (after.shape, after.dtype):
            raise unsound(f"state {quoted(pair.input)} and {quoted(pair.output)} differ in type")


def _check_slices(contract: Contract) -> None:
    require_unique("output slice", (head.name for head in contract.output_slices))
    for head in contract.output_slices:
        size = _elements(contract.outputs)
        require_between(f"start of slice {quoted(head.name)}", head.start, 0, size)
        require_between(f"stop of slice {quoted(head.name)}", head.stop, head.start, size)


def _elements(outputs: tuple[Tensor, ...]) -> int:
    for tensor in outputs:
        if tensor.name == SLICED_OUTPUT:
            return tensor_bytes(tensor) // array_bytes("an element", (), tensor.dtype)
    raise unsound(f"there are output slices, but no output is named {SLICED_OUTPUT}")


def _check_cameras(cameras: tuple[Camera, ...]) -> None:
    for camera in cameras:
        for side in (camera.width, camera.height):
            require_between("a side of a camera's frame", side, 2, MAX_FRAME_SIDE)
            if side % 2:
                raise unsound(f"a side of a camera's frame is {side}; NV12 frames are even")
    require_unique("camera", (camera.name for camera in cameras))


def plain_tensors(contract: Contract) -> Iterator[tuple[Tensor, str]]:
    """Inputs and outputs that are not state, with the role their buffers have."""
    state = {name for pair in contract.state for name in (pair.input, pair.output)}
    for tensors, role in ((contract.inputs, "input"), (contract.outputs, "output")):
        for tensor in tensors:
            if tensor.name not in state:
                yield tensor, role
