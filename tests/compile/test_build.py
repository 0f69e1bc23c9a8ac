"""Whole builds of small models: what comes out is what the model says, on disk and in memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx_models import QueueModel, conv_model, driving_model, queue_model, save_model, tensor
from two_builds import build_twice, require_same_files

from compile.build import build
from compile.cli import main
from compile.inspect import report
from compile.request import BuildRequest
from modeld import Executor, open_artifact
from modeld.errors import ModeldError
from modeld.executor import Executor as ExecutorType
from modeld.manifest import Camera, StatePair
from modeld.opencl import select_device
from modeld.selftest import check


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("queues")
    build(BuildRequest(queue_model(folder / "queues.onnx"), folder / "artifact"))
    return folder / "artifact"


@pytest.fixture(scope="module")
def driving(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("driving")
    request = BuildRequest(
        driving_model(folder / "driving.onnx"), folder / "artifact", cameras=(Camera(64, 48),)
    )
    build(request)
    return folder / "artifact"


def executor_of(path: Path) -> ExecutorType:
    return Executor(open_artifact(path), select_device())


def test_conv_equals_onnxruntime(tmp_path: Path) -> None:
    model = conv_model(tmp_path / "conv.onnx", batch="n")
    digest = build(BuildRequest(model, tmp_path / "conv", dims={"n": 2}))
    executor = Executor(open_artifact(tmp_path / "conv", digest), select_device())
    x = np.random.default_rng(1).standard_normal((2, 3, 8, 16)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(model).run(None, {"x": x})
    np.testing.assert_allclose(executor.run("run_model", {"x": x})["y"], expected, rtol=1e-5)
    assert executor.contract.kind == "generic"
    assert executor.artifact.manifest.source.files[0].name == "conv.onnx"
    assert executor.artifact.manifest.name == "conv"


def test_self_test_is_exact(queues: Path) -> None:
    assert check(executor_of(queues), open_artifact(queues)).exact


def test_2000_frames_of_state_equal_numpy_queues(queues: Path) -> None:
    executor, expected = executor_of(queues), QueueModel()
    rng = np.random.default_rng(3)
    assert executor.contract.state == tuple(
        StatePair(f"state_{n}_q", f"next_state_{n}_q") for n in ("img", "desire", "feat")
    )
    for _ in range(2000):
        inputs = {
            "img": rng.integers(0, 256, (2, 3, 4), np.uint8),
            "desire": (rng.random((1, 8)) < 0.1).astype(np.float32),
            "feat": rng.standard_normal((1, 16)).astype(np.float32),
        }
        found = executor.run("run_model", inputs)
        for name, array in expected.step(inputs).items():
            np.testing.assert_array_equal(found[name], array, strict=True)
    state = executor.state()
    np.testing.assert_array_equal(state["state_feat_q"], expected.features, strict=True)


def test_no_launch_reads_and_writes_one_state_buffer(queues: Path) -> None:
    manifest = open_artifact(queues).manifest
    (entry,) = manifest.entry_points
    for call in entry.calls:
        written = {a.buffer for a in call.arguments if a.access != "read"}
        read = {a.buffer for a in call.arguments if a.access != "write"}
        assert not (written & read) - {"arena"}


RACE_SCRIPT = """
import sys
import numpy as np
from modeld import Executor, open_artifact
from modeld.opencl import list_devices
(device,) = list_devices()
accepted = ("other-device", "other-driver", "other-platform")
executor = Executor(open_artifact(sys.argv[1]), device, allow=accepted)
inputs = {t.name: np.ones(t.shape, t.dtype) for t in executor.contract.inputs}
for pair in executor.contract.state:
    del inputs[pair.input]
for _ in range(3):
    executor.run("run_model", inputs)
