"""What is recognised, what is refused and by which name, and whose head counts."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from driving_generations import File, write, write_all
from driving_interfaces import (
    ACTION_T,
    IMG,
    INPUT_IMGS,
    INTERFACES,
    LATERAL,
    PLAN,
    TRAFFIC,
    VISION_632,
    VISION_1576,
    action_heads,
    old,
    policy,
)
from onnx import helper, numpy_helper
from onnx_models import conv_model

from compile.cli import main
from compile.generations import GENERATIONS, find_network, read_part
from compile.importer import ImportedModel, import_model
from compile.metadata import read_output_slices
from modeld.errors import ModeldError
from modeld.manifest import Tensor

RECENT = INTERFACES["2026-06"][1][0]
YEAR_2024 = INTERFACES["2024-07"][1][0]
PLANNER = INTERFACES["2023-planner"][1][0]
VISION, POLICY = INTERFACES["2025-09"][1]


def import_all(files: list[File], folder: Path) -> ImportedModel:
    first, *others = write_all(files, folder)
    return import_model(first, {}, others)


def heads_of(imported: ImportedModel) -> dict[str, tuple[int, int]]:
    (output,) = [o for o in imported.model.graph.output if o.name == "outputs"]
    metadata = {entry.key: entry.value for entry in imported.model.metadata_props}
    size = output.type.tensor_type.shape.dim[1].dim_value
    slices = read_output_slices(metadata["output_slices"], size)
    return {head.name: (head.start, head.stop) for head in slices}


def test_names_never_change() -> None:
    assert list(GENERATIONS) == [
        "new_img",
        "supercombo-20hz",
        "supercombo-5hz",
        "vision-policy-20hz",
        "vision-policy-5hz",
    ]
    assert {generation for generation, _ in INTERFACES.values()} == set(list(GENERATIONS)[1:])


def test_heads_of_two_files(tmp_path: Path) -> None:
    imported = import_all(INTERFACES["2025-07"][1], tmp_path)
    assert heads_of(imported) == {
        "meta": (0, 55),
        "desire_pred": (55, 87),
        "pose": (87, 99),
        "wide_from_device_euler": (99, 105),
        "road_transform": (105, 117),
        "lane_lines": (117, 645),
        "lane_lines_prob": (645, 653),
        "road_edges": (653, 917),
        "lead": (917, 1061),
        "lead_prob": (1061, 1064),
        "hidden_state": (1064, 1576),
        "plan": (1576, 2566),
        "desire_state": (2566, 2574),
    }
    assert [file.name for file in imported.source.files] == ["driving.onnx", "on_policy.onnx"]
    assert sorted(imported.source.metadata) == ["driving.output_slices", "on_policy.output_slices"]


@pytest.mark.parametrize("swapped", [False, True])
def test_heads_of_three_files(tmp_path: Path, swapped: bool) -> None:
    vision, on_policy, off_policy = write_all(INTERFACES["2026-01-three-files"][1], tmp_path)
    policies = [off_policy, on_policy] if swapped else [on_policy, off_policy]
    heads = heads_of(import_model(vision, {}, policies))
    # 632 of vision, then 996 of the policy that drives; both policies have a plan.
    assert heads["plan"] == (632, 632 + 990)
    assert heads["action"] == (632 + 990, 632 + 994)
    assert heads["desire_state"] == (1628 + 990, 1628 + 998)
    assert heads["lane_lines"] == (1628 + 998, 1628 + 1526)
    assert "pad" not in heads


def test_order_of_files_does_not_matter_for_vision(tmp_path: Path) -> None:
    vision, acting = write_all([VISION, POLICY], tmp_path)
    assert heads_of(import_model(acting, {}, [vision])) == heads_of(
        import_model(vision, {}, [acting])
    )


def test_feature_that_goes_back_is_visions(tmp_path: Path) -> None:
    acting = replace(POLICY, heads={"hidden_state": 512} | PLAN)
    assert heads_of(import_all([VISION, acting], tmp_path))["hidden_state"] == (1064, 1576)


def test_other_models_stay_as_they_are(tmp_path: Path) -> None:
    path = conv_model(tmp_path / "conv.onnx")
    imported = import_model(path, {})
    assert imported.model == onnx.load(path)
    assert imported.generation == "new_img"


WIDE = (1, 12, 64, 256)
REFUSED: dict[str, tuple[list[File], str]] = {
    "vision alone": ([VISION], r"driving.onnx is the vision part.*build driving.onnx POLICY.onnx"),
    "policy alone": ([POLICY], r"driving.onnx has no frames.*VISION.onnx driving.onnx"),
    "two visions": ([VISION, VISION], "frames are taken by driving.onnx, on_policy.onnx"),
    "two policies": ([POLICY, POLICY], "frames are taken by none of them"),
    "two whole networks": ([RECENT, POLICY], "driving.onnx is a whole network; build it by itself"),
    "unknown input": (
        [replace(RECENT, inputs=RECENT.inputs | {"radar": (1, 9)})],
        r"driving.onnx: input radar \[1, 9\] is unknown .*supercombo-5hz; known are img, .*action",
    ),
    "frames under two names": (
        [replace(RECENT, inputs=RECENT.inputs | INPUT_IMGS)],
        "input input_imgs .* is unknown",
    ),
    "unknown context": (
        [replace(RECENT, inputs=RECENT.inputs | {"features_buffer": (1, 50, 512)})],
        r"features_buffer is \[1, 50, 512\].*T of 24, 32, 99",
    ),
    "unknown context of a policy": (
        [VISION, File(policy(24, "desire_pulse"), PLAN)],
        r"features_buffer is \[1, 24, 512\].*T of 25, 33, 100",
    ),
    "desires of another context": (
        [replace(RECENT, inputs=RECENT.inputs | {"desire_pulse": (1, 100, 8)})],
        r"desire_pulse is float16\[1, 100, 8\].*supercombo-5hz has .*\[1, 25, 8\]",
    ),
    "curvatures at 5 Hz": (
        [replace(RECENT, inputs=RECENT.inputs | {"prev_desired_curvs": (1, 20)})],
        r"input prev_desired_curvs \[1, 20\] is unknown",
    ),
    "frames of another size": (
        [replace(RECENT, inputs=RECENT.inputs | {"img": WIDE, "big_img": WIDE})],
        r"input img is uint8\[1, 12, 64, 256\].*\[1, 12, 128, 256\]",
    ),
    "no feature": (
        [replace(RECENT, heads=RECENT.heads | {"hidden_state": 0})],
        "driving.onnx has no output hidden_state, which it needs back",
    ),
    "narrow feature": (
        [replace(RECENT, heads=RECENT.heads | {"hidden_state": 256})],
        "hidden_state has 256 elements, its input wants 512",
    ),
    "no curvature": (
        [replace(YEAR_2024, heads=YEAR_2024.heads | {"desired_curvature": 0})],
        "no output desired_curvature",
    ),
    "no planner": (
        [replace(PLANNER, heads=PLANNER.heads | {"lat_planner_solution": 0})],
        "no output lat_planner_solution",
    ),
    "heads the messages need": (
        [File(IMG, VISION_632), File(policy(25, "desire"), PLAN | {"pad": 2})],
        "no output lane_lines, lane_lines_prob, road_edges, lead, lead_prob;",
    ),
    "policies of two networks": (
        [
            File(IMG, VISION_1576),
            File(policy(25, "desire"), PLAN | {"pad": 2}),
            File(policy(33, "desire"), PLAN | {"pad": 2}),
        ],
        r"off_policy.onnx has features_buffer \[1, 33, 512\], on_policy.onnx has \[1, 25, 512\]",
    ),
    "two opsets": (
        [VISION, replace(POLICY, opset=17)],
        "on_policy.onnx is of opset 17, driving.onnx of 20; export all parts with one opset",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name: str, tmp_path: Path) -> None:
    files, said = REFUSED[name]
    made = [
        replace(file, heads={head: width for head, width in file.heads.items() if width})
        for file in files
    ]
    with pytest.raises(ModeldError, match=said) as caught:
        import_all(made, tmp_path)
    assert "\n" not in str(caught.value)


def test_stranger_beside_a_policy(tmp_path: Path) -> None:
    stranger = conv_model(tmp_path / "conv.onnx")
    with pytest.raises(ModeldError, match=r"conv\.onnx is neither vision nor policy"):
        import_model(stranger, {}, [write(POLICY, tmp_path / "policy.onnx")])


def test_command_takes_several_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vision = str(write(VISION, tmp_path / "vision.onnx"))
    assert main(["build", vision, vision, "--out", str(tmp_path / "out")]) != 0
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert "frames are taken by vision.onnx, vision.onnx; give files of one network" in said
    assert not (tmp_path / "out").exists()


def strip_metadata(model: onnx.ModelProto) -> None:
    del model.metadata_props[:]


def rename_output(model: onnx.ModelProto) -> None:
    model.graph.output.append(helper.make_tensor_value_info("sample", 10, None))
    model.graph.output[0].name = "sample.many"


def make_output_whole(model: onnx.ModelProto) -> None:
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT32


def forget_length(model: onnx.ModelProto) -> None:
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_param = "n"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (strip_metadata, "no metadata output_slices"),
        (rename_output, "outputs are sample.many, sample, expected one, outputs"),
        (make_output_whole, r"output outputs is int32\[1, 2580\]"),
        (forget_length, "output outputs has no length"),
    ],
)
def test_output_that_cannot_be_used(
    spoil: Callable[[onnx.ModelProto], None], said: str, tmp_path: Path
) -> None:
    model = onnx.load(write(RECENT, tmp_path / "m.onnx"))
    spoil(model)
    with pytest.raises(ModeldError, match=rf"m\.onnx: .*{said}"):
        read_part("m.onnx", model)


def test_everything_that_is_fed_back_is_known(tmp_path: Path) -> None:
    parts = [read_part("m.onnx", onnx.load(write(YEAR_2024, tmp_path / "m.onnx")))]
    network = find_network(parts)
    assert (network.steps, network.frames_per_step, network.row) == (100, 1, (512,))
    assert network.heads["desired_curvature"] == (5995, 5997)


@pytest.mark.parametrize("shape", [(), (24,), (1, 24), (2, 24, 512), (1, 24, 8, 8, 8)])
def test_features_of_another_rank(shape: tuple[int, ...], tmp_path: Path) -> None:
    part = read_part("m.onnx", onnx.load(write(RECENT, tmp_path / "m.onnx")))
    features = Tensor("features_buffer", shape, "float32")
    with pytest.raises(ModeldError, match=r"features_buffer is .*T of 24, 32, 99"):
        find_network([replace(part, inputs={**part.inputs, "features_buffer": features})])


def test_symbolic_batch_of_two_files(tmp_path: Path) -> None:
    paths = write_all([VISION, POLICY], tmp_path)
    for path in paths:
        model = onnx.load(path)
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.shape.dim[0].dim_param = "batch"
        onnx.save(model, path)
    with pytest.raises(ModeldError, match=r"batch \(of img, big_img, .*features_buffer"):
        import_model(paths[0], {}, paths[1:])
    assert import_model(paths[0], {"batch": 1}, paths[1:]).generation == "vision-policy-5hz"


def test_external_weights_in_two_folders(tmp_path: Path) -> None:
    paths = []
    for folder, file in (("a", VISION), ("b", POLICY)):
        path = tmp_path / folder / f"{folder}.onnx"
        path.parent.mkdir()
        model = onnx.load(write(file, path))
        model.graph.initializer.append(
            numpy_helper.from_array(np.arange(600, dtype=np.float32), f"unused_{folder}")
        )
        onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=100)
        paths.append(path)
    imported = import_model(paths[0], {}, paths[1:])
    assert [file.name for file in imported.source.files] == [
        *("a.onnx", "weights"),
        *("b.onnx", "weights"),
    ]
    tensors = {t.name: t for t in imported.model.graph.initializer}
    array = numpy_helper.to_array(tensors["policy/unused_b"], str(tmp_path / "a"))
    np.testing.assert_array_equal(array, np.arange(600))


@pytest.mark.parametrize("more", [{}, LATERAL, LATERAL | ACTION_T])
def test_small_inputs_are_those_of_the_network(more: dict[str, tuple], tmp_path: Path) -> None:
    imported = import_all([old(more, heads=action_heads())], tmp_path)
    given = {i.name for i in imported.model.graph.input if not i.name.startswith("state_")}
    assert given == {"new_img", "desire", *TRAFFIC, *more}
