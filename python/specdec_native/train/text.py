"""Training text as tokens: files, folders, JSON lines and conversations; some documents are held out."""

from __future__ import annotations

import hashlib
import json
import pathlib
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core import Error, files_below, text_of_file
from .._generator import Generator

Tokens = npt.NDArray[np.int32]

LENGTH = 256  #: tokens in a sequence
SHORTEST = 32  #: a shorter remainder of a document is dropped
LEAST_TOKENS = 16 * LENGTH
HELD_OUT_SHARE = 20  #: one document in 20 is held out
HELD_OUT_TOKENS = 8 * LENGTH  #: at most, per kind
CODE = frozenset(
    f".{suffix}"
    for suffix in (
        *("bash", "c", "cc", "cpp", "cs", "css", "cu", "cxx", "dart", "el", "erl", "ex", "f90", "go", "h", "hpp", "hs"),
        *("html", "ipynb", "java", "jl", "js", "json", "jsx", "kt", "lua", "m", "ml", "php", "pl", "py", "pyi", "r"),
        *("rb", "rs", "scala", "sh", "sql", "swift", "toml", "ts", "tsx", "vue", "xml", "yaml", "yml", "zig"),
    )
)


@dataclass(frozen=True, slots=True)
class Source:
    """A document that has not been read yet: text, or a conversation."""

    kind: str  #: "code", "prose" or "chat"
    content: str | list[Any] | pathlib.Path


@dataclass(slots=True)
class Texts:
    """Sequences of at most LENGTH tokens: training sequences in random order, and held-out ones by kind."""

    training: list[Tokens] = field(default_factory=list)
    held_out: dict[str, list[Tokens]] = field(default_factory=dict)

    @property
    def num_tokens(self) -> int:
        return sum(map(len, self.training))


def kind_of(path: pathlib.Path) -> str:
    return "code" if path.suffix.lower() in CODE else "prose"


def json_lines(path: pathlib.Path, key: str) -> Iterator[Any]:
    """Yields one value per line: the line itself, or its member `key` if it is an object."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except ValueError:
                raise Error(f"{path}, line {number}: not JSON; each line must be a JSON value") from None
            value = value.get(key) if isinstance(value, dict) else value
            if not isinstance(value, str if key == "text" else list):
                raise Error(f'{path}, line {number}: no "{key}"')
            yield value


def sources(paths: Iterable[pathlib.Path], conversations: Iterable[pathlib.Path]) -> Iterator[Source]:
    """Binary files in folders are skipped; a binary file given by name is an error."""
    for path in paths:
        if path.is_dir():
            yield from (Source(kind_of(file), file) for file in map(pathlib.Path, files_below(path)))
        elif not path.exists():
            raise Error(f"there is no file or folder {path}")
        elif path.suffix == ".jsonl":
            yield from (Source("prose", text) for text in json_lines(path, "text"))
        elif text_of_file(path) is None:
            raise Error(f"{path} is a binary file; give text files, folders or JSON lines")
        else:
            yield Source(kind_of(path), path)
    for path in conversations:
        if not path.is_file():
            raise Error(f"there is no file {path}")
        yield from (Source("chat", messages) for messages in json_lines(path, "messages"))


def tokens_of(gen: Generator, source: Source) -> Tokens:
    """Empty if the source is binary or has no text."""
    content = source.content
    if isinstance(content, list):
        text: str | None = gen.apply_chat_template(content, add_generation_prompt=False)
    else:
        text = text_of_file(content) if isinstance(content, pathlib.Path) else content
    if not text:
        return np.empty(0, np.int32)
    return np.array(gen.tokenize(text, special=source.kind == "chat"), np.int32)


def sequences(tokens: Tokens) -> list[Tokens]:
    parts = [tokens[begin : begin + LENGTH] for begin in range(0, len(tokens), LENGTH)]
    return [part for part in parts if len(part) >= SHORTEST]


def is_held_out(tokens: Tokens) -> bool:
    return int(hashlib.sha1(tokens.tobytes()).hexdigest(), 16) % HELD_OUT_SHARE == 0


def add(texts: Texts, kind: str, tokens: Tokens) -> None:
    """Adds a document to the training set, or its middle to the held-out set, so that this has several documents."""
    kept = texts.held_out.setdefault(kind, [])
    if is_held_out(tokens) and sum(map(len, kept)) < HELD_OUT_TOKENS:
        parts = sequences(tokens)
        kept.extend(parts[len(parts) // 2 :][:1])
    else:
        texts.training.extend(sequences(tokens))


def finish(texts: Texts, documents: dict[str, list[Tokens]]) -> None:
    """If no document of a kind was held out, holds out the end of the longest one."""
    for kind, several in documents.items():
        if texts.held_out.get(kind):
            continue
        longest = max(several, key=len)
        parts = sequences(longest)
        count = max(1, min(len(parts) // 10, HELD_OUT_TOKENS // LENGTH))
        ends = {part.tobytes() for part in parts[-count:]}
        texts.held_out[kind] = parts[-count:]
        texts.training = [part for part in texts.training if part.tobytes() not in ends]
    texts.held_out = {kind: parts for kind, parts in sorted(texts.held_out.items()) if parts}


def read_texts(gen: Generator, given: Sequence[Source], most_tokens: int, seed: int) -> Texts:
    """Reads sources in random order until it has about most_tokens."""
    texts = Texts()
    longest: dict[str, list[Tokens]] = {}
    order = list(given)
    random.Random(seed).shuffle(order)
    seen: set[bytes] = set()
    count = 0
    for source in order:
        tokens = tokens_of(gen, source)
        digest = hashlib.sha1(tokens.tobytes()).digest()
        if len(tokens) < SHORTEST or digest in seen:
            continue
        seen.add(digest)
        add(texts, source.kind, tokens)
        if source.kind not in longest or len(tokens) > len(longest[source.kind][0]):
            longest[source.kind] = [tokens]
        count += len(tokens)
        if count >= most_tokens:
            break
    check_length(count)
    finish(texts, longest)
    random.Random(seed).shuffle(texts.training)
    return texts


def check_length(count: int) -> None:
    if count >= LEAST_TOKENS:
        return
    raise Error(
        f"too little text: {count} tokens, and at least {LEAST_TOKENS} are needed (about {4 * LEAST_TOKENS // 1024}"
        " KB); a million or more make a good drafter"
    )


def written(gen: Generator, seed: int, at_once: int = 8) -> Iterator[Tokens]:
    """Documents that the target writes, without end. With a chat template it writes a user's turn and the reply,
    without one it starts from an empty text."""
    start = user_turn(gen)
    while True:
        requests = [start] * at_once
        for completion in gen.generate_many(
            requests, max_tokens=LENGTH - len(start), temperature=1.0, top_k=0, top_p=1.0, min_p=0.02, seed=seed
        ):
            if completion.error is not None:
                raise completion.error
            yield np.array([*start, *completion.tokens], np.int32)
        seed += 1


def user_turn(gen: Generator) -> list[int]:
    """The tokens of the chat template before the user's message."""
    marker = "\N{WHITE SQUARE}here\N{WHITE SQUARE}"
    try:
        before = gen.apply_chat_template([{"role": "user", "content": marker}], add_generation_prompt=False)
    except Error:
        before = ""
    return gen.tokenize(before.split(marker)[0]) or gen.tokenize("\n")
