"""Which generation a set of files is: recognised by inputs, outputs and metadata, checked whole."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compile.generations.part import FLOATS, Part, image_names
from compile.generations.rules import (
    CONSTANTS,
    CURVATURE,
    CURVATURES,
    CURVATURES_SHAPE,
    DESIRE,
    DESIRED_CURVATURE,
    DESIRES,
    FEATURES,
    FED_BACK,
    FRAMES_PER_STEP,
    HIDDEN_STATE,
    HOST_INPUTS,
    HOST_SHAPE,
    IMAGE_PAIR,
    KNOWN_INPUTS,
    PLANNER,
    PLANNER_COLUMNS,
    PLANNER_POINTS,
    PLANNER_SHAPE,
    PLANNER_SOLUTION,
)
from modeld.errors import ModeldError
from modeld.manifest import Tensor
from modeld.outputs import OutputParser


@dataclass(frozen=True)
class Network:
    """A driving network of a past generation, known to be complete.

    `first` takes the frames; with `policies` it gives them its feature, without it is the whole
    network. `steps` of context count the present; one is `frames_per_step` frames after another.
    `row` is the shape of one feature. `heads` lie in the vectors of all parts, joined in order.
    """

    generation: str
    first: Part
    policies: tuple[Part, ...]
    images: tuple[str, str]
    steps: int
    frames_per_step: int
    row: tuple[int, ...]
    heads: Mapping[str, tuple[int, int]]

    @property
    def parts(self) -> tuple[Part, ...]:
        """All files, in the order of their vectors in `outputs`."""
        return (self.first, *self.policies)


def find_network(parts: Sequence[Part]) -> Network:
    """The network that `parts` make up.

    Of heads that several parts have, a policy's counts before vision's, and an earlier policy's
    before a later one's; files named off_policy come last. Raises ModeldError naming the input,
    head or file that is missing or belongs to no known generation.
    """
    first, policies = _roles(parts)
    images = image_names(set(first.inputs))
    if images is None:
        raise ModeldError(
            f"{first.name} has no frames as input; give the vision file before its policy: "
            f"modeld-compile build VISION.onnx {first.name} --out DIR"
        )
    past = 0 if policies else 1
    shape = _features(policies or (first,)).shape
    steps = shape[1] + past if len(shape) in (3, 4) and shape[0] == 1 else 0
    if steps not in FRAMES_PER_STEP:
        known = ", ".join(str(count - past) for count in FRAMES_PER_STEP)
        raise ModeldError(
            f"driving model: input {FEATURES} is {list(shape)}; the generations known here have "
            f"[1, T, 512] or [1, T, 32, 512] with T of {known}"
        )
    skip = FRAMES_PER_STEP[steps]
    kind = "vision-policy" if policies else "supercombo"
    generation = f"{kind}-{20 // skip}hz"
    network = Network(
        generation, first, policies, images, steps, skip, shape[2:], _joined(first, policies)
    )
    _check_inputs(network, shape)
    _check_heads(network)
    return network


def _roles(parts: Sequence[Part]) -> tuple[Part, tuple[Part, ...]]:
    """The part that takes frames, and the policies."""
    if len(parts) == 1:
        (only,) = parts
        if FEATURES not in only.inputs:
            raise ModeldError(
                f"{only.name} is the vision part of a network; give its policy too: "
                f"modeld-compile build {only.name} POLICY.onnx --out DIR"
            )
        return only, ()
    seeing = [part for part in parts if image_names(set(part.inputs)) is not None]
    policies = [part for part in parts if part not in seeing]
    if len(seeing) != 1:
        names = ", ".join(part.name for part in seeing) or "none of them"
        raise ModeldError(
            "several files must be one that takes frames and its policies, but frames are taken "
            f"by {names}; give files of one network"
        )
    if FEATURES in seeing[0].inputs:
        raise ModeldError(f"{seeing[0].name} is a whole network; build it by itself")
    return seeing[0], tuple(sorted(policies, key=lambda part: "off_policy" in part.name))


def _features(parts: Sequence[Part]) -> Tensor:
    """The history of features, which all `parts` must have alike."""
    for part in parts:
        if FEATURES not in part.inputs:
            raise ModeldError(f"{part.name} has no input {FEATURES}; give files of one network")
        tensor, first = part.inputs[FEATURES], parts[0].inputs[FEATURES]
        if tensor.shape != first.shape:
            raise ModeldError(
                f"{part.name} has {FEATURES} {list(tensor.shape)}, {parts[0].name} has "
                f"{list(first.shape)}; give files of one network"
            )
    return parts[0].inputs[FEATURES]


def _joined(first: Part, policies: Sequence[Part]) -> dict[str, tuple[int, int]]:
    if not policies:
        return dict(first.heads)
    start, placed = 0, []
    for part in (first, *policies):
        placed.append({name: (start + a, start + b) for name, (a, b) in part.heads.items()})
        start += part.size
    vision, *others = placed
    heads = dict(vision)
    for table in reversed(others):
        heads |= table
    # The feature that goes back is vision's. Each part is padded by itself: no such range is the
    # padding of the whole.
    for name in (HIDDEN_STATE, "pad"):
        heads.pop(name, None)
    return heads | {name: vision[name] for name in (HIDDEN_STATE,) if name in vision}


def _check_inputs(network: Network, features: tuple[int, ...]) -> None:
    steps = network.steps
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(network.images, IMAGE_PAIR)
    shapes |= {FEATURES: features, CURVATURE: (1, steps, 1), PLANNER: PLANNER_SHAPE}
    shapes |= dict.fromkeys(DESIRES, (1, steps, DESIRE)) | dict.fromkeys(HOST_INPUTS, HOST_SHAPE)
    shapes |= {name: value.shape for name, value in CONSTANTS.items()}
    if network.frames_per_step == 1:
        shapes[CURVATURES] = CURVATURES_SHAPE
    for part in network.parts:
        for name, tensor in part.inputs.items():
            if name not in shapes:
                raise ModeldError(
                    f"{part.name}: input {name} {list(tensor.shape)} is unknown in a driving "
                    f"model of generation {network.generation}; known are "
                    f"{', '.join(known for known in KNOWN_INPUTS if known in shapes)}"
                )
            dtypes = ("uint8", *FLOATS) if name in network.images else FLOATS
            if tensor.shape != shapes[name] or tensor.dtype not in dtypes:
                raise ModeldError(
                    f"{part.name}: input {name} is {tensor.dtype}{list(tensor.shape)}, generation "
                    f"{network.generation} has {' or '.join(dtypes)} of {list(shapes[name])}"
                )


def _check_heads(network: Network) -> None:
    """What is fed back must be there, and all that the messages need."""
    needed: dict[str, tuple[int, ...]] = {HIDDEN_STATE: (math.prod(network.row),)}
    inputs = {name for part in network.parts for name in part.inputs}
    widths = {DESIRED_CURVATURE: (1, 2), PLANNER_SOLUTION: (2 * PLANNER_POINTS * PLANNER_COLUMNS,)}
    needed |= {head: widths[head] for name, head in FED_BACK.items() if name in inputs}
    for head, allowed in needed.items():
        if head not in network.heads:
            where = network.first.name if head == HIDDEN_STATE else "the model"
            raise ModeldError(f"{where} has no output {head}, which it needs back as an input")
        start, stop = network.heads[head]
        if stop - start not in allowed:
            raise ModeldError(
                f"output {head} has {stop - start} elements, its input wants "
                f"{' or '.join(str(width) for width in allowed)}"
            )
    OutputParser(network.heads, sum(part.size for part in network.parts))
