"""
The native engine of specdec_native; use it through the package.
"""
from __future__ import annotations
import collections.abc
import numpy
import numpy.typing
import typing
from . import sampling
from . import mxfp6
__all__: list[str] = ['AUTO_DRAFT_TOKENS', 'Cancelled', 'ContextFull', 'Error', 'Generator', 'MAX_DRAFT_TOKENS', 'ModelError', 'SamplingParams', 'VocabularyMismatch', 'evaluate', 'find_bundled_pair', 'mxfp6', 'sampling']
class Error(RuntimeError):
    """
    Base class of this package's errors; bad arguments are ValueError.
    """
class ModelError(Error):
    """
    A model file or model that cannot be used, or that failed while running.
    """
class VocabularyMismatch(ModelError):
    """
    Draft and target do not share a vocabulary; the message shows the first difference.
    """
class ContextFull(Error):
    """
    The prompt does not fit into the context.
    """
class Cancelled(Error):
    """
    The generation was stopped from outside; the generator stays usable.
    """
class SamplingParams:
    """
    Transforms of both models' logits; see Generator.stream.
    """
    def __init__(self, *, temperature: typing.SupportsFloat | typing.SupportsIndex, top_k: typing.SupportsInt | typing.SupportsIndex, top_p: typing.SupportsFloat | typing.SupportsIndex, min_p: typing.SupportsFloat | typing.SupportsIndex, repeat_penalty: typing.SupportsFloat | typing.SupportsIndex, frequency_penalty: typing.SupportsFloat | typing.SupportsIndex, presence_penalty: typing.SupportsFloat | typing.SupportsIndex, penalty_last_n: typing.SupportsInt | typing.SupportsIndex, logit_bias: collections.abc.Mapping[typing.SupportsInt | typing.SupportsIndex, typing.SupportsFloat | typing.SupportsIndex]) -> None:
        ...
class Generator:
    """
    The engine behind specdec_native.Generator.
    """
    def __init__(self, *, target: str, draft: str, n_ctx: typing.SupportsInt | typing.SupportsIndex, n_threads: typing.SupportsInt | typing.SupportsIndex, n_batch: typing.SupportsInt | typing.SupportsIndex, n_gpu_layers: typing.SupportsInt | typing.SupportsIndex | None, rpc: collections.abc.Sequence[str], mmap: bool, kv_type: str, max_sequences: typing.SupportsInt | typing.SupportsIndex, num_draft_tokens: typing.SupportsInt | typing.SupportsIndex) -> None:
        ...
    def cancel(self, id: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        Ends a request.
        """
    def detokenize(self, tokens: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> str:
        ...
    def next(self) -> typing.Any:
        """
        The next (token, text, from_draft, logprob, finish_reason), or None at the end.
        """
    def next_event(self) -> typing.Any:
        """
        The next (id, seed, verification, piece or None, exception or None, stats at the request's end or None), or None when all requests are finished.
        """
    def start(self, *, prompt: str | collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], sampling: SamplingParams, stop: collections.abc.Sequence[str], seed: typing.SupportsInt | typing.SupportsIndex | None, num_draft_tokens: typing.SupportsInt | typing.SupportsIndex | None, max_tokens: typing.SupportsInt | typing.SupportsIndex, verification: str, drafting: str) -> None:
        """
        Begins a text; reads the prompt into both caches.
        """
    def start_many(self) -> None:
        """
        Ends all running requests and starts a run of submitted ones.
        """
    def stats(self) -> dict[str, typing.Any]:
        """
        Counters of the running or last request.
        """
    def stop(self) -> None:
        """
        Ends all running requests, on whichever thread they run.
        """
    def submit(self, *, prompt: str | collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], sampling: SamplingParams, stop: collections.abc.Sequence[str], seed: typing.SupportsInt | typing.SupportsIndex | None, num_draft_tokens: typing.SupportsInt | typing.SupportsIndex | None, max_tokens: typing.SupportsInt | typing.SupportsIndex, verification: str, drafting: str) -> int:
        """
        Queues a text beside those that run; its id.
        """
    def tokenize(self, text: str) -> list[int]:
        ...
    @property
    def max_sequences(self) -> int:
        ...
    @property
    def n_ctx(self) -> int:
        ...
    @property
    def n_threads(self) -> int:
        ...
    @property
    def seed(self) -> int:
        ...
    @property
    def turn(self) -> int:
        """
        Counts what ends the texts before it: start and start_many.
        """
    @property
    def verification(self) -> str:
        ...
def evaluate(path: str, tokens: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], pass_sizes: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], n_threads: typing.SupportsInt | typing.SupportsIndex = 1, kv_type: str = 'f16', mmap: bool = True) -> numpy.typing.NDArray[numpy.float32]:
    """
    Logits float32 [len(tokens), vocabulary] of a text: row i predicts the token after tokens[i]. For tests and teaching.
    
    path: a GGUF file, loaded for this call
    pass_sizes: how many tokens each pass reads, repeated to the end of the text; the engine's results do not depend on it
    kv_type: "f16" or "q8_0", how the cache holds keys and values
    mmap: False reads the weights into memory instead of mapping the file
    
    ValueError: no tokens, an id outside the vocabulary, a pass of no tokens. ModelError: a file that cannot be used.
    """
def find_bundled_pair(folders: collections.abc.Sequence[str]) -> tuple[str, str]:
    """
    Paths of the bundled target and draft.
    """
AUTO_DRAFT_TOKENS: int = -1
MAX_DRAFT_TOKENS: int = 63
__version__: str = '0.1.0'
