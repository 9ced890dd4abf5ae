"""Lossless speculative decoding of large language models on ordinary CPUs.

>>> import specdec_native as sd
>>> gen = sd.Generator()                       # the bundled pair; or Generator(target="t.gguf", draft="d.gguf")
>>> for piece in gen.stream("def bfs(graph, start):", max_tokens=64):
...     print(piece.text, end="", flush=True)
>>> gen.stats.acceptance_rate
"""

from . import mxfp6, sampling
from ._core import Cancelled, ContextFull, Error, ModelError, QueueFull, VocabularyMismatch, __version__
from ._generator import Generator
from ._handles import RequestHandle
from ._options import Request, StreamOptions
from ._results import Completion, Event, Piece, Score, Stats
from ._streams import EventStream, Stream

__all__ = [
    "Cancelled",
    "Completion",
    "ContextFull",
    "Error",
    "Event",
    "EventStream",
    "Generator",
    "ModelError",
    "Piece",
    "QueueFull",
    "Request",
    "RequestHandle",
    "Score",
    "Stats",
    "Stream",
    "StreamOptions",
    "VocabularyMismatch",
    "__version__",
    "mxfp6",
    "sampling",
]
