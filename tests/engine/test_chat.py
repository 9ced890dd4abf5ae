"""Conversations, metadata and closing, through the Python package."""

from __future__ import annotations

import pathlib
import threading
import warnings
from typing import Any

import pytest
from tests.models.tiny_models import Vocabulary, make

import specdec_native as sd

TEMPLATE = (
    "{% if tools %}[tools] {{ tools|tojson }}\n{% endif %}"
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
MESSAGES = [{"role": "system", "content": "short"}, {"role": "user", "content": "hello"}]
GREEDY: sd.StreamOptions = {"max_tokens": 8, "temperature": 0.0}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("chat") / "chat.gguf"
    return make("llama", seed=4, vocabulary=Vocabulary(chat_template=TEMPLATE)).write(path)


@pytest.fixture(scope="module")
def gen(path: pathlib.Path) -> sd.Generator:
    return sd.Generator(path, n_ctx=512)


def test_a_conversation_as_a_prompt(gen: sd.Generator) -> None:
    begun = "[system] short<end>\n[user] hello<end>\n"
    assert gen.apply_chat_template(MESSAGES) == begun + "[assistant]"
    assert gen.apply_chat_template(MESSAGES, add_generation_prompt=False) == begun
    tools = [{"type": "function", "function": {"name": "größe"}}]
    with_tools = gen.apply_chat_template(MESSAGES[1:], tools=tools)
    assert with_tools.startswith('[tools] [{"type": "function", "function": {"name": "größe"}}]\n[user] hello')


def test_an_answer_is_that_of_the_prompt(gen: sd.Generator) -> None:
    expected = gen.generate(gen.apply_chat_template(MESSAGES), **GREEDY)
    answer = gen.chat(MESSAGES, **GREEDY)
    assert answer.tokens == expected.tokens and answer.text == expected.text and answer.stats.tokens == 8
    with gen.stream_chat(MESSAGES, **GREEDY) as stream:
        assert [piece.token for piece in stream] == expected.tokens
    assert isinstance(gen.stream_chat(tuple(MESSAGES), tools=[{"name": "f"}], **GREEDY), sd.Stream)


def test_what_was_read_of_a_conversation_is_reused(gen: sd.Generator) -> None:
    first = gen.chat(MESSAGES, **GREEDY)
    more = [*MESSAGES, {"role": "assistant", "content": "fine"}, {"role": "user", "content": "and?"}]
    assert gen.chat(more, **GREEDY).stats.prompt_cached_tokens >= first.stats.prompt_tokens - 1


def test_special_tokens_in_messages_are_text(gen: sd.Generator) -> None:
    plain, special = ([{"role": "user", "content": text}] for text in ("12345", "<end>"))
    lengths = [gen.chat(messages, **GREEDY).stats.prompt_tokens for messages in (plain, special)]
    assert lengths[0] == lengths[1], "a token for each byte"
    assert len(gen.tokenize(gen.apply_chat_template(special))) == lengths[1] - 4


@pytest.mark.parametrize(
    ("messages", "error", "problem"),
    [
        ("hello", TypeError, r"messages is str; it must be a list of dicts"),
        ({"role": "user"}, TypeError, r"messages is dict; it must be a list of dicts"),
        (["hello"], TypeError, r"messages\[0\] is str; it must be a dict"),
        ([{"role": "user", "content": object()}], TypeError, "messages must hold JSON values only: .*object"),
        ([{"role": "user", "content": float("nan")}], ValueError, "messages must hold JSON values only"),
        ([{"role": "user", "content": "\ud800"}], ValueError, "surrogate"),
        ([], ValueError, "messages is empty; it must have at least one"),
        ([{"role": "user"}], ValueError, r'messages\[0\] has no "content"'),
        ([{"role": "system", "content": None}], ValueError, r'messages\[0\] has no "content"'),
        (
            [{"content": "hello"}],
            ValueError,
            r'messages\[0\] has no "role"; it must be "system", ',
        ),
    ],
)
def test_messages_of_another_form(gen: sd.Generator, messages: Any, error: type[Exception], problem: str) -> None:
    for use in (gen.apply_chat_template, gen.chat, gen.stream_chat):
        with pytest.raises(error, match=problem):
            use(messages)
    with pytest.raises(TypeError, match="tools is str"):
        gen.chat(MESSAGES, tools="f")  # type: ignore[arg-type]


def test_a_template_of_ones_own(path: pathlib.Path) -> None:
    with sd.Generator(path, chat_template="{% for m in messages %}<{{ m.content }}>{% endfor %}") as own:
        assert own.apply_chat_template(MESSAGES) == "<short><hello>"
        assert own.chat(MESSAGES, **GREEDY).tokens == own.generate("<short><hello>", **GREEDY).tokens
    with sd.Generator(chat_template="chatml") as bundled:
        begun = "<|im_start|>system\nshort<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n"
        assert bundled.apply_chat_template(MESSAGES) == begun + "<|im_start|>assistant\n"
        assert bundled.chat(MESSAGES, **GREEDY).text
    with pytest.raises(ValueError, match=r'"chatlm" is neither a chat template that llama.cpp has nor the text of one'):
        sd.Generator(path, chat_template="chatlm")


def test_a_model_without_a_template() -> None:
    """As in the program and the server."""
    with sd.Generator() as gen:
        with pytest.warns(RuntimeWarning, match="no chat template; messages are joined as plain text") as told:
            assert gen.apply_chat_template(MESSAGES) == "short\nhello"
        assert told[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # once is enough
            answer = gen.chat(MESSAGES, **GREEDY)
        assert answer.tokens == gen.generate("short\nhello", **GREEDY).tokens
        assert answer.message.content == answer.text
        begun = [{"role": "user", "content": "def f("}, {"role": "assistant", "content": "x"}]
        assert gen.apply_chat_template(begun, continue_final_message=True) == "def f(\nx"
    with sd.Generator() as gen, pytest.warns(RuntimeWarning) as told:
        gen.chat(MESSAGES, **GREEDY)
    assert told[0].filename == __file__


def test_metadata(gen: sd.Generator, path: pathlib.Path) -> None:
    metadata = gen.metadata
    assert metadata["general.architecture"] == "llama" and metadata["llama.block_count"] == 2
    assert metadata["tokenizer.chat_template"] == TEMPLATE
    assert metadata["tokenizer.ggml.tokens"][:2] == ["<bos>", "<end>"]
    assert metadata["tokenizer.ggml.add_bos_token"] is True
    assert isinstance(metadata["llama.attention.layer_norm_rms_epsilon"], float)
    metadata.clear()
    assert gen.metadata, "a copy"


def test_closing(path: pathlib.Path) -> None:
    with sd.Generator(path, n_ctx=512) as gen:
        stream = gen.stream("hello", **GREEDY)
        next(stream)
    for use in (
        lambda: next(stream),
        lambda: gen.generate("x"),
        lambda: gen.n_ctx,
        lambda: gen.metadata,
        lambda: gen.stats,
    ):
        with pytest.raises(sd.Error, match="this Generator is closed"):
            use()
    stream.close()
    gen.close()
    with pytest.raises(ZeroDivisionError), sd.Generator(path, n_ctx=512) as other:
        _ = 1 / 0
    with pytest.raises(sd.Error, match="closed"):
        other.tokenize("x")


def test_closing_ends_a_call_of_another_thread(path: pathlib.Path) -> None:
    gen = sd.Generator(path, n_ctx=1024)
    pieces: list[sd.Piece] = []
    begun = threading.Event()

    def run() -> None:
        for piece in gen.stream("hello", max_tokens=900, logit_bias={1: float("-inf")}):
            pieces.append(piece)
            begun.set()

    errors: list[BaseException] = []

    def checked() -> None:
        try:
            run()
        except sd.Error as error:
            errors.append(error)

    thread = threading.Thread(target=checked)
    thread.start()
    assert begun.wait(60)
    gen.close()
    thread.join(60)
    assert not thread.is_alive()
    assert all("closed" in str(error) for error in errors)


def test_a_draft_without_a_target(path: pathlib.Path) -> None:
    with pytest.raises(sd.VocabularyMismatch, match=r"No target was given, so it is the bundled one: give target="):
        sd.Generator(draft=path)


def test_a_context_longer_than_the_trained_one(path: pathlib.Path) -> None:
    with pytest.warns(
        RuntimeWarning, match=r"a context of 2048 tokens is longer than what .*chat\.gguf was trained for, 1024"
    ):
        sd.Generator(path, n_ctx=2048)


def test_layers_for_a_gpu_that_is_not_there(path: pathlib.Path) -> None:
    with pytest.warns(
        RuntimeWarning, match=r"n_gpu_layers \(-ngl\) has no effect: no device: no device module is installed"
    ):
        sd.Generator(path, n_gpu_layers=4)


@pytest.mark.parametrize("value", ["0.0", b"1", [1]])
def test_a_number_is_not_a_text(gen: sd.Generator, value: Any) -> None:
    with pytest.raises(TypeError, match="temperature is "):
        gen.generate("x", temperature=value)


@pytest.mark.parametrize("stop", [5, [5], 1.5])
def test_a_stop_string_is_a_text(gen: sd.Generator, stop: Any) -> None:
    with pytest.raises(TypeError, match=r"stop is .*; it must be a str"):
        gen.generate("x", stop=stop)


def test_a_written_bos(gen: sd.Generator) -> None:
    with pytest.warns(RuntimeWarning, match="the prompt begins with the BOS token"):
        written = gen.generate("<bos>hello", **GREEDY)
    assert written.tokens == gen.generate("hello", **GREEDY).tokens
