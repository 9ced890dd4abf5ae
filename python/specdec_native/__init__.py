"""Lossless speculative decoding of large language models on ordinary CPUs.

>>> import specdec_native as sd
>>> gen = sd.Generator()                       # the bundled pair; or Generator(target="t.gguf", draft="d.gguf")
>>> for piece in gen.stream("def bfs(graph, start):", max_tokens=64):
...     print(piece.text, end="", flush=True)
>>> gen.stats.acceptance_rate
"""

try:
    from . import mxfp6, sampling
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("specdec_native._core"):
        raise
    raise ImportError("the native extension is not built; run `make build` here, or `pip install .`") from error
from ._chat import AssistantMessage, FunctionCall, ToolCall
from ._core import Cancelled, ContextFull, Error, ModelError, QueueFull, VocabularyMismatch, __version__
from ._generator import Generator
from ._handles import AsyncStream, ChatHandle, EmbeddingHandle, RequestHandle
from ._options import ChatOptions, GeneratorOptions, Request, StreamOptions
from ._results import ChatCompletion, ChoiceScore, Completion, Event, HiddenRows, Piece, Score, Stats, ignored_keywords
from ._streams import ChatStream, EventStream, Stream

__all__ = [
    "AssistantMessage",
    "AsyncStream",
    "Cancelled",
    "ChatCompletion",
    "ChatHandle",
    "ChatOptions",
    "ChatStream",
    "ChoiceScore",
    "Completion",
    "ContextFull",
    "EmbeddingHandle",
    "Error",
    "Event",
    "EventStream",
    "FunctionCall",
    "Generator",
    "GeneratorOptions",
    "HiddenRows",
    "ModelError",
    "Piece",
    "QueueFull",
    "Request",
    "RequestHandle",
    "Score",
    "Stats",
    "Stream",
    "StreamOptions",
    "ToolCall",
    "VocabularyMismatch",
    "__version__",
    "ignored_keywords",
    "mxfp6",
    "sampling",
]
