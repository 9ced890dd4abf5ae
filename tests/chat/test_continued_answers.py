"""Answers that go on where the last message ends, and the roles of messages, in Python."""

from __future__ import annotations

import pathlib

import pytest
from tests.models.chain_model import MESSAGES, PIECES, TOOLS, chain, write_chain

import specdec_native as sd

ASKED = "<|user|>\nHow is the weather?<|end|>\n"
BEGUN = {"role": "assistant", "content": "Let me see:\n"}


@pytest.fixture(scope="module")
def content_model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """After a line break it writes content and a call."""
    path = tmp_path_factory.mktemp("chain") / "content.gguf"
    write_chain(path, chain(PIECES[3:]))
    return path


def test_an_answer_goes_on(content_model: pathlib.Path) -> None:
    gen = sd.Generator(target=content_model, draft="suffix")
    message = gen.chat([*MESSAGES, BEGUN], tools=TOOLS, temperature=0).message
    assert message.content == "I look." and message.tool_calls[0].function.name == "weather"
    whole = [*MESSAGES, BEGUN]
    assert gen.apply_chat_template(whole) == ASKED + "<|assistant|>\nLet me see:\n<|end|>\n<|assistant|>\n"
    assert gen.apply_chat_template(whole, continue_final_message=True) == ASKED + "<|assistant|>\nLet me see:\n"
    own = gen.chat(whole, temperature=0, max_tokens=1, continue_final_message=False)
    assert own.stats.prompt_tokens > gen.chat(whole, temperature=0, max_tokens=1).stats.prompt_tokens
    with pytest.raises(ValueError, match="continue_final_message needs"):
        gen.chat(MESSAGES, continue_final_message=True)


def test_roles(content_model: pathlib.Path) -> None:
    gen = sd.Generator(target=content_model, draft="suffix")
    developer = [{"role": "developer", "content": "Be brief."}, *MESSAGES]
    system = [{"role": "system", "content": "Be brief."}, *MESSAGES]
    assert gen.apply_chat_template(developer) == gen.apply_chat_template(system)
    assert gen.chat(developer, max_tokens=1).stats.prompt_tokens == gen.chat(system, max_tokens=1).stats.prompt_tokens
    with pytest.raises(ValueError, match="messages\\[0\\] has the role 'robot'"):
        gen.chat([{"role": "robot", "content": "x"}])
    with pytest.raises(ValueError, match='messages\\[0\\] has no "content"'):
        gen.chat([{"role": "developer"}])
