"""Driving networks of past generations, wrapped into today's interface on the ONNX graph.

Such a network leaves its history to the host: queues of frames, features, desires and curvatures.
Here the queues become state of the graph (inputs `state_X` with outputs `next_state_X`), so that
the runtime sees one interface, whatever the generation: `new_img`, `desire`, a few small inputs,
and one float32 vector `outputs`.
"""

from compile.generations.network import Network, find_network
from compile.generations.part import Part, is_part, read_part
from compile.generations.rules import GENERATIONS, TODAY
from compile.generations.wrap import wrap

__all__ = [
    "GENERATIONS",
    "TODAY",
    "Network",
    "Part",
    "find_network",
    "is_part",
    "read_part",
    "wrap",
]
