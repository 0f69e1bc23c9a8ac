"""What is done to a result while it is still in registers: bias, activation, residual, ….

An epilogue is a list of steps, written as short texts so that it travels in an ONNX attribute:
`add channel 0`, `relu`, `add tensor 0`, `clip 0.0 6.0`. Operands are numbers, the n-th array with
one value per channel, or the n-th tensor of the result's own shape and layout.
"""

from collections.abc import Sequence

from modeld.errors import ModeldError

# OpenCL C for `v`, a vector; {0}, {1} are the step's numbers.
UNARY: dict[str, str] = {
    "relu": "max(v, 0.0f)",
    "sigmoid": "1.0f / (1.0f + exp(-v))",
    "silu": "v / (1.0f + exp(-v))",
    "tanh": "tanh(v)",
    "elu": "select({0} * (exp(v) - 1.0f), v, v > 0.0f)",
    "leaky_relu": "select({0} * v, v, v >= 0.0f)",
    "hard_sigmoid": "clamp(fma(v, (VECTOR)({0}), (VECTOR)({1})), 0.0f, 1.0f)",
    "hard_swish": "v * clamp(fma(v, (VECTOR)(1.0f / 6.0f), (VECTOR)(0.5f)), 0.0f, 1.0f)",
    "gelu": "0.5f * v * (1.0f + error_function(v * 0.70710678f))",
    "gelu_tanh": "v / (1.0f + exp(-1.59576912f * fma(0.044715f * v * v, v, v)))",
    "erf": "error_function(v)",
    "clip": "clamp(v, {0}, {1})",
    "exp": "exp(v)",
    "sqrt": "sqrt(v)",
    "softplus": "max(v, 0.0f) + log1p(exp(-fabs(v)))",
    "mish": "v * tanh(max(v, 0.0f) + log1p(exp(-fabs(v))))",
    "neg": "-v",
    "abs": "fabs(v)",
}

# OpenCL C for `v` and an operand `o`.
BINARY: dict[str, str] = {
    "add": "v + o",
    "sub": "v - o",
    "rsub": "o - v",
    "mul": "v * o",
    "div": "v / o",
    "min": "min(v, o)",
    "max": "max(v, o)",
    "prelu": "select(o * v, v, v >= 0.0f)",
}

# Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: absolute error 1.5e-7.
ERROR_FUNCTION = """
static VECTOR error_function(const VECTOR v) {
  const VECTOR t = 1.0f / fma((VECTOR)(0.3275911f), fabs(v), (VECTOR)(1.0f));
  VECTOR p = fma(t, (VECTOR)(1.061405429f), (VECTOR)(-1.453152027f));
  p = fma(p, t, (VECTOR)(1.421413741f));
  p = fma(p, t, (VECTOR)(-0.284496736f));
  p = fma(p, t, (VECTOR)(0.254829592f));
  return copysign(1.0f - p * t * exp(-v * v), v);
}
"""


def literal(value: float | str) -> str:
    """A float32 constant in OpenCL C, exact to the last bit."""
    number = float(value)
    if number in (float("inf"), float("-inf")):
        return "INFINITY" if number > 0 else "-INFINITY"
    return f"{number.hex()}f"


def operand_counts(steps: Sequence[str]) -> tuple[int, int]:
    """How many per-channel arrays and how many tensors the steps read."""
    channels = [int(s.split()[2]) + 1 for s in steps if " channel " in s]
    tensors = [int(s.split()[2]) + 1 for s in steps if " tensor " in s]
    return max(channels, default=0), max(tensors, default=0)


def parameters(steps: Sequence[str]) -> str:
    """Kernel parameters of the operands, each with a leading comma."""
    channels, tensors = operand_counts(steps)
    names = [f"channel{i}" for i in range(channels)] + [f"tensor{i}" for i in range(tensors)]
    return "".join(f", __global const float *restrict {name}" for name in names)


def arguments(steps: Sequence[str]) -> str:
    """The operands' names, each with a leading comma, to hand them to a function."""
    channels, tensors = operand_counts(steps)
    names = [f"channel{i}" for i in range(channels)] + [f"tensor{i}" for i in range(tensors)]
    return "".join(f", {name}" for name in names)


def render(steps: Sequence[str], vector: str = "float16") -> str:
    """Macros for a template: PARAMETERS, ARGUMENTS and EPILOGUE.

    EPILOGUE changes `v` (a `vector`); the template defines LOAD_CHANNEL(array) and
    LOAD_TENSOR(array), which find the operand for that `v` in an array.
    """
    return (
        f"#define VECTOR {vector}\n"
        + helpers(steps)
        + f"#define PARAMETERS {parameters(steps)}\n"
        + f"#define ARGUMENTS {arguments(steps)}\n"
        + f"#define EPILOGUE {body(steps)}\n"
    )


def helpers(steps: Sequence[str]) -> str:
    """OpenCL C functions that the steps call; VECTOR is defined before them."""
    return ERROR_FUNCTION if any(s.split()[0] in ("gelu", "erf") for s in steps) else ""


def body(steps: Sequence[str]) -> str:
    """The statements that change `v`, on one line."""
    return " ".join(_statement(step) for step in steps)


def _statement(step: str) -> str:
    name, *rest = step.split()
    if name in UNARY:
        return f"v = {UNARY[name].format(*(literal(r) for r in rest))};"
    if name not in BINARY:
        raise ModeldError(f"epilogue step {step!r} is unknown; use {sorted(UNARY | BINARY)}")
    kind, value = rest
    operand = {
        "number": lambda: f"(VECTOR)({literal(value)})",
        "channel": lambda: f"LOAD_CHANNEL(channel{value})",
        "tensor": lambda: f"LOAD_TENSOR(tensor{value})",
    }[kind]()
    return f"{{ const VECTOR o = {operand}; v = {BINARY[name]}; }}"
