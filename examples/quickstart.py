"""From tensors to a trained network that runs in the daemon's executor, in eight steps.

    python examples/quickstart.py [--steps 1000] [--out out/quickstart]

Needs `pip install -e '.[compile]'` and an OpenCL platform; no download, no compiler. What each
step shows, and what tinygrad does that one would not expect, is in docs/quickstart.md.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tinygrad import Context, Device, GlobalCounters, Tensor, TinyJit, dtypes, nn
from tinygrad.engine.jit import JitError
from tinygrad.nn.optim import SGD, Adam, Optimizer
from tinygrad.nn.state import get_parameters, get_state_dict, load_state_dict, safe_load

from compile.device import use_device
from compile.training.digits import Batches, Digits, draw_digits
from compile.training.perceptron import perceptron_onnx
from modeld import Executor, open_artifact
from modeld.opencl import select_device

BATCH = 64
# tinygrad's random numbers begin with the time of day unless they are told otherwise.
SEED = 1
PLAIN_STEPS = 20
PARTS = ("weight", "bias")

FACTORIES: Mapping[str, Callable[[], Tensor]] = {
    "Tensor([1, 2, 3])": lambda: Tensor([1, 2, 3]),
    "Tensor([1.5, 2])": lambda: Tensor([1.5, 2]),
    "Tensor([True, False])": lambda: Tensor([True, False]),
    "Tensor(b'ab')": lambda: Tensor(b"ab"),
    "Tensor(numpy array)": lambda: Tensor(np.array([1, 2], np.int16)),
    "Tensor(3.5)": lambda: Tensor(3.5),
    "Tensor.empty(2, 2)": lambda: Tensor.empty(2, 2),
    "Tensor.zeros(2, 2)": lambda: Tensor.zeros(2, 2),
    "Tensor.ones(3, dtype=float16)": lambda: Tensor.ones(3, dtype=dtypes.float16),
    "Tensor.full((2, 2), 7)": lambda: Tensor.full((2, 2), 7),
    "Tensor.arange(5)": lambda: Tensor.arange(5),
    "Tensor.linspace(0, 1, 3)": lambda: Tensor.linspace(0, 1, 3),
    "Tensor.eye(2)": lambda: Tensor.eye(2),
    "Tensor.rand(3)": lambda: Tensor.rand(3),
    "Tensor.randn(3)": lambda: Tensor.randn(3),
    "Tensor.randint(3, high=6)": lambda: Tensor.randint(3, high=6),
    "Tensor.randperm(4)": lambda: Tensor.randperm(4),
    "Tensor.normal(2, mean=9)": lambda: Tensor.normal(2, mean=9),
    "Tensor.uniform(2, low=-1)": lambda: Tensor.uniform(2, low=-1),
    "Tensor.scaled_uniform(2)": lambda: Tensor.scaled_uniform(2),
    "Tensor.glorot_uniform(2)": lambda: Tensor.glorot_uniform(2),
    "Tensor.kaiming_uniform(2)": lambda: Tensor.kaiming_uniform(2),
    "Tensor.kaiming_normal(2)": lambda: Tensor.kaiming_normal(2),
    "Tensor([1, 2]).full_like(8)": lambda: Tensor([1, 2]).full_like(8),
    "Tensor([1, 2]).zeros_like()": lambda: Tensor([1, 2]).zeros_like(),
    "Tensor([1, 2]).ones_like()": lambda: Tensor([1, 2]).ones_like(),
    "Tensor([1, 2]).cast(int8)": lambda: Tensor([1, 2]).cast(dtypes.int8),
    "Tensor([1.0]).bitcast(uint32)": lambda: Tensor([1.0]).bitcast(dtypes.uint32),
}


def main() -> int:
    """Run the steps; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=1000, help="training steps of each optimizer")
    parser.add_argument("--out", type=Path, help="where the files go (default: thrown away)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        run(args.steps, args.out or Path(scratch))
    return 0


def run(steps: int, out: Path) -> None:
    """All steps, one after the other."""
    out.mkdir(parents=True, exist_ok=True)
    install()
    tensors()
    train, test = draw_digits(4000, seed=1), draw_digits(1000, seed=2)
    slow, fast = network(), network()
    heading("3 Network")
    for name, tensor in get_state_dict(fast).items():
        print(f"{name:12} {tensor.shape!s:12} {tensor.dtype}")
    heading(f"4 Training, {steps} steps of {BATCH} with SGD")
    training(slow, SGD(get_parameters(slow), lr=3e-4), train, steps)
    evaluation(slow, test)
    heading(f"4 Training, {steps} steps of {BATCH} with Adam")
    training(fast, Adam(get_parameters(fast), lr=3e-4), train, steps)
    evaluation(fast, test)
    jit(fast, test)
    jit_refusals()
    safetensors(fast, out / "digits.safetensors")
    deployment(fast, test, out)


def heading(text: str) -> None:
    """Announce a step."""
    print(f"\n== {text}")


def install() -> None:
    """Step 1: what is installed and where it computes."""
    heading("1 Install")
    # Before tinygrad opens a device: the one the artifact will be built for.
    device = select_device()
    use_device(device)
    print(f"tinygrad computes on {Device.DEFAULT}: {device.name} of {device.platform.name}")


def tensors() -> None:
    """Step 2: ways to make a tensor, and that nothing is computed until it is asked for."""
    heading("2 Tensors")
    Tensor.manual_seed(SEED)
    for name, make in FACTORIES.items():
        tensor = make()
        # Constants belong to no device until they are given one.
        stored = tensor if tensor.device else tensor.clone(Device.DEFAULT)
        text = np.array2string(stored.numpy(), precision=2, separator=", ").replace("\n", "")
        print(f"{name:32} {tensor.dtype!s:18} {text}")
    before = GlobalCounters.kernel_count
    total = (Tensor([1.0, 2.0, 3.0]) * 2 + 1).relu().sum()
    print(f"lazy: {total.uop.op}, {GlobalCounters.kernel_count - before} kernels run so far")
    value = total.item()
    # One to copy the list to the device, one for all the arithmetic.
    print(f"asked for: {value}, {GlobalCounters.kernel_count - before} kernels run")


class Network:
    """Step 3: 784 pixels, 128 hidden values, 10 scores."""

    def __init__(self) -> None:
        self.l1 = nn.Linear(784, 128)
        self.l2 = nn.Linear(128, 10)

    def __call__(self, x: Tensor) -> Tensor:
        """Scores (N, 10) of images (N, 784)."""
        return self.l2(self.l1(x).relu())


def network() -> Network:
    """A new network; the same one every time."""
    Tensor.manual_seed(SEED)
    return Network()


def training(net: Network, optimizer: Optimizer, digits: Digits, steps: int) -> None:
    """Step 4: the loop, in training mode; the first steps plain, the others captured (step 6)."""

    def plain(images: Tensor, labels: Tensor) -> Tensor:
        return training_step(net, optimizer, images, labels)

    captured = TinyJit(plain)
    batches = Batches(digits, BATCH, SEED).starting_at(0)
    times: dict[str, list[float]] = {"plain": [], "captured": []}
    with Context(TRAINING=1):
        for step in range(steps):
            batch = next(batches)
            started = time.perf_counter()
            inputs = Tensor(batch.images).realize(), Tensor(batch.labels).realize()
            name = "plain" if step < PLAIN_STEPS else "captured"
            loss = (plain if step < PLAIN_STEPS else captured)(*inputs).item()
            times[name].append(time.perf_counter() - started)
            if step % 100 == 0 or step == steps - 1:
                print(f"step {step:4}: loss {loss:.3f}")
    for name, seconds in times.items():
        print(f"a {name} step: {1000 * np.median(seconds):.1f} ms")


def training_step(net: Network, optimizer: Optimizer, images: Tensor, labels: Tensor) -> Tensor:
    """One step; returns the loss before it."""
    optimizer.zero_grad()
    loss = net(images).sparse_categorical_crossentropy(labels)
    loss.backward()
    # All that a step changes is computed in one go.
    Tensor.realize(loss, *optimizer.schedule_step())
    return loss


def evaluation(net: Network, test: Digits) -> None:
    """Step 5: how many of the digits it has not seen it recognizes."""
    heading("5 Evaluation")
    started = time.perf_counter()
    scores = net(Tensor(test.images)).numpy()
    seconds = time.perf_counter() - started
    accuracy = (scores.argmax(1) == test.labels).mean()
    print(f"{accuracy:.1%} of {len(test.labels)} recognized, in {1000 * seconds:.0f} ms")


def jit(net: Network, test: Digits) -> None:
    """Step 6: the kernels of a call captured and run again, without building the graph again."""
    heading("6 JIT")
    images = [Tensor(test.images[i : i + 1]).realize() for i in range(60)]

    def predict(image: Tensor) -> Tensor:
        return net(image).realize()

    captured = TinyJit(predict)
    for image in images[:3]:  # runs, captures, replays
        captured(image)
    times, scores = {}, {}
    for name, call in (("built anew", predict), ("captured", captured)):
        started = time.perf_counter()
        # Read at once: what a captured call returns is overwritten by the next.
        scores[name] = [call(image).numpy() for image in images]
        times[name] = (time.perf_counter() - started) / len(images)
        print(f"{name}: {1000 * times[name]:.2f} ms an image")
    print(f"speed-up {times['built anew'] / times['captured']:.1f}")
    same = all((a == b).all() for a, b in zip(*scores.values(), strict=True))
    print(f"same scores: {same}")


def jit_refusals() -> None:
    """Step 6, continued: what cannot be captured, and what is captured wrongly without a word."""
    print("refused:")

    def pair() -> Tensor:
        return Tensor([[1.0, 2.0]]).realize()

    one = pair()
    refused: Mapping[str, tuple[Callable[..., object], list[Callable[[], Tensor]]]] = {
        "reading a value inside": (lambda x: Tensor([x.sum().item()]), [pair]),
        "the same tensor twice": (lambda x, y: (x + y).realize(), [lambda: one, lambda: one]),
        "a constant as input": (lambda x: (x + 1).realize(), [lambda: Tensor(3.0)]),
        "returning a number": (lambda x: [(x + 1).realize(), 1.5], [pair]),
        "computing nothing": (lambda x: x, [pair]),
    }
    for name, (function, inputs) in refused.items():
        captured = TinyJit(function)
        print(f"  {name}: {jit_error(lambda c=captured, i=inputs: call_thrice(c, i))}")
    captured = TinyJit(lambda x: (x + 1).realize())
    call_thrice(captured, [pair])
    wide = Tensor([[1.0, 2.0, 3.0]]).realize()
    print(f"  another shape: {jit_error(lambda: captured(wide)):.40}…")

    print("not refused, and wrong:")
    scaled = TinyJit(lambda x, factor: (x * factor).realize())
    results = [scaled(one, factor).tolist() for factor in (1, 2, 3)]
    print(f"  a Python number is fixed when captured: times 1, 2, 3 gives {results}")
    flat = TinyJit(lambda x: (x + 1).realize())
    call_thrice(flat, [lambda: Tensor([1.0, 2.0]).realize()])
    print(f"  a longer vector is cut: {flat(Tensor([1.0, 2.0, 3.0]).realize()).tolist()}")


def call_thrice(captured: Callable[..., object], inputs: list[Callable[[], Tensor]]) -> None:
    """Run, capture, replay."""
    for _ in range(3):
        captured(*(make() for make in inputs))


def jit_error(call: Callable[[], object]) -> str:
    """The first line of what tinygrad says."""
    try:
        call()
    except JitError as error:
        return str(error).partition("\n")[0]
    return "no error"


def safetensors(net: Network, path: Path) -> None:
    """Step 7: the weights in a file, and back in another network."""
    heading("7 Weights")
    arrays = {name: tensor.numpy() for name, tensor in get_state_dict(net).items()}
    # tinygrad's own safe_save writes through its CPU device, which needs clang; this does not.
    save_file(arrays, path)
    other = Network()
    load_state_dict(other, safe_load(path), verbose=False)
    same = all((t.numpy() == arrays[n]).all() for n, t in get_state_dict(other).items())
    print(f"{path.stat().st_size} bytes, loaded again: {same}")
    print("(weights do not resume a training; docs/training.md has what does)")


def deployment(net: Network, test: Digits, out: Path) -> None:
    """Step 8: export to ONNX, build an artifact, run it as the daemon does."""
    heading("8 Export, build, run")
    state = {name: tensor.numpy() for name, tensor in get_state_dict(net).items()}
    layers = {f"layers.{i}.{part}": state[f"l{i + 1}.{part}"] for i in (0, 1) for part in PARTS}
    model, artifact = out / "digits.onnx", out / "digits"
    model.write_bytes(perceptron_onnx(layers, "digits").SerializeToString())
    # In a process of its own, as on another machine.
    command = [sys.executable, "-m", "compile", "build", str(model), "--out", str(artifact)]
    print(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip())
    executor = Executor(open_artifact(artifact))
    chosen = test.images[:200]
    started = time.perf_counter()
    scores = [executor.run("run_model", {"image": image[None]})["scores"][0] for image in chosen]
    each = (time.perf_counter() - started) / len(chosen)
    expected = net(Tensor(chosen)).numpy()
    same = (np.argmax(scores, 1) == expected.argmax(1)).all()
    error = np.abs(np.stack(scores) - expected).max()
    print(f"executor: {1e6 * each:.0f} µs an image; same predictions: {same}; scores ±{error:.1e}")


if __name__ == "__main__":
    sys.exit(main())
