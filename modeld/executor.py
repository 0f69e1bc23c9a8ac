"""Running an artifact's entry points on an OpenCL device.

Everything is prepared once: programs built, sub-buffers made, arguments set. A turn then is one
upload of what has changed, the launches of `run_warp` and `run_model`, one read and one wait.
Recurrent state never leaves the device (see `launches`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from modeld.artifact import Artifact
from modeld.cameras.frame import Frame, FrameLayout
from modeld.device_memory import DeviceMemory, check_frozen
from modeld.errors import ModeldError
from modeld.footprint import release_compiler
from modeld.frame_buffers import FrameBuffers
from modeld.launches import LaunchEvent, enqueue, prepare_launches, swapped_roles
from modeld.manifest import Call, Contract, Tensor
from modeld.opencl import describe_device, list_devices, select_device
from modeld.program_cache import ProgramCache
from modeld.programs import build_programs, opencl_errors
from modeld.verdict import judge_target, require_runnable
from modeld.wake_latency import bounded_wake_latency

Array = npt.NDArray[np.generic]

# What `run_warp` takes besides the frames: matrices model pixel -> camera pixel, and bytes
# (stride, uv_offset) per frame; row 0 narrow, row 1 wide.
WARP_INPUTS = (
    Tensor("transforms", (2, 3, 3), "float32"),
    Tensor("frame_layout", (2, 2), "int32"),
)
FRAMES = ("frame_narrow", "frame_wide")


@dataclass(frozen=True, slots=True)
class FrameResult:
    """What one turn gave: outputs by name, and device times of its stages in nanoseconds.

    Times are read from the stages' events when they are asked for, after the answer was used.
    """

    outputs: dict[str, Array]
    uploads: Sequence[cl.Event]
    warps: Sequence[LaunchEvent]
    models: Sequence[LaunchEvent]
    reads: Sequence[cl.Event]

    @property
    def upload_ns(self) -> int:
        """Host to device, frames included; 0 when nothing had to move."""
        return _span(self.uploads)

    @property
    def warp_ns(self) -> int:
        """Both frames to the model's views."""
        return _span([event for _, event in self.warps])

    @property
    def model_ns(self) -> int:
        """The network."""
        return _span([event for _, event in self.models])

    @property
    def read_ns(self) -> int:
        """Device to host."""
        return _span(self.reads)


@dataclass(frozen=True, slots=True)
class KernelTime:
    """Device time of one launch of the last run, in nanoseconds."""

    call: Call
    nanoseconds: int


