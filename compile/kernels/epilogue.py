"""What is done to a result while it is still in registers: bias, activation, residual, ….

An epilogue is a list of steps, written as short texts so that it travels in an ONNX attribute:
`add channel 0`, `relu`, `add tensor 0`, `clip 0.0 6.0`. Operands are numbers, the n-th array with
one value per channel, or the n-th tensor of the result's own shape and layout.
"""

from collections.abc import Sequence

from modeld.errors import ModeldError

# OpenCL C for `v`, a vector; {0}, {1} are the step's numbers. NaN stays NaN, as in onnxruntime, so
# that a broken network is noticed: max, min and clamp of OpenCL may drop it, comparisons do not.
UNARY: dict[str, str] = {
    "relu": "v < 0.0f ? (VECTOR)(0.0f) : v",
    "sigmoid": "1.0f / (1.0f + exponential(-v))",
    "silu": "v / (1.0f + exponential(-v))",
    "tanh": "tanh(v)",
    "elu": "v > 0.0f ? v : {0} * (exponential(v) - 1.0f)",
    "leaky_relu": "v < 0.0f ? {0} * v : v",
    "hard_sigmoid": "limited(fma(v, (VECTOR)({0}), (VECTOR)({1})), 0.0f, 1.0f)",
    "hard_swish": "v * limited(fma(v, (VECTOR)(1.0f / 6.0f), (VECTOR)(0.5f)), 0.0f, 1.0f)",
    "gelu": "0.5f * v * (1.0f + error_function(v * 0.70710678f))",
    "gelu_tanh": "v / (1.0f + exponential(-1.59576912f * fma(0.044715f * v * v, v, v)))",
    "erf": "error_function(v)",
    "clip": "limited(v, {0}, {1})",
    "exp": "exponential(v)",
    "sqrt": "sqrt(v)",
    "softplus": "max(v, 0.0f) + log1p(exponential(-fabs(v)))",
    "mish": "v * tanh(max(v, 0.0f) + log1p(exponential(-fabs(v))))",
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
    "min": "v < o || v != v ? v : o",
    "max": "v > o || v != v ? v : o",
    "prelu": "v < 0.0f ? o * v : v",
}

# Each is there when a step, or a function after it, calls it.
_HELPERS = {
    "error_function": """
// Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: absolute error 1.5e-7.
static VECTOR error_function(const VECTOR v) {
  const VECTOR t = 1.0f / fma((VECTOR)(0.3275911f), fabs(v), (VECTOR)(1.0f));
  VECTOR p = fma(t, (VECTOR)(1.061405429f), (VECTOR)(-1.453152027f));
  p = fma(p, t, (VECTOR)(1.421413741f));
  p = fma(p, t, (VECTOR)(-0.284496736f));
  p = fma(p, t, (VECTOR)(0.254829592f));
  return copysign(1.0f - p * t * exponential(-v * v), v);
}
""",
    "exponential": """
// 2^n * e^r with n whole and |r| <= ln(2) / 2: relative error 9e-8, in half the time of exp.
// Adding 1.5 * 2^23 rounds to n and leaves n in the low bits, where a shift makes an exponent of
// it. The polynomial (minimax, degree 6) is doubled and n one less, so that 2^n is finite for all
// v below 88.7, and infinite beyond.
static inline VECTOR exponential(VECTOR v) {
  v = v < -87.5f ? (VECTOR)(-87.5f) : v;
  v = v > 89.4f ? (VECTOR)(89.4f) : v;
  const VECTOR shifted = fma(v, (VECTOR)(1.44269504f), (VECTOR)(12582912.0f + 126.0f));
  const VECTOR n = shifted - (12582912.0f + 126.0f);
  const VECTOR r = fma(n, (VECTOR)(-1.42860677e-6f), fma(n, (VECTOR)(-0.693145752f), v));
  VECTOR p = fma(r, (VECTOR)(0x1.6ae71ep-9f), (VECTOR)(0x1.126794p-6f));
  p = fma(p, r, (VECTOR)(0x1.555822p-4f));
  p = fma(p, r, (VECTOR)(0x1.55541ap-2f));
  p = fma(p, r, (VECTOR)(0x1.fffffcp-1f));
  p = fma(p, r, (VECTOR)(2.0f));
  p = fma(p, r, (VECTOR)(2.0f));
  return p * AS_VECTOR(AS_BITS(shifted) << 23);
}
""",
    "limited": """
static inline VECTOR limited(VECTOR v, const float least, const float most) {
  v = v < least ? (VECTOR)(least) : v;
  return v > most ? (VECTOR)(most) : v;
}
""",
}


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


def render(steps: Sequence[str], vector: str = "float16", *, before: Sequence[str] = ()) -> str:
    """Macros for a template: PARAMETERS, ARGUMENTS and EPILOGUE.

    EPILOGUE changes `v` (a `vector`); the template defines LOAD_CHANNEL(array) and
    LOAD_TENSOR(array), which find the operand for that `v` in an array. `before` are the steps of
    a first computation in the same kernel, whose operands come first.
    """
    both = (*before, *steps)
    return (
        helpers(both, vector=vector)
        + f"#define PARAMETERS {parameters(both)}\n"
        + f"#define ARGUMENTS {arguments(both)}\n"
        + f"#define EPILOGUE {body(steps)}\n"
    )


def helpers(steps: Sequence[str], names: Sequence[str] = (), vector: str = "float16") -> str:
    """The macro VECTOR, and the OpenCL C functions that the steps call or that are in `names`."""
    text = body(steps) + " ".join(names)
    functions: list[str] = []
    for name, function in _HELPERS.items():
        if name in text:
            text += function
            functions.insert(0, function)
    types = f"""#define VECTOR {vector}
#define AS_VECTOR(bits) as_{vector}(bits)
#define AS_BITS(v) as_{vector.replace("float", "int")}(v)
"""
    return types + "".join(functions)


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