print("finished")
"""


def run_under_oclgrind(artifact: Path, script: str = RACE_SCRIPT) -> str:
    """What the simulator with its data-race detector says about `script`."""
    result = subprocess.run(
        ["/usr/bin/oclgrind", "--data-races", sys.executable, "-c", script, str(artifact)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "finished" in result.stdout, result.stderr
    return result.stdout + result.stderr


needs_oclgrind = pytest.mark.skipif(
    not Path("/usr/bin/oclgrind").exists() and not os.environ.get("CI"),
    reason="oclgrind is not installed",
)


@needs_oclgrind
def test_state_kernels_have_no_race(queues: Path) -> None:
    report = run_under_oclgrind(queues)
    assert "data race" not in report
    assert "Invalid" not in report


@needs_oclgrind
def test_race_detector_sees_an_update_in_place(queues: Path, tmp_path: Path) -> None:
    # The mistake that the rule forbids, made by hand: next_X in the buffer of X.
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in queues.rglob("*"):
        target = broken / path.relative_to(queues)
        target.mkdir() if path.is_dir() else target.write_bytes(path.read_bytes())
    manifest = json.loads((broken / "manifest.json").read_text())
    for call in manifest["entry_points"][0]["calls"]:
        for argument in call["arguments"]:
            argument["buffer"] = argument["buffer"].removeprefix("next_")
    (broken / "manifest.json").write_bytes(canonical(manifest))
    with pytest.raises(ModeldError, match="which run_model must not"):
        open_artifact(broken)
    assert "data race" in run_under_oclgrind(broken, UNCHECKED + RACE_SCRIPT)


# For what the check of the manifest would refuse before any launch.
UNCHECKED = """
import modeld.artifact
modeld.artifact.validate = lambda manifest: None
"""


def canonical(document: object) -> bytes:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode() + b"\n"


WARP_SCRIPT = """
import sys
import numpy as np
from modeld import Executor, open_artifact
from modeld.cameras.nv12 import packed_layout
from modeld.opencl import list_devices
(device,) = list_devices()
accepted = ("other-device", "other-driver", "other-platform")
executor = Executor(open_artifact(sys.argv[1]), device, allow=accepted)
layout = packed_layout(64, 48)
frame = np.zeros(layout.bytes, np.uint8)
places = np.array([[layout.stride, layout.uv_offset]] * 2, np.int32)
# Not a number everywhere; beyond the right and above the top; and back inside in between.
far = [[1e30, 0, 10], [-1e30, 0, 10], [0, 0, 1]]
transforms = np.array([np.zeros((3, 3)), far], np.float32)
executor.run("run_warp", {"frame_narrow": frame, "frame_wide": frame, "frame_layout": places,
             "transforms": transforms}, camera="64x48")