class Executor:
    """An artifact loaded on a device.

    Args:
        artifact: from `open_artifact`.
        device: an OpenCL device; by default one of the platform that the artifact was built on.
        cache: where compiled programs are kept between starts; by default nowhere.
        profile: record each launch's device time, see `kernel_times`.
        initial_state: recurrent state by the state inputs' names; what is not given is zero.
        allow: reasons of degradation to accept, see `modeld.verdict`.

    Raises ModeldError when the artifact must not, or cannot, run on the device.
    """

    def __init__(
        self,
        artifact: Artifact,
        device: cl.Device | None = None,
        *,
        cache: ProgramCache | None = None,
        profile: bool = False,
        initial_state: Mapping[str, Array] | None = None,
        allow: Collection[str] = (),
    ) -> None:
        manifest = artifact.manifest
        self.artifact = artifact
        self.device = device if device is not None else preferred_device(artifact)
        self.info = describe_device(self.device)
        require_runnable(judge_target(manifest, self.info), allow)
        self.cache = cache if cache is not None else ProgramCache(None)
        release_compiler()
        with opencl_errors(f"opening {self.info.device}"):
            context = cl.Context([self.device])
            release_compiler()  # making a context has it initialise itself
            # Profiling stays on: every frame's stage times come from it.
            properties = cl.command_queue_properties.PROFILING_ENABLE
            self._queue = cl.CommandQueue(context, properties=properties)
        self._programs = build_programs(context, artifact, self.cache)
        cpu = self.info.device_class == "cpu"
        self._memory = DeviceMemory(self._queue, artifact, borrow=cpu)
        self.frame_buffers = FrameBuffers(self._queue, in_place=self.info.host_memory)
        self._bindings = {binding.tensor: binding for binding in manifest.bindings}
        self._swap = swapped_roles(manifest.contract.state, self._bindings)
        self._parity = 0
        self._launches = {
            (entry.name, entry.camera.name if entry.camera else ""): prepare_launches(
                entry, self._programs, self._memory, self._swap
            )
            for entry in manifest.entry_points
        }
        self._readers = {
            name: [launch for launch in self._launches["run_model", ""] if launch.reads(name)]
            for name in self._memory.input_buffers()
        }
        frozen = {entry.name for entry in manifest.contract.frozen}
        state = {pair.input: pair.output for pair in manifest.contract.state}
        self._inputs = _without(manifest.contract.inputs, frozen | state.keys())
        self._outputs = _without(manifest.contract.outputs, state.values())
        self._state = [t for t in manifest.contract.inputs if t.name in state]
        self._frame_inputs = [*WARP_INPUTS, *_without(self._inputs, {"new_img"})]
        # A GPU's launches need no processor to wake up.
        self._awake = bounded_wake_latency() if cpu else nullcontext()
        self._profile = profile
        self._kernel_times: list[KernelTime] = []
        self._write_state(initial_state or {})

    @property
    def contract(self) -> Contract:
        """The artifact's interface: inputs, outputs, state pairs, output slices, cameras."""
        return self.artifact.manifest.contract

    def run(
        self, entry: str, inputs: Mapping[str, Array], camera: str | None = None
    ) -> dict[str, Array]:
        """Run `run_model` or `run_warp` on arrays by name; returns outputs by name.

        `run_model` takes the contract's inputs that are not state, advances the state by one turn
        and returns the outputs that are not state. `run_warp` needs `camera` ("1928x1208"), takes
        `frame_narrow` and `frame_wide` (NV12 bytes, uint8 vectors) and `WARP_INPUTS`, and returns
        `new_img`. Shapes and dtypes must be exactly those. Raises ModeldError naming both sides.
        """
        if entry == "run_model":
            return self._run_model(check_frozen(self.contract.frozen, inputs))
        if entry == "run_warp":
            return self._run_warp(inputs, self._check_camera(camera or "none"))
        raise ModeldError(f"no entry point {entry!r}; there are run_model and run_warp")

    def run_frame(
        self,
        narrow: Frame,
        wide: Frame,
        transforms: npt.NDArray[np.float32],
        inputs: Mapping[str, Array],
    ) -> FrameResult:
        """One turn of the daemon: warp both frames, run the model, read its outputs.

        `transforms` is float32 (2,3,3), model pixel -> camera pixel, narrow then wide; `inputs`
        are `run_model`'s besides `new_img`. Raises ModeldError on any mismatch.
        """
        sizes = {f"{f.layout.width}x{f.layout.height}" for f in (narrow, wide)}
        if len(sizes) > 1:
            raise ModeldError(f"narrow and wide frame differ in size: {', '.join(sorted(sizes))}")
        camera = self._check_camera(sizes.pop())
        layout = [[f.layout.stride, f.layout.uv_offset] for f in (narrow, wide)]
        given = {
            "transforms": transforms,
            "frame_layout": np.array(layout, np.int32),
            **inputs,
        }
        with self._awake, opencl_errors("run_frame"):
            self._memory.stage(self._frame_inputs, given)
            uploads = self._memory.upload()
            self._bind_inputs()
            for name, frame in zip(FRAMES, (narrow, wide), strict=True):
                uploads += self._bind_frame(name, frame.layout, frame.data)
            warps = self._enqueue("run_warp", camera)
            models = self._enqueue("run_model", "")
            self._parity ^= 1
            reads = self._memory.download()
        self._record([*warps, *models])
        return FrameResult(self._memory.results(self._outputs), uploads, warps, models, reads)

    def reset(self) -> None:
        """Set all recurrent state to zero."""
        self._parity = 0
        self._memory.zero_state()

    def state(self) -> dict[str, Array]:
        """A copy of the recurrent state, by the state inputs' names."""
        with opencl_errors("reading the recurrent state"):
            return {t.name: self._memory.read(self._state_buffer(t), t) for t in self._state}

    def kernel_times(self) -> list[KernelTime]:
        """Device time of every launch of the last run, in order; empty without `profile`."""
        return list(self._kernel_times)

    def keep_programs(self) -> None:
        """Store freshly compiled programs in the cache; call it once every kernel has run."""
        self._programs.store(self.cache)

    def _run_model(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        with self._awake, opencl_errors("run_model"):
            self._memory.stage(self._inputs, inputs)
            self._memory.upload()
            self._bind_inputs()
            events = self._enqueue("run_model", "")
            self._parity ^= 1
            self._memory.download()
        self._record(events)
        return self._memory.results(self._outputs)

    def _run_warp(self, inputs: Mapping[str, Array], camera: str) -> dict[str, Array]:
        self._memory.stage(WARP_INPUTS, {k: v for k, v in inputs.items() if k not in FRAMES})
        with opencl_errors("run_warp"):
            self._memory.upload()
            rows = np.asarray(inputs["frame_layout"])
            width, height = (int(side) for side in camera.split("x"))
            for name, (stride, uv_offset) in zip(FRAMES, rows.tolist(), strict=True):
                layout = FrameLayout(width, height, stride, uv_offset)
                self._bind_frame(name, layout, inputs.get(name))
            events = self._enqueue("run_warp", camera)
            tensor = next(t for t in self.contract.inputs if t.name == "new_img")
            image = self._memory.read(self._bindings["new_img"].buffer, tensor)
        self._record(events)
        return {"new_img": image}

    def _check_camera(self, camera: str) -> str:
        known = [c.name for c in self.contract.cameras]
        if camera not in known:
            raise ModeldError(
                f"no run_warp for camera {camera}; the artifact has {', '.join(known) or 'none'}, "
                f"build it with --camera {camera}"
            )
        return camera

    def _bind_frame(self, name: str, layout: FrameLayout, data: Array | None) -> list[cl.Event]:
        # The kernel computes addresses from the layout, so what does not fit is stopped here.
        camera, needed = f"{layout.width}x{layout.height}", layout.bytes
        if layout.stride < layout.width or layout.uv_offset < layout.stride * layout.height:
            raise ModeldError(
                f"{name} has stride {layout.stride} and chroma at {layout.uv_offset}, "
                f"too little for {camera}"
            )
        if data is None or data.dtype != np.uint8 or data.ndim != 1 or data.nbytes < needed:
            found = "missing" if data is None else f"{data.dtype}{list(data.shape)}"
            raise ModeldError(f"{name} is {found}, {camera} needs a uint8 vector of {needed} bytes")
        buffer, events = self.frame_buffers.bind(name, data)
        for launch in self._launches["run_warp", camera]:
            launch.bind(f"{name}_{camera}", buffer)
        return events

    def _bind_inputs(self) -> None:
        for name, buffer in self._memory.input_buffers().items():
            for launch in self._readers[name]:
                launch.bind(name, buffer)

    def _enqueue(self, entry: str, camera: str) -> list[LaunchEvent]:
        return enqueue(self._queue, self._launches[entry, camera], self._parity)

    def _record(self, launched: list[LaunchEvent]) -> None:
        if self._profile:
            self._kernel_times = [
                KernelTime(call, int(event.profile.end - event.profile.start))
                for call, event in launched
            ]

    def _state_buffer(self, tensor: Tensor) -> str:
        buffer = self._bindings[tensor.name].buffer
        return self._swap[buffer] if self._parity else buffer

    def _write_state(self, state: Mapping[str, Array]) -> None:
        known = {tensor.name: tensor for tensor in self._state}
        for name, array in state.items():
            tensor = known.get(name)
            if tensor is None or array.shape != tensor.shape or array.dtype != tensor.dtype:
                wanted = ", ".join(f"{t.name} {t.dtype}{list(t.shape)}" for t in self._state)
                raise ModeldError(
                    f"initial state {name} is {array.dtype}{list(array.shape)}; "
                    f"the model has {wanted or 'no state'}"
                )
            with opencl_errors("writing the initial state"):
                self._memory.write(self._state_buffer(tensor), array)


def preferred_device(artifact: Artifact) -> cl.Device:
    """A device of the platform that the artifact was built on, or else the first one."""
    platform = artifact.manifest.target.platform
    matching = [d for d in list_devices() if d.platform.name.strip() == platform]
    return matching[0] if matching else select_device()


def _without(tensors: Iterable[Tensor], names: Collection[str]) -> list[Tensor]:
    return [tensor for tensor in tensors if tensor.name not in names]


def _span(events: Sequence[cl.Event]) -> int:
    """Device time from the first start to the last end, in nanoseconds; 0 for no event."""
    if not events:
        return 0
    return int(events[-1].profile.end - events[0].profile.start)
