"""The wire schema of the messages, readable by openpilot's tools and reading theirs."""

from functools import cache
from pathlib import Path
from typing import Any


@cache
def load() -> Any:
    """The compiled schema: a namespace with `Event` and the modules it imports.

    Compiled once in a process (about 10 ms). Only Cap'n Proto is imported.
    """
    import capnp  # here, so that the services table can be read without it

    # pycapnp would otherwise let any `import x_capnp` in the process compile files on the path.
    capnp.remove_import_hook()
    return capnp.load(str(Path(__file__).parent / "log.capnp"))
