import importlib
import os

import pytest
from ports import BOARDS, Port


def boards() -> tuple[Port, ...]:
    if named := os.environ.get("MODELD_PORT"):
        module, _, name = named.partition(":")
        return (getattr(importlib.import_module(module), name),)
    return BOARDS


@pytest.fixture(params=boards(), ids=lambda board: board.name)
def port(request: pytest.FixtureRequest) -> Port:
    return request.param