print("finished")
"""


@needs_oclgrind
def test_warp_never_leaves_the_frame(driving: Path) -> None:
    report = run_under_oclgrind(driving, WARP_SCRIPT)
    assert "data race" not in report
    assert "Invalid" not in report


def test_driving_contract(driving: Path) -> None:
    contract = open_artifact(driving).manifest.contract
    assert (contract.kind, contract.generation) == ("driving", "new_img")
    assert [(s.name, s.start, s.stop) for s in contract.output_slices] == [
        ("a", 0, 4),
        ("pad", 4, 6),
    ]
    assert contract.cameras == (Camera(64, 48),)
    executor = executor_of(driving)
    image = np.random.default_rng(0).integers(0, 256, (2, 6, 128, 256), np.uint8)
    desire = np.zeros((1, 8), np.float32)
    desire[0, 3] = 1
    mean = image.mean(axis=(0, 2, 3))
    first = executor.run("run_model", {"new_img": image, "desire": desire})["outputs"]
    second = executor.run("run_model", {"new_img": image, "desire": desire})["outputs"]
    np.testing.assert_allclose(first[0], mean + 1, rtol=1e-5)
    np.testing.assert_allclose(second[0], 2 * mean + 1, rtol=1e-5)


def test_frozen_input_is_baked_in_recorded_and_checked(tmp_path: Path) -> None:
    model = save_model(
        tmp_path / "reshape.onnx",
        [helper.make_node("Reshape", ["x", "shape"], ["y"], name="reshape")],
        [tensor("x", (2, 6)), tensor("shape", (2,), TensorProto.INT64)],
        [tensor("y", ("a", "b"))],
    )
    with pytest.raises(ModeldError, match=r"shape.*--const shape="):
        build(BuildRequest(model, tmp_path / "out"))
    assert not (tmp_path / "out").exists()
    shape = np.array([3, 4], np.int64)
    build(BuildRequest(model, tmp_path / "out", constants={"shape": shape}))
    executor = executor_of(tmp_path / "out")
    assert [f.name for f in executor.contract.frozen] == ["shape"]
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    np.testing.assert_array_equal(
        executor.run("run_model", {"x": x, "shape": shape})["y"], x.reshape(3, 4), strict=True
    )
    with pytest.raises(ModeldError, match="shape"):
        executor.run("run_model", {"x": x, "shape": np.array([4, 3], np.int64)})


def test_constant_parts_are_computed_at_build_time(tmp_path: Path) -> None:
    # y = x + (w * w): the square must be a weight, not a launch of every run.
    w = np.arange(1, 9, dtype=np.float32)
    model = save_model(
        tmp_path / "m.onnx",
        [
            helper.make_node("Mul", ["w", "w"], ["ww"], name="square"),
            helper.make_node("Add", ["x", "ww"], ["y"], name="add"),
        ],
        [tensor("x", (8,))],
        [tensor("y", (8,))],
        {"w": w},
    )
    build(BuildRequest(model, tmp_path / "out"))
    executor = executor_of(tmp_path / "out")
    assert executor.artifact.manifest.budget.kernels == 1
    x = np.ones(8, np.float32)
    np.testing.assert_array_equal(executor.run("run_model", {"x": x})["y"], x + w * w)


def test_outputs_that_are_inputs_constants_and_repeats(tmp_path: Path) -> None:
    model = save_model(
        tmp_path / "m.onnx",
        [
            helper.make_node("Identity", ["x"], ["copy"]),
            helper.make_node("Identity", ["k"], ["constant"]),
            helper.make_node("Neg", ["x"], ["first"]),
            helper.make_node("Identity", ["first"], ["second"]),
            helper.make_node("Reshape", ["first", "shape"], ["third"]),
        ],
        [tensor("x", (4,))],
        [
            tensor("copy", (4,)),
            tensor("constant", (3,)),
            tensor("first", (4,)),
            tensor("second", (4,)),
            tensor("third", (2, 2)),
        ],
        {"k": np.array([1, 2, 3], np.float32), "shape": np.array([2, 2], np.int64)},
    )
    build(BuildRequest(model, tmp_path / "out"))
    x = np.array([1, -2, 3, -4], np.float32)
    found = executor_of(tmp_path / "out").run("run_model", {"x": x})
    np.testing.assert_array_equal(found["copy"], x)
    np.testing.assert_array_equal(found["constant"], [1, 2, 3])
    for name in ("first", "second"):
        np.testing.assert_array_equal(found[name], -x)
    np.testing.assert_array_equal(found["third"], -x.reshape(2, 2))


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        ("float32", []),
        ("float16", ["--dtype", "float16", "--range-report", "ranges.tsv"]),
    ],
)
def test_two_processes_build_the_same_bytes(tmp_path: Path, dtype: str, options: list[str]) -> None:
    first, second = build_twice(conv_model(tmp_path / "conv.onnx"), tmp_path, options)
    require_same_files(first, second)
    assert open_artifact(first / "out").manifest.dtypes.weights == dtype
    assert (first / "ranges.tsv").exists() == ("--range-report" in options)


def test_model_that_ignores_its_input_is_refused(tmp_path: Path) -> None:
    # Comparing normal noise with 100 gives False whatever the seed.
    model = save_model(
        tmp_path / "m.onnx",
        [helper.make_node("Greater", ["x", "hundred"], ["y"])],
        [tensor("x", (4,))],
        [tensor("y", (4,), TensorProto.BOOL)],
        {"hundred": np.array(100, np.float32)},
    )
    with pytest.raises(ModeldError, match=r"same for two different inputs.*--reference-inputs"):
        build(BuildRequest(model, tmp_path / "out"))
    x = np.array([200, 0, 0, 0], np.float32)
    build(BuildRequest(model, tmp_path / "out", reference_inputs={"x": x}))
    assert executor_of(tmp_path / "out").run("run_model", {"x": x})["y"].tolist() == [
        *(True, False, False, False)
    ]


def out_of_range_model(path: Path) -> Path:
    """y = x + row 77 of ten: numbers come out of our kernels, and an error out of all others."""
    return save_model(
        path,
        [
            helper.make_node("Gather", ["w", "i"], ["z"], name="gather"),
            helper.make_node("Add", ["z", "x"], ["y"]),
        ],
        [tensor("x", (1, 4))],
        [tensor("y", (1, 4))],
        {"w": np.ones((10, 4), np.float32), "i": np.array([77], np.int64)},
    )


def test_model_that_no_second_implementation_runs_is_refused(tmp_path: Path) -> None:
    model = out_of_range_model(tmp_path / "m.onnx")
    with pytest.raises(ModeldError) as error:
        build(BuildRequest(model, tmp_path / "out"))
    text = str(error.value)
    assert text.startswith("gate failed: ONNX Runtime cannot run this model (")
    assert "idx=77" in text and "onnx " in text and "--unverified" in text and "\n" not in text
    assert not (tmp_path / "out").exists()


def test_unverified_is_said_and_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = out_of_range_model(tmp_path / "m.onnx")
    assert main(["build", str(model), "--out", str(tmp_path / "out"), "--unverified"]) == 0
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("unverified: no second implementation has run this model (ONNX Runtime")
    artifact = open_artifact(tmp_path / "out")
    assert artifact.manifest.reference.errors == ()
    assert artifact.manifest.toolchain.flags["unverified"] == "yes"
    assert "compared with no second implementation" in report(artifact)


def test_unverified_changes_nothing_where_a_second_implementation_runs(tmp_path: Path) -> None:
    model = conv_model(tmp_path / "m.onnx")
    digests = {
        build(BuildRequest(model, tmp_path / "out", unverified=given)) for given in (False, True)
    }
    assert len(digests) == 1


def test_what_onnx_runtime_lacks_onnx_runs(tmp_path: Path) -> None:
    # ONNX Runtime has no kernel for Relu of 64-bit integers; onnx's evaluator does.
    model = save_model(
        tmp_path / "m.onnx",
        [helper.make_node("Relu", ["x"], ["y"])],
        [tensor("x", (64,), TensorProto.INT64)],
        [tensor("y", (64,), TensorProto.INT64)],
    )
    build(BuildRequest(model, tmp_path / "out"))
    (error,) = open_artifact(tmp_path / "out").manifest.reference.errors
    assert error.against.startswith("onnx ")


def test_input_that_no_buffer_holds_is_named(tmp_path: Path) -> None:
    model = save_model(
        tmp_path / "m.onnx",
        [helper.make_node("Relu", ["x"], ["y"])],
        [tensor("x", (2**20, 2**20))],
        [tensor("y", (2**20, 2**20))],
    )
    with pytest.raises(
        ModeldError, match=r"input x is float32\[1048576, 1048576\], 4096\.0 GiB; a buffer of"
    ):
        build(BuildRequest(model, tmp_path / "out"))


def test_reference_inputs_of_wrong_name_or_shape(tmp_path: Path) -> None:
    model = conv_model(tmp_path / "conv.onnx")
    for name, shape in (("z", (1, 3, 8, 16)), ("x", (1, 3, 8, 15))):
        given = {name: np.zeros(shape, np.float32)}
        with pytest.raises(ModeldError, match=rf"--reference-inputs.*{name}"):
            build(BuildRequest(model, tmp_path / "out", reference_inputs=given))


def test_a_graph_that_tinygrad_cannot_bear_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("infinite loop in graph_rewrite\n(stack too big)")

    monkeypatch.setattr("compile.build.CapturedRun", fail)
    model = conv_model(tmp_path / "m.onnx")
    with pytest.raises(ModeldError, match=r"RuntimeError: infinite loop .* \(stack too big\)"):
        build(BuildRequest(model, tmp_path / "artifact"))
    assert not (tmp_path / "artifact").exists()
