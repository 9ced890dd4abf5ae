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
__all__: list[str] = ['Cancellation', 'Cancelled', 'ChatPrompt', 'ContextFull', 'Error', 'Generator', 'ModelError', 'News', 'OutputFile', 'QueueFull', 'RequestHandle', 'VocabularyMismatch', 'check_output', 'check_request_options', 'companion_of', 'derived_seed', 'evaluate', 'files_below', 'find_bundled_pair', 'generator_options', 'hub_model_files', 'hub_projectors', 'hub_repository', 'ignored_keywords', 'mxfp6', 'parse_chat_outputs', 'picture_mark', 'read_metadata', 'render_chat_template', 'request_options', 'sampling', 'shares', 'suggestion', 'take_log', 'text_of_file']
class Error(RuntimeError):
    """
    Base class of this package's errors. Bad arguments raise ValueError or TypeError.
    """
class ModelError(Error):
    """
    A model file that cannot be used, or a model that failed while running.
    """
class VocabularyMismatch(ModelError):
    """
    Draft and target do not share a vocabulary; the message shows the first difference.
    """
class ContextFull(Error):
    """
    The prompt does not fit into the context.
    """
class QueueFull(Error):
    """
    The queue is full: max_queue_size requests are waiting already.
    """
class Cancelled(Error):
    """
    The generation was cancelled; the Generator stays usable.
    """
class OutputFile:
    """
    A file that gets its name when the `with` block ends without an exception. Inside it, write the file `partial`.
    """
    def __enter__(self) -> typing.Any:
        ...
    def __exit__(self, type: typing.Any, value: typing.Any, traceback: typing.Any) -> None:
        ...
    def __init__(self, path: typing.Any, overwrites: bool, remedy: str = '') -> None:
        ...
    @property
    def partial(self) -> typing.Any:
        ...
class Cancellation:
    """
    Ends work that runs in another thread.
    """
    def __init__(self) -> None:
        ...
    def ask(self) -> None:
        """
        Any thread may call this.
        """
    @property
    def is_asked(self) -> bool:
        ...
class ChatPrompt:
    """
    A conversation as a prompt, with the options of a request; made by Generator.chat().
    """
    def parse(self, text: typing.Any, is_partial: bool) -> tuple[str, str, list[tuple[str, str, str]]]:
        """
        (content, reasoning_content, [(id, name, arguments)]) of an answer, or with is_partial of its
        beginning. The id is "" if the model wrote none, as most do.
        """
    @property
    def tokens(self) -> list[int]:
        """
        The prompt.
        """
class News:
    """
    Which watched requests have changed.
    """
    def __init__(self) -> None:
        ...
    def take(self) -> list[int]:
        """
        Waits up to 20 ms for the numbers of watched requests that have changed.
        """
