"""The reference network as an ONNX graph: standard operators, opset 17."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from compile.reference.heads import (
    HEADS,
    OUTPUTS,
    PAD,
    Head,
    basis,
    output_slices,
    scale_and_prior,
)
from compile.reference.metadata import encode_slices
from compile.reference.topology import (
    ACTION_T,
    DESIRE,
    DESIRE_ROWS,
    FEATURE,
    FEATURE_ROWS,
    IMAGE_CHANNELS,
    IMAGE_HEIGHT,
    IMAGE_ROWS,
    IMAGE_WIDTH,
    PIXEL_MEAN,
    PIXEL_SCALE,
    SKIP,
    STEPS,
    TRAFFIC,
    Convolution,
    Topology,
    stem_layers,
    trunk_layers,
)
from compile.reference.weights import Weights

OPSET = 17
IR_VERSION = 8
IMAGE = (IMAGE_CHANNELS, IMAGE_HEIGHT, IMAGE_WIDTH)
STATE = (
    ("state_img_q", (IMAGE_ROWS, *IMAGE), TensorProto.UINT8),
    ("state_big_img_q", (IMAGE_ROWS, *IMAGE), TensorProto.UINT8),
    ("state_feat_q", (FEATURE_ROWS, 1, FEATURE), TensorProto.FLOAT),
    ("state_desire_q", (DESIRE_ROWS, 1, DESIRE), TensorProto.FLOAT),
)
INPUTS = (
    ("new_img", (2, *IMAGE), TensorProto.UINT8),
    ("desire", (1, DESIRE), TensorProto.FLOAT),
    ("traffic_convention", (1, TRAFFIC), TensorProto.FLOAT),
    ("action_t", (1, ACTION_T), TensorProto.FLOAT),
)


def assemble(topology: Topology, weights: Weights, checkpoint: str) -> onnx.ModelProto:
    """The checked model. `checkpoint` goes into the metadata as `model_checkpoint`."""
    graph = _Graph(weights)
    narrow = graph.image_queue("state_img_q", 0)
    wide = graph.image_queue("state_big_img_q", 1)
    desires = graph.desire_queue()
    feature = graph.vision(topology, narrow, wide)
    context = graph.attention(topology, feature, desires)
    graph.outputs(feature, graph.trunk(feature, context))
    return graph.model(topology, checkpoint)


class _Graph:
    """Collects nodes and initialisers; every method returns the name of what it made."""

    def __init__(self, weights: Weights) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: dict[str, onnx.TensorProto] = {}
        self.weights = weights

    def node(self, op: str, name: str, inputs: Sequence[str], **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, name: str, value: npt.ArrayLike, dtype: type[np.generic]) -> str:
        self.tensors[name] = numpy_helper.from_array(np.asarray(value, dtype), name)
        return name

    def weight(self, name: str) -> str:
        self.tensors[name] = numpy_helper.from_array(np.ascontiguousarray(self.weights[name]), name)
        return name

    def rows(self, name: str, source: str, start: int, stop: int, step: int = 1) -> str:
        """`source[start:stop:step]` along axis 0."""
        bounds = [
            self.constant(f"{name}.{part}", [value], np.int64)
            for part, value in (("start", start), ("stop", stop), ("axis", 0), ("step", step))
        ]
        return self.node("Slice", name, [source, *bounds])

    def reshape(self, name: str, source: str, shape: Sequence[int]) -> str:
        return self.node("Reshape", name, [source, self.constant(f"{name}.shape", shape, np.int64)])

    def dense(self, name: str, source: str, relu: bool = False) -> str:
        out = self.node(
            "Gemm",
            f"{name}.gemm" if relu else name,
            [source, self.weight(f"{name}.weight"), self.weight(f"{name}.bias")],
        )
        return self.node("Relu", name, [out]) if relu else out

    def shift(self, state: str, rows: int, new: str) -> str:
        """The next queue: the oldest row leaves at the front, `new` enters at the end."""
        kept = self.rows(f"{state}.kept", state, 1, rows)
        return self.node("Concat", f"next_{state}", [kept, new], axis=0)

    def image_queue(self, state: str, camera: int) -> str:
        """(1, 12, 128, 256) f32: the frame of 200 ms ago and the new one, centred and scaled."""
        new = self.rows(f"{state}.new", "new_img", camera, camera + 1)
        queue = self.shift(state, IMAGE_ROWS, new)
        pair = self.rows(f"{state}.pair", queue, 0, IMAGE_ROWS, SKIP)
        flat = self.reshape(f"{state}.channels", pair, (1, 2 * IMAGE_CHANNELS, *IMAGE[1:]))
        pixels = self.node("Cast", f"{state}.float", [flat], to=TensorProto.FLOAT)
        mean = self.constant("pixel_mean", PIXEL_MEAN, np.float32)
        scale = self.constant("pixel_scale", PIXEL_SCALE, np.float32)
        centred = self.node("Sub", f"{state}.centred", [pixels, mean])
        return self.node("Mul", f"{state}.scaled", [centred, scale])

    def desire_queue(self) -> str:
        """(25, 8): each step holds a pulse that came in any of its four frames."""
        new = self.reshape("desire.row", "desire", (1, 1, DESIRE))
        queue = self.shift("state_desire_q", DESIRE_ROWS, new)
        blocks = self.reshape("desire.blocks", queue, (STEPS, SKIP, DESIRE))
        return self.node("ReduceMax", "desire.steps", [blocks], axes=[1], keepdims=0)

    def vision(self, topology: Topology, narrow: str, wide: str) -> str:
        """(1, 512) feature."""
        made = {"narrow": narrow, "wide": wide}
        stems = [self.convolution(layer, made) for layer in stem_layers(topology)]
        made["stem"] = self.node("Concat", "stem", stems, axis=1)
        for layer in trunk_layers(topology):
            made[layer.name] = self.convolution(layer, made)
        flat = [
            self.node("Flatten", f"neck_{stage}.flat", [made[f"neck_{stage}"]], axis=1)
            for stage in (3, 4)
        ]
        return self.dense("feature", self.node("Concat", "neck", flat, axis=1))

    def convolution(self, layer: Convolution, made: dict[str, str]) -> str:
        parts = ["conv"] + ["sum"] * bool(layer.residual) + ["relu"] * layer.relu
        names = [f"{layer.name}.{part}" for part in parts[:-1]] + [layer.name]
        out = self.node(
            "Conv",
            names.pop(0),
            [
                made[layer.source],
                self.weight(f"{layer.name}.weight"),
                self.weight(f"{layer.name}.bias"),
            ],
            kernel_shape=[layer.kernel] * 2,
            strides=[layer.stride] * 2,
            pads=[layer.kernel // 2] * 4,
            group=layer.channels_in if layer.depthwise else 1,
        )
        if layer.residual:
            out = self.node("Add", names.pop(0), [made[layer.residual], out])
        return self.node("Relu", names.pop(0), [out]) if layer.relu else out

    def attention(self, topology: Topology, feature: str, desires: str) -> str:
        """(1, attention): one query, by the current feature, over 25 steps of memory."""
        heads, size = topology.heads, topology.attention // topology.heads
        row = self.reshape("feature.row", feature, (1, 1, FEATURE))
        self.shift("state_feat_q", FEATURE_ROWS, row)
        past = self.rows("feature.past", "state_feat_q", 0, FEATURE_ROWS, SKIP)
        steps = self.node("Concat", "feature.all", [past, row], axis=0)
        steps = self.reshape("feature.steps", steps, (STEPS, FEATURE))
        tokens = self.node("Concat", "attention.tokens", [steps, desires], axis=1)
        memory = self.node(
            "MatMul", "attention.projected", [tokens, self.weight("attention.memory.weight")]
        )
        memory = self.node("Add", "attention.memory", [memory, self.weight("attention.position")])
        parts = self.reshape("attention.parts", memory, (STEPS, 2, heads, size))
        # (keys or values, head, step, size); rows() then takes one of the two.
        parts = self.node("Transpose", "attention.heads", [parts], perm=[1, 2, 0, 3])
        keys = self.rows("attention.keys", parts, 0, 1)
        values = self.rows("attention.values", parts, 1, 2)
        keys = self.node("Transpose", "attention.keys_turned", [keys], perm=[0, 1, 3, 2])
        query = self.dense("attention.query", feature)
        query = self.reshape("attention.query_heads", query, (1, heads, 1, size))
        scores = self.node("MatMul", "attention.scores", [query, keys])
        shares = self.node("Softmax", "attention.shares", [scores], axis=-1)
        context = self.node("MatMul", "attention.context", [shares, values])
        return self.reshape("attention.flat", context, (1, topology.attention))

    def trunk(self, feature: str, context: str) -> str:
        """(1, COEFFICIENTS)."""
        joined = [feature, context, "traffic_convention", "action_t"]
        hidden = self.dense("trunk.join", self.node("Concat", "trunk.inputs", joined, axis=1), True)
        return self.dense("trunk.coefficients", self.dense("trunk.mix", hidden, True))

    def outputs(self, feature: str, coefficients: str) -> None:
        sizes = [head.coefficients for head in HEADS]
        names = [f"{head.name}.coefficients" for head in HEADS]
        split = self.constant("heads.sizes", sizes, np.int64)
        self.nodes.append(
            helper.make_node("Split", [coefficients, split], names, name="heads", axis=1)
        )
        raw = self.node(
            "Concat",
            "heads.raw",
            [self.head(head, name) for head, name in zip(HEADS, names, strict=True)],
            axis=1,
        )
        scale, prior = scale_and_prior()
        scaled = self.node("Mul", "heads.scaled", [raw, self.constant("scale", scale, np.float32)])
        heads = self.node("Add", "heads.all", [scaled, self.constant("prior", prior, np.float32)])
        pad = self.constant("pad", np.zeros((1, PAD)), np.float32)
        self.node("Concat", "outputs", [heads, feature, pad], axis=1)

    def head(self, head: Head, coefficients: str) -> str:
        if not head.terms:
            return coefficients
        name = head.name
        shaped = self.reshape(f"{name}.terms", coefficients, (head.rows, head.terms, head.columns))
        # The same curves serve every head that has as many points.
        table = self.constant(f"basis_{head.points}", basis(head.points, head.terms), np.float32)
        curves = self.node("MatMul", f"{name}.curves", [table, shaped])
        return self.reshape(f"{name}.raw", curves, (1, head.width))

    def model(self, topology: Topology, checkpoint: str) -> onnx.ModelProto:
        inputs = [helper.make_tensor_value_info(n, t, s) for n, s, t in INPUTS + STATE]
        outputs = [helper.make_tensor_value_info("outputs", TensorProto.FLOAT, (1, OUTPUTS))]
        outputs += [helper.make_tensor_value_info(f"next_{n}", t, s) for n, s, t in STATE]
        graph = helper.make_graph(
            self.nodes, f"driving_{topology.name}", inputs, outputs, list(self.tensors.values())
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="modeld reference",
        )
        metadata = {
            "output_slices": encode_slices(output_slices()),
            "model_checkpoint": checkpoint,
        }
        helper.set_model_props(model, metadata)
        onnx.checker.check_model(model, full_check=True)
        return model
