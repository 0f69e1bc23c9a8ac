"""Which interface a model has, and what a driving model must look like."""

import pytest
from onnx_models import encode_slices

from compile.contract import DEFAULT_CAMERAS, ModelInterface, recognise
from modeld.errors import ModeldError
from modeld.manifest import Camera, Slice, StatePair, Tensor

IMAGE = Tensor("new_img", (2, 6, 128, 256), "uint8")
OUTPUTS = Tensor("outputs", (1, 10), "float32")
SLICES = {"output_slices": encode_slices({"pose": slice(0, 8), "pad": slice(-2, None)})}


def interface(
    inputs: list[Tensor], outputs: list[Tensor], metadata: dict[str, str] | None = None
) -> ModelInterface:
    return ModelInterface(tuple(inputs), tuple(outputs), SLICES if metadata is None else metadata)


def queue(name: str, shape: tuple[int, ...] = (5, 4), dtype: str = "float32") -> Tensor:
    return Tensor(name, shape, dtype)


def test_todays_driving_model() -> None:
    inputs = [
        IMAGE,
        Tensor("desire", (1, 8), "float32"),
        Tensor("traffic_convention", (1, 2), "float32"),
        Tensor("action_t", (1, 2), "float32"),
        queue("state_feat_q"),
    ]
    contract = recognise(interface(inputs, [OUTPUTS, queue("next_state_feat_q")]), (), ())
    assert (contract.kind, contract.generation) == ("driving", "new_img")
    assert contract.cameras == DEFAULT_CAMERAS == (Camera(1928, 1208), Camera(1344, 760))
    assert contract.state == (StatePair("state_feat_q", "next_state_feat_q"),)
    assert contract.output_slices == (Slice("pose", 0, 8), Slice("pad", 8, 10))
    assert all(t.meaning for t in (*contract.inputs, *contract.outputs))


def test_cameras_that_are_asked_for() -> None:
    cameras = (Camera(640, 480),)
    assert recognise(interface([IMAGE], [OUTPUTS]), (), cameras).cameras == cameras


def test_anything_else_is_generic() -> None:
    contract = recognise(interface([queue("x")], [queue("y")], {}), (), ())
    assert (contract.kind, contract.cameras, contract.output_slices) == ("generic", (), ())
    with pytest.raises(ModeldError, match=r"--camera 640x480.*no input new_img"):
        recognise(interface([queue("x")], [queue("y")], {}), (), (Camera(640, 480),))


def test_generic_models_have_state_too() -> None:
    contract = recognise(interface([queue("h")], [queue("next_h"), queue("y")], {}), (), ())
    assert contract.state == (StatePair("h", "next_h"),)


@pytest.mark.parametrize("other", [queue("next_q", (5, 3)), queue("next_q", dtype="float16")])
def test_pair_that_does_not_agree(other: Tensor) -> None:
    with pytest.raises(ModeldError, match=r"state q is float32\[5, 4\] but next_q is"):
        recognise(interface([IMAGE, queue("q")], [OUTPUTS, other]), (), ())


@pytest.mark.parametrize(
    ("inputs", "outputs", "metadata", "said"),
    [
        ([queue("new_img")], [OUTPUTS], None, r"new_img is float32\[5, 4\]"),
        ([IMAGE, queue("extra")], [OUTPUTS], None, "extra .*neither known"),
        ([IMAGE, queue("desire")], [OUTPUTS], None, r"desire is float32\[5, 4\], expected"),
        ([IMAGE], [queue("y")], None, "output outputs is missing"),
        ([IMAGE], [Tensor("outputs", (2, 5), "float32")], None, r"float32\[2, 5\]"),
        ([IMAGE], [Tensor("outputs", (1, 5), "float16")], None, r"float16\[1, 5\]"),
        ([IMAGE], [OUTPUTS], {}, "no metadata output_slices"),
        ([IMAGE], [OUTPUTS], {"output_slices": "?"}, "base64"),
    ],
)
def test_driving_models_that_do_not_fit(
    inputs: list[Tensor], outputs: list[Tensor], metadata: dict[str, str] | None, said: str
) -> None:
    with pytest.raises(ModeldError, match=said):
        recognise(interface(inputs, outputs, metadata), (), ())
