"""Operators whose implementation in tinygrad's ONNX table is right as it is."""

from collections.abc import Callable
from typing import Any

import numpy as np
from tinygrad.nn.onnx import onnx_ops, required_input_python_consts

from compile.ops.registry import Op

_NAMES = ()


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _adapt(run: Callable[..., Any]) -> Callable[..., Any]:
    def adapted(*inputs: Any, **attributes: Any) -> Any:
        return run(*map(_plain, inputs), **attributes)

    return adapted


OPS = tuple(
    Op(name, _adapt(run), constants=required_input_python_consts.get(name, ()))
    for name, run in onnx_ops.items()
    if callable(run)
)