class RequestHandle:
    """
    A submitted request. Dropping it ends the request.
    """
    def cancel(self) -> None:
        """
        Asks the request to end, without waiting for it.
        """
    def peek(self, index: typing.SupportsInt | typing.SupportsIndex) -> typing.Any:
        """
        Like wait(), but returns None if the piece does not exist yet.
        """
    def prompt_score(self) -> typing.Any:
        """
        (tokens, logprobs, most_likely, top_logprobs) of a scored prompt; all but tokens have an entry per token
        of tokens[1:]. None before the first piece or the end, and if no score was asked for.
        """
    def stats(self) -> dict[str, typing.Any]:
        ...
    def wait(self, index: typing.SupportsInt | typing.SupportsIndex) -> typing.Any:
        """
        Waits for (token, text, draft_source, logprob, finish_reason, top_logprobs) of piece `index`; None if
        the request ends before it.
        """
    def wait_for_end(self, progress: typing.Any = None) -> None:
        """
        Waits for the end of the request. progress: called with the number of prompt tokens read and their
        total, when the first changes.
        """
    def watch(self, news: News, number: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        After every new piece and at the end, news.take() returns `number`.
        """
    @property
    def done(self) -> bool:
        ...
    @property
    def error(self) -> typing.Any:
        """
        The exception that ended the request early, or None.
        """
    @property
    def prompt_progress(self) -> tuple[int, int]:
        """
        (prompt tokens read so far, all prompt tokens).
        """
    @property
    def seed(self) -> int:
        ...
    @property
    def verification(self) -> str:
        ...
class Generator:
    """
    The engine behind specdec_native.Generator.
    """
    def __init__(self, tell: collections.abc.Callable[[str, float], typing.Any], download: collections.abc.Callable[[str], str], **kwargs: typing.Any) -> None:
        """
        Takes the options of generator_options(). While models are loaded, tell(step, share) is called every
        50 ms; if it raises, loading stops. download(name) returns the path of a model from the hub, or raises
        Error.
        """
    def chat(self, messages: str, pictures: collections.abc.Sequence[tuple[str, bytes]], tools: str, callable: str, is_required: bool, is_parallel: bool, continues_answer: bool, **kwargs: typing.Any) -> ChatPrompt:
        """
        The same as chat_prompt(), as a prompt for submit(), with its options. pictures: (name, bytes), whose
        marks (picture_mark()) stand in the messages. Control tokens written in messages and tools are ordinary
        text. callable: the tools that may be called; is_required: one of them must be; is_parallel: more than
        one may be.
        """
    def chat_prompt(self, messages: str, tools: str, add_generation_prompt: bool, continues_answer: bool) -> str:
        """
        A conversation rendered in the target's chat template. messages and tools are JSON; tools may be null.
        continues_answer: the last message is the beginning of the answer.
        """
    def close(self) -> None:
        """
        Ends all requests; no more can be submitted.
        """
    def detokenize(self, tokens: typing.Any, special: bool) -> str:
        ...
    def drafting(self, request: RequestHandle | None) -> str:
        """
        Whether a request (None: a future one) uses drafts, and if not, why.
        """
    def embed(self, text: typing.Any, cancellation: Cancellation) -> numpy.typing.NDArray[numpy.float32]:
        """
        The embedding of a str or token ids, normalized to length 1. Raises Cancelled once that is asked for.
        """
    def hidden_rows(self, text: typing.Any, layers: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], num_top: typing.SupportsInt | typing.SupportsIndex) -> typing.Any:
        """
        (tokens, rows [tokens, layers, width], top_tokens and top_logprobs [tokens, num_top]) of a str or token ids.
        """
    def label_tokens(self, label: typing.Any) -> list[int]:
        """
        The tokens of a label, a str or token ids, as the continuation of a prompt.
        """
    def load_prefix(self, path: bytes) -> tuple[int, str]:
        """
        Fills the caches of a free slot from a file; returns (number of tokens, ""), or (0, why the file is unusable).
        """
    def prompt_tokens(self, prompt: typing.Any) -> list[int]:
        """
        The tokens of a prompt, a str or token ids.
        """
    def save_prefix(self, request: RequestHandle, path: bytes) -> int:
        """
        Writes the cached part of a request to a file; returns its number of tokens.
        """
    def set_remembers_outputs(self, remembers: bool) -> None:
        """
        False: drafts are not copied from outputs of requests that finish after this call.
        """
    def submit(self, prompt: typing.Any, pictures: collections.abc.Sequence[tuple[str, bytes]], score_prompt: bool, read_prompt: bool, **kwargs: typing.Any) -> RequestHandle:
        """
        Submits a request; any thread may call it. Takes the options of request_options(). pictures: (name,
        bytes), which come before the prompt. read_prompt: read the prompt even if max_tokens is 0.
        """
    def submit_label(self, prompt: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], label: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> RequestHandle:
        """
        Submits a request that scores a label after the prompt.
        """
    def submit_reading(self, prompt: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> RequestHandle:
        """
        Submits a request that only reads the prompt.
        """
    def time_passes(self, after: RequestHandle, max_tokens: typing.SupportsInt | typing.SupportsIndex, repeats: typing.SupportsInt | typing.SupportsIndex) -> list[float]:
        """
        Seconds that passes of the target over 1 to max_tokens tokens take, after the tokens of a request that
        has ended.
        """
    def tokenize(self, text: typing.Any, special: bool) -> list[int]:
        ...
    @property
    def draft_choice(self) -> str:
        """
        What draft="auto" chose, or "".
        """
    @property
    def draft_window(self) -> int:
        ...
    @property
    def has_chat_template(self) -> bool:
        """
        Whether the target has a chat template.
        """
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
    def num_layers(self) -> int:
        ...
    @property
    def placement(self) -> str:
        """
        Which layers run on which devices; "" if none were asked for.
        """
    @property
    def pooling(self) -> str:
        """
        How embeddings are pooled: "mean", "first", "last" or "rank" (not at all).
        """
def check_output(path: typing.Any, overwrites: bool, remedy: str) -> None:
    """
    The rule for every file that is written: Error if it exists already (unless overwrites), is not a regular
    file, or if its folder does not exist.
    """
def check_request_options(**kwargs: typing.Any) -> None:
    """
    Raises the error that submit() would raise for these options.
    """
def companion_of(target: str) -> str | None:
    """
    The name of the best draft on the hub for a target's file, or None. ModelError.
    """
def derived_seed(seed: typing.SupportsInt | typing.SupportsIndex, index: typing.SupportsInt | typing.SupportsIndex) -> int:
    """
    The seed of request `index` in a batch with the common seed `seed`.
    """
def evaluate(path: str, tokens: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], pass_sizes: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], n_threads: typing.SupportsInt | typing.SupportsIndex = 1, kv_type: str = 'f16', mmap: bool = True, repack: str = '', memory_to_leave: typing.SupportsInt | typing.SupportsIndex = 0, devices: collections.abc.Sequence[str] = [], n_gpu_layers: typing.SupportsInt | typing.SupportsIndex = -1, width: typing.SupportsInt | typing.SupportsIndex = 0, pads: bool = True, memory: typing.SupportsInt | typing.SupportsIndex = 0, tile_cache: str = '') -> numpy.typing.NDArray[numpy.float32]:
    """
    Logits of a token sequence, float32 [len(tokens), vocabulary]: row i predicts the token after tokens[i]. For
    tests and teaching.
    
    path: a GGUF file, loaded for this call
    pass_sizes: number of tokens in each pass, repeated until all tokens are read; the logits do not depend on it
    n_threads: 1..512
    kv_type: "f16" or "q8_0", the type of the KV cache
    mmap: False reads the weights into memory instead of mapping the file
    repack: "file" copies quantized weights (Q4_K, Q8_0, ...) into the order of the kernels, which changes no bit;
        "4-bit" also rounds those of more than 4.5 bits to Q4_0, "auto" not those of small models; ModelError if there
        are none, or if less than memory_to_leave bytes would be left
    devices, n_gpu_layers: of this machine, for the last n_gpu_layers layers (-1: all)
    width: of all passes (docs/devices.md); 0: they are as wide as pass_sizes says
    pads: False uses batch-invariant kernels and passes of at most `width` tokens; ModelError if there are none for this
        model, or if len(tokens) is less than width * width / 2
    memory: bytes for the weights' matrices, or as many as are needed at least; the rest is streamed (docs/memory.md),
        and ModelError if nothing is; 0: they are mapped
    tile_cache: a folder for that, where tiles of the model are kept
    
    ValueError: no tokens, an id outside the vocabulary, a pass of no tokens, an argument out of range.
    ModelError: a file that cannot be used.
    """
def files_below(folder: typing.Any) -> list[str]:
    """
    The files below a folder in the order of their paths, without hidden ones and links. Error.
    """
def find_bundled_pair(folders: collections.abc.Sequence[str]) -> tuple[str, str]:
    """
    The paths of the bundled target and draft, searched for in these folders.
    """
def generator_options() -> dict[str, dict[str, typing.Any]]:
    """
    The options of a Generator, described as in request_options().
    """
def hub_model_files(name: str, paths: collections.abc.Sequence[str]) -> list[str]:
    """
    The files of the named model among a repository's paths; all parts of a split model. ModelError.
    """
def hub_projectors(paths: collections.abc.Sequence[str]) -> list[str]:
    """
    The projectors among a repository's paths, the best first.
    """
def hub_repository(name: str) -> str:
    """
    The OWNER/NAME of hf:OWNER/NAME, hf:OWNER/NAME:QUANT or hf:OWNER/NAME/FILE.gguf. ValueError.
    """
def ignored_keywords(**kwargs: typing.Any) -> list[str]:
    """
    The places (JSON pointers) of keywords that strict_schema=False leaves to the caller.
    """
def parse_chat_outputs(source: str, messages: str, tools: str, texts: collections.abc.Sequence[str], step: typing.SupportsInt | typing.SupportsIndex = 0, is_cut: bool = False) -> list[tuple[str, str, list[tuple[str, str, str]]]]:
    """
    (content, reasoning_content, [(id, name, arguments)]) of answers in the form of a template; all texts but
    the last are treated as beginnings. With a step, all texts are whole answers, read in pieces of that many
    bytes, and the outputs are the sums of what each piece adds. is_cut: the answers were cut off.
    """
def picture_mark(index: typing.SupportsInt | typing.SupportsIndex) -> str:
    """
    What stands for a picture in the text of a message.
    """
def read_metadata(path: str) -> dict[str, typing.Any]:
    """
    The metadata of a model's first file: int, float, bool, str and lists of these. ModelError.
    """
def render_chat_template(source: str, messages: str, tools: str, add_generation_prompt: bool, bos_token: str, eos_token: str) -> list[tuple[str, bool]]:
    """
    The output of a Jinja template in parts, each with whether it comes from messages or tools. messages and
    tools are JSON. RuntimeError if the template cannot be parsed, fails or exceeds a limit.
    """
def request_options() -> dict[str, dict[str, typing.Any]]:
    """
    The options of a request: name -> type, requirement, default, command line flags and help.
    """
def shares(logprobs: collections.abc.Sequence[typing.SupportsFloat | typing.SupportsIndex]) -> list[float]:
    """
    The labels' shares of their common probability, from their log-probabilities.
    """
def suggestion(word: str, candidates: collections.abc.Sequence[str]) -> str:
    """
    "; did you mean X?" for the candidate closest to a word, or "" if none is close.
    """
def take_log() -> list[tuple[int, str]]:
    """
    The (level, line) pairs logged since the last call, oldest first, at most the latest 10,000. Levels as in logging.
    """
def text_of_file(path: typing.Any) -> str | None:
    """
    The text of a file, or the first MiB of it; None: it is binary. Error.
    """
__version__: str = '0.1.0'
