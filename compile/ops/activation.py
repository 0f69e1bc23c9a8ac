"""Activations, softmax and its kin (whose meaning changed with opset 13)."""

from collections.abc import Callable
from math import prod

from tinygrad import Tensor

from compile.ops.registry import MICROSOFT_DOMAIN, Op


def relu(x: Tensor) -> Tensor:
    """x where it is not below zero: NaN stays NaN, so that guards behind the model see it."""
    return (x < 0).where(0, x)


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), so written that infinity stays infinity."""
    return relu(x) + ((-x.abs()).exp() + 1).log()


def hard_swish(x: Tensor) -> Tensor:
    """x * max(0, min(1, x / 6 + 1/2))."""
    return x * (x * (1 / 6) + 0.5).clip(0, 1)


def mish(x: Tensor) -> Tensor:
    """x * tanh(softplus(x))."""
    return x * softplus(x).tanh()


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x above zero, alpha * (exp(x) - 1) below."""
    return (x < 0).where(alpha * (x.exp() - 1), x)


def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    return x.celu(alpha)


def selu(
    x: Tensor, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875
) -> Tensor:
    """gamma * elu(x, alpha)."""
    return (x > 0).where(gamma * x, gamma * alpha * (x.exp() - 1))


def leaky_relu(x: Tensor, alpha: float = 0.01) -> Tensor:
    """x above zero, alpha * x below."""
    return x.leaky_relu(alpha)


def thresholded_relu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x above alpha, else zero."""
    return (x > alpha).where(x, 0)


def hard_sigmoid(x: Tensor, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """alpha * x + beta, limited to [0, 1]."""
    return (alpha * x + beta).clip(0, 1)


def shrink(x: Tensor, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """Zero within ±lambd, else x moved towards zero by bias. A product with the condition would
    make NaN of infinite x.
    """
    return (x < -lambd).where(x + bias, (x > lambd).where(x - bias, 0))


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x * Φ(x), exact by erf or approximated by tanh."""
    return x.gelu(approximate)


def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    """Exact GELU of x + bias."""
    return (x + bias).gelu("none")


def fast_gelu(x: Tensor, bias: Tensor | None = None) -> Tensor:
    """GELU by tanh of x + bias."""
    return (x if bias is None else x + bias).gelu("tanh")


def swish(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x * sigmoid(alpha * x)."""
    return x * (alpha * x).sigmoid()


def swiglu(gate: Tensor, linear: Tensor, alpha: float = 1.0) -> Tensor:
    """swish(gate) * linear."""
    return swish(gate, alpha) * linear


def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """x above zero, slope * x below."""
    return (x > 0).where(x, x * slope)


def prelu_per_channel(x: Tensor, slope: Tensor) -> Tensor:
    """Before opset 7 a 1-D slope belongs to the channels (axis 1)."""
    return prelu(x, slope.reshape(-1, *(1,) * (x.ndim - 2)))


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Softmax over one axis."""
    return x.softmax(axis)


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Logarithm of softmax over one axis."""
    return x.log_softmax(axis)


def hardmax(x: Tensor, axis: int = -1) -> Tensor:
    """One at the first maximum along the axis, zero elsewhere."""
    axis = axis % x.ndim
    shape = [x.shape[axis] if d == axis else 1 for d in range(x.ndim)]
    positions = Tensor.arange(x.shape[axis]).reshape(shape)
    return (x.argmax(axis, keepdim=True) == positions).cast(x.dtype)


_SOFTMAX = (("Softmax", softmax), ("LogSoftmax", log_softmax), ("Hardmax", hardmax))


def _coerced(run: Callable[[Tensor, int], Tensor]) -> Callable[..., Tensor]:
    """Before opset 13 the input is seen as 2-D, split at `axis`, default 1."""

    def coerced(x: Tensor, axis: int = 1) -> Tensor:
        rows = prod(x.shape[: axis % x.ndim if axis != x.ndim else axis])
        return run(x.reshape(rows, -1), 1).reshape(x.shape)

    return coerced


OPS = (
    *(Op(name, run, since=13) for name, run in _SOFTMAX),
    *(Op(name, _coerced(run)) for name, run in _SOFTMAX),
    Op("Relu", relu),
    Op("Sigmoid", lambda x: x.sigmoid()),
    Op("Tanh", lambda x: x.tanh()),
    Op("Softplus", softplus),
    Op("Softsign", lambda x: x.softsign()),
    Op("HardSwish", hard_swish),
    Op("Mish", mish),
    Op("Elu", elu),
    Op("Celu", celu),
    Op("Selu", selu, since=6),
    Op("LeakyRelu", leaky_relu, since=6),
    Op("ThresholdedRelu", thresholded_relu),
    Op("HardSigmoid", hard_sigmoid, since=6),
    Op("Shrink", shrink),
    Op("Gelu", gelu),
    Op("Swish", swish),
    Op("SwiGLU", swiglu),
    Op("PRelu", prelu, since=7),
    Op("PRelu", prelu_per_channel),
    Op("Gelu", gelu, domain=MICROSOFT_DOMAIN),
    Op("BiasGelu", bias_gelu, domain=MICROSOFT_DOMAIN),
    Op("FastGelu", fast_gelu, domain=MICROSOFT_DOMAIN),
)
