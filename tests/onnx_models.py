"""Small ONNX models for compiler tests, with the numpy meaning of what they compute."""

import base64
import pickle
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = npt.NDArray[np.generic]

OPSET = 17


def save_model(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: dict[str, Array] | None = None,
    metadata: dict[str, str] | None = None,
    opsets: dict[str, int] | None = None,
) -> Path:
    """Write a model made of `nodes`; returns `path`."""
    graph = helper.make_graph(
        list(nodes),
        "graph",
        list(inputs),
        list(outputs),
        [numpy_helper.from_array(np.asarray(a), name) for name, a in (constants or {}).items()],
    )
    imports = [helper.make_opsetid(d, v) for d, v in (opsets or {"": OPSET}).items()]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    helper.set_model_props(model, metadata or {})
    onnx.save(model, path)
    return path


def tensor(name: str, shape: Sequence[int | str], dtype: int = TensorProto.FLOAT):
    """A graph input or output."""
    return helper.make_tensor_value_info(name, dtype, list(shape))


def conv_model(path: Path, batch: int | str = 1) -> Path:
    """x (batch,3,8,16) → y (batch,4): 3×3 convolution, ReLU, mean over the picture."""
    rng = np.random.default_rng(7)
    return save_model(
        path,
        [
            helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["r"], name="relu"),
            helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
            helper.make_node("Flatten", ["p"], ["y"], name="flatten"),
        ],
        [tensor("x", (batch, 3, 8, 16))],
        [tensor("y", (batch, 4))],
        {
            "w": rng.standard_normal((4, 3, 3, 3)).astype(np.float32),
            "b": rng.standard_normal(4).astype(np.float32),
        },
    )


def queue_model(path: Path) -> Path:
    """The three kinds of queue of a driving network, and nothing else; see `QueueModel`."""
    ends = {"last": [-1], "end": [2**31], "first": [0], "rows": [1]}
    nodes = []
    for name, new in (("img", "new_img_row"), ("desire", "desire_row"), ("feat", "feat_row")):
        state = f"state_{name}_q"
        nodes += [
            helper.make_node("Slice", [state, "rows", "end", "first"], [f"{name}_kept"]),
            helper.make_node("Concat", [f"{name}_kept", new], [f"next_{state}"], axis=0),
        ]
    return save_model(
        path,
        [
            helper.make_node("Unsqueeze", ["img", "first"], ["new_img_row"]),
            helper.make_node("Unsqueeze", ["desire", "first"], ["desire_row"]),
            helper.make_node("Unsqueeze", ["feat", "first"], ["feat_row"]),
            *nodes,
            helper.make_node("Gather", ["next_state_img_q", "ends"], ["images"], axis=0),
            helper.make_node("Reshape", ["next_state_desire_q", "groups"], ["grouped"]),
            helper.make_node("ReduceMax", ["grouped"], ["desires"], axes=[1], keepdims=0),
            helper.make_node(
                "Slice", ["next_state_feat_q", "three", "end", "first", "four"], ["features"]
            ),
        ],
        [
            tensor("img", (2, 3, 4), TensorProto.UINT8),
            tensor("desire", (1, 8)),
            tensor("feat", (1, 16)),
            tensor("state_img_q", (5, 2, 3, 4), TensorProto.UINT8),
            tensor("state_desire_q", (100, 1, 8)),
            tensor("state_feat_q", (96, 1, 16)),
        ],
        [
            tensor("images", (2, 2, 3, 4), TensorProto.UINT8),
            tensor("desires", (25, 1, 8)),
            tensor("features", (24, 1, 16)),
            tensor("next_state_img_q", (5, 2, 3, 4), TensorProto.UINT8),
            tensor("next_state_desire_q", (100, 1, 8)),
            tensor("next_state_feat_q", (96, 1, 16)),
        ],
        {name: np.array(value, np.int64) for name, value in ends.items()}
        | {
            "ends": np.array([0, 4], np.int64),
            "groups": np.array([25, 4, 1, 8], np.int64),
            "three": np.array([3], np.int64),
            "four": np.array([4], np.int64),
        },
    )


class QueueModel:
    """`queue_model` in numpy: rows shift by one each turn, the newest last.

    Images: the oldest and newest of 5. Desire: the maximum over groups of 4 of 100. Features:
    every fourth of 96, the newest included.
    """

    def __init__(self) -> None:
        self.images = np.zeros((5, 2, 3, 4), np.uint8)
        self.desires = np.zeros((100, 1, 8), np.float32)
        self.features = np.zeros((96, 1, 16), np.float32)

    def step(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """One turn."""
        self.images = np.concatenate([self.images[1:], inputs["img"][None]])
        self.desires = np.concatenate([self.desires[1:], inputs["desire"][None]])
        self.features = np.concatenate([self.features[1:], inputs["feat"][None]])
        return {
            "images": self.images[[0, 4]],
            "desires": self.desires.reshape(25, 4, 1, 8).max(axis=1),
            "features": self.features[3::4],
        }


def encode_slices(slices: object, protocol: int = 4) -> str:
    """Metadata as exporters write it."""
    return base64.b64encode(pickle.dumps(slices, protocol)).decode()


def driving_model(path: Path, metadata: dict[str, str] | None = None) -> Path:
    """A driving network in shape only: its 6 outputs are means over inputs and state."""
    if metadata is None:
        metadata = {"output_slices": encode_slices({"a": slice(0, 4), "pad": slice(-2, None)})}
    return save_model(
        path,
        [
            helper.make_node("Cast", ["new_img"], ["image"], to=TensorProto.FLOAT),
            helper.make_node("ReduceMean", ["image"], ["mean"], axes=[0, 2, 3], keepdims=0),
            helper.make_node("Unsqueeze", ["mean", "first"], ["row"]),
            helper.make_node("Add", ["row", "state_sum"], ["next_state_sum"]),
            helper.make_node("ReduceSum", ["desire", "one"], ["asked"], keepdims=1),
            helper.make_node("Add", ["next_state_sum", "asked"], ["outputs"]),
        ],
        [
            tensor("new_img", (2, 6, 128, 256), TensorProto.UINT8),
            tensor("desire", (1, 8)),
            tensor("state_sum", (1, 6)),
        ],
        [tensor("outputs", (1, 6)), tensor("next_state_sum", (1, 6))],
        {"first": np.array([0], np.int64), "one": np.array([1], np.int64)},
        metadata,
    )
