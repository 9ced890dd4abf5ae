"""Conversations on the page: kept in the browser, changed, exported, stopped; and what is sent to the server."""

from __future__ import annotations

import json
import pathlib
import subprocess
from typing import TYPE_CHECKING, Any

from tests.server.running import wait_until
from tests.server.scripted import CONTEXT, ScriptedServer

if TYPE_CHECKING:
    from tests.server.browsing import Page

ALWAYS = {"model", "stream", "timings_per_token", "return_progress"}  # fields of a request


def contents(body: Any) -> list[str]:
    return [message["content"] for message in body["messages"]]


def talk(page: Page, server: ScriptedServer, *turns: tuple[str, str]) -> None:
    for question, answer in turns:
        server.say(answer)
        page.ask(question)


def test_conversations_are_there_after_a_reload(page: Page, scripted_server: ScriptedServer) -> None:
    assert page.text("#list") == "No conversations yet" and page.text(".welcome")
    talk(page, scripted_server, ("first", "*one*"), ("second", "two"))
    page.click("#new")
    assert page.texts(".message") == []
    talk(page, scripted_server, ("other", "three"))
    assert page.titles() == ["other", "first"]
    page.reload()
    assert page.titles() == ["other", "first"]
    assert page.texts(".message > .text") == ["other", "three"]
    page.click("#list li:last-child .title")
    assert page.texts(".message > .text") == ["first", "one", "second", "two"]
    assert page.shows(".text em") and "1 token, 40.0 tokens per second" in page.text(".numbers")
    talk(page, scripted_server, ("third", "four"))
    assert contents(scripted_server.bodies[-1]) == ["first", "*one*", "second", "two", "third"]
    page.browser.back()
    page.wait(lambda: page.texts(".message > .text") == ["other", "three"])


def test_they_are_found_renamed_and_deleted(page: Page, scripted_server: ScriptedServer) -> None:
    talk(page, scripted_server, ("apple", "red"))
    page.click("#new")
    talk(page, scripted_server, ("banana", "yellow"))
    page.write("#filter", "RED")
    assert page.titles() == ["apple"]
    page.write("#filter", "pear")
    assert page.text("#list") == "Nothing found"
    page.write("#filter", "")
    page.choose("Rename")
    page.type("fruit\n")
    assert page.titles() == ["fruit", "apple"]
    page.choose("Rename")
    page.type("no", "\ue00c")  # Escape
    assert page.titles() == ["fruit", "apple"]
    page.reload()
    assert page.titles() == ["fruit", "apple"]
    page.choose("Delete")
    assert page.titles() == ["apple"] and page.texts(".message") == []
    page.click("#toast button")
    assert page.titles() == ["fruit", "apple"] and page.texts(".message > .text") == ["banana", "yellow"]
    page.choose("Delete", "apple")
    page.reload()
    assert page.titles() == ["fruit"]


def test_an_edited_question_is_a_branch(page: Page, scripted_server: ScriptedServer) -> None:
    talk(page, scripted_server, ("a", "1"), ("b", "2"))
    page.click(".user .edit")
    page.write(".user textarea", "B")
    scripted_server.say("3")
    page.click(".user form .main")
    page.wait(page.is_idle)
    assert contents(scripted_server.bodies[-1]) == ["a", "1", "B"]
    assert page.texts(".message > .text") == ["a", "1", "B", "3"] and "2/2" in page.text(".user .tools")
    page.click(".user [title='Version before']")
    assert page.texts(".message > .text") == ["a", "1", "b", "2"] and "1/2" in page.text(".user .tools")
    page.reload()
    assert page.texts(".message > .text") == ["a", "1", "b", "2"]
    page.click(".user .edit")
    page.type("\ue00c")
    assert page.texts(".message > .text") == ["a", "1", "b", "2"]


def test_another_answer(page: Page, scripted_server: ScriptedServer) -> None:
    talk(page, scripted_server, ("a", "1"))
    scripted_server.say("2")
    page.click(".regenerate")
    page.wait(lambda: page.texts(".message > .text") == ["a", "2"] and page.is_idle())
    first, second = scripted_server.bodies
    assert first["messages"] == second["messages"] and first["seed"] != second["seed"]
    page.click(".assistant [title='Version before']")
    assert page.texts(".message > .text") == ["a", "1"]
    talk(page, scripted_server, ("b", "3"))
    assert contents(scripted_server.bodies[-1]) == ["a", "1", "b"]


def test_exported_conversations(page: Page, scripted_server: ScriptedServer, specdec: pathlib.Path) -> None:
    """As JSON that `specdec chat` and this page load, and as Markdown."""
    page.write("#system textarea", "Be brief.")
    talk(page, scripted_server, ("käse?", "*yes*\n```\nx\n```"), ("b", "2"))
    page.choose("Export as JSON")
    exported = page.download("käse_.json")
    expected = [("system", "Be brief."), ("user", "käse?"), ("assistant", "*yes*\n```\nx\n```"), ("user", "b")]
    messages = [{"role": role, "content": content} for role, content in [*expected, ("assistant", "2")]]
    assert json.loads(exported) == messages
    page.choose("Export as Markdown")
    assert page.download("käse_.md").startswith("# käse?\n\n**system**\n\nBe brief.\n\n**user**\n\nkäse?\n")
    saved = page.downloads / "saved.json"
    commands = f"/load {page.downloads / 'käse_.json'}\n/save {saved}\n"
    subprocess.run([specdec, "chat", "--lines"], input=commands, text=True, capture_output=True, check=True)
    assert json.loads(saved.read_text()) == messages
    page.all("#chat-file")[0].send_keys(str(saved))
    page.wait(lambda: page.titles() == ["saved", "käse?"])
    assert page.texts(".message > .text")[::2] == ["käse?", "b"] and page.text(".assistant .code pre") == "x"
    assert page.text("#system summary") == "System prompt: Be brief." and page.shows(".text em")
    page.reload()
    assert page.titles() == ["saved", "käse?"]


def test_other_files_are_no_conversations(page: Page) -> None:
    def reject(name: str, text: str) -> None:
        (page.downloads / name).write_text(text)
        page.all("#chat-file")[0].send_keys(str(page.downloads / name))
        page.wait(lambda: page.text("#toast").startswith(f"{name} is not a conversation"))

    for i, text in enumerate(("{", '{"a": 1}', "[]", '[{"role": "user"}]', '[{"role": "root", "content": "x"}]')):
        reject(f"{i}.json", text)
    assert page.titles() == []


def test_a_stopped_answer_says_so(page: Page, scripted_server: ScriptedServer) -> None:
    scripted_server.say("one ", "two", ends=False)
    page.send("count")
    page.wait(lambda: page.text(".assistant > .text") == "one two")
    assert "2 tokens, 40.0 tokens per second" in page.text(".assistant .status")
    page.click("#stop")
    page.wait(page.is_idle)
    assert page.text(".assistant .note").startswith("Stopped after 2 tokens")
    assert page.text(".assistant > .text") == "one two"
    scripted_server.say("three")  # to nobody
    wait_until(lambda: scripted_server.num_gone == 1)
    page.reload()
    assert page.text(".assistant .note").startswith("Stopped after 2 tokens")
    talk(page, scripted_server, ("go on", "3"))
    assert contents(scripted_server.bodies[-1]) == ["count", "one two", "go on"]


def test_a_stopped_answer_is_continued(page: Page, scripted_server: ScriptedServer) -> None:
    scripted_server.say("one ", ("two ", "model"), ends=False)
    page.send("count")
    page.wait(lambda: page.text(".assistant > .text") == "one two")
    page.click("#stop")
    page.wait(page.is_idle)
    scripted_server.say()  # to nobody
    page.reload()
    scripted_server.say("three", ends=False)
    page.click(".continue")
    page.wait(lambda: page.text(".assistant > .text") == "one two three")
    assert not page.shows(".continue")
    assert contents(scripted_server.bodies[-1]) == ["count", "one two "]
    assert scripted_server.bodies[-1]["continue_final_message"] is True
    page.click("#stop")
    page.wait(page.is_idle)
    assert page.text(".assistant .note").startswith("Stopped after 3 tokens")
    scripted_server.say()
    scripted_server.say(" four")
    page.click(".continue")
    page.wait(lambda: page.is_idle() and page.text(".assistant > .text") == "one two three four")
    assert contents(scripted_server.bodies[-1]) == ["count", "one two three"]
    assert "4 tokens, 40.0 tokens per second, 1 of 1 draft accepted" in page.text(".numbers")
    assert not page.shows(".continue") and not page.shows(".assistant .more") and len(page.texts(".message")) == 2
    talk(page, scripted_server, ("more", "five"))
    assert contents(scripted_server.bodies[-1]) == ["count", "one two three four", "more"]
    assert "continue_final_message" not in scripted_server.bodies[-1]


def test_reasoning_is_continued(page: Page, scripted_server: ScriptedServer) -> None:
    scripted_server.say(("Well, ", "reasoning"), ends=False)
    page.send("how")
    page.wait(lambda: "Well," in page.text(".reasoning"))
    page.click("#stop")
    page.wait(page.is_idle)
    scripted_server.say()
    scripted_server.say(("it rains.", "reasoning"), "Rain")
    page.click(".continue")
    page.wait(lambda: page.is_idle() and page.text(".assistant > .text") == "Rain")
    begun = {"role": "assistant", "content": "", "reasoning_content": "Well, "}
    assert scripted_server.bodies[-1]["messages"] == [{"role": "user", "content": "how"}, begun]


def test_a_lost_answer_is_continued_or_written_again(page: Page, scripted_server: ScriptedServer) -> None:
    scripted_server.say("one ", ("lost", "error"), ends=False)
    page.ask("count")
    assert page.shows(".error .again") and page.shows(".error .continue")
    scripted_server.say("two")
    page.click(".continue")
    page.wait(lambda: page.is_idle() and page.text(".assistant > .text") == "one two")
    assert not page.shows(".error")


def test_a_conversation_is_deleted_while_it_is_answered(page: Page, scripted_server: ScriptedServer) -> None:
    scripted_server.say("one ", ends=False)
    page.send("a")
    page.wait(lambda: page.text(".assistant > .text") == "one")
    page.choose("Delete")
    page.wait(page.is_idle)
    assert page.titles() == [] and page.texts(".message") == []
    scripted_server.say("two")
    page.reload()
    assert page.titles() == []


def test_a_message_stopped_before_its_answer_comes_back(page: Page, scripted_server: ScriptedServer) -> None:
    talk(page, scripted_server, ("a", "1"))
    page.send("long question")
    page.wait(lambda: "Reading the prompt" in page.text(".assistant .status"))
    page.click("#stop")
    page.wait(page.is_idle)
    assert page.texts(".message > .text") == ["a", "1"] and "Stopped while the prompt was read" in page.text("#toast")
    assert page.run("return document.querySelector('#prompt').value") == "long question"
    scripted_server.say()  # of the request that is gone
    scripted_server.say("2")
    page.click("#send")
    page.wait(lambda: page.is_idle() and page.texts(".message > .text") == ["a", "1", "long question", "2"])


def test_an_answer_that_the_reload_interrupted(page: Page, scripted_server: ScriptedServer) -> None:
    scripted_server.say("begun", ends=False)
    page.send("a")
    page.wait(lambda: page.text(".assistant > .text") == "begun")
    page.wait(lambda: page.run("return chats.size === 1 && Date.now() - chat.nodes[1].start > 2100"))
    scripted_server.say(" more", ends=False)
    page.wait(lambda: page.text(".assistant > .text") == "begun more")
    page.reload()
    assert page.text(".assistant > .text") == "begun more" and "Interrupted" in page.text(".assistant .note")


def test_errors_can_be_tried_again(page: Page, scripted_server: ScriptedServer) -> None:
    scripted_server.say(("the context is full", "error"), ends=False)
    page.ask("a")
    assert page.text(".error").startswith("the context is full")
    scripted_server.say("1")
    page.click(".error .again")
    page.wait(lambda: page.is_idle() and page.texts(".message > .text") == ["a", "1"])
    scripted_server.say(("lost", "error"), ends=False)
    page.ask("b")
    talk(page, scripted_server, ("c", "2"))  # a question without an answer is not sent
    assert contents(scripted_server.bodies[-1]) == ["a", "1", "c"]


def test_reasoning_is_apart(page: Page, scripted_server: ScriptedServer) -> None:
    scripted_server.say(("think", "reasoning"), ends=False)
    page.send("a")
    page.wait(lambda: page.shows(".reasoning .text") and page.text(".reasoning .text") == "think")
    scripted_server.say("1")
    page.wait(page.is_idle)
    assert page.text(".assistant > .text") == "1" and page.shows(".reasoning summary")
    assert not page.shows(".reasoning .text")
    talk(page, scripted_server, ("b", "2"))
    assert contents(scripted_server.bodies[-1]) == ["a", "1", "b"]


def test_system_prompts(page: Page, scripted_server: ScriptedServer) -> None:
    page.write("#system textarea", "Be brief.")
    talk(page, scripted_server, ("a", "1"))
    assert scripted_server.bodies[-1]["messages"][0] == {"role": "system", "content": "Be brief."}
    page.write("#default-system", "Be kind.")
    page.click("#new")
    talk(page, scripted_server, ("a", "1"))
    assert contents(scripted_server.bodies[-1]) == ["Be kind.", "a"]
    page.click("#list li:last-child .title")
    assert page.text("#system summary") == "System prompt: Be brief."


def test_text_files_are_attached(page: Page, scripted_server: ScriptedServer) -> None:
    text, binary = page.downloads / "code.py", page.downloads / "data.bin"
    text.write_text("x = '```'\n", encoding="utf-8")
    binary.write_bytes(b"\x89PNG\x00\xff")
    page.all("#text-files")[0].send_keys(f"{text}\n{binary}")
    page.wait(lambda: page.text("#attached") == "code.py")
    assert page.text("#toast") == "data.bin cannot be attached: it is not a text in UTF-8."
    talk(page, scripted_server, ("What is this?", "code"))
    expected = "File code.py:\n````\nx = '```'\n````\n\nWhat is this?"
    assert contents(scripted_server.bodies[-1]) == [expected]
    assert page.text("#attached") == "" and page.texts(".user .file") == ["code.py"]
    page.all("#text-files")[0].send_keys(str(text))
    page.wait(lambda: page.text("#attached") == "code.py")
    page.click("#attached button")
    assert page.text("#attached") == ""


def test_options(page: Page, scripted_server: ScriptedServer) -> None:
    talk(page, scripted_server, ("a", "1"))
    assert set(scripted_server.bodies[-1]) == {*ALWAYS, "messages", "seed"}
    placeholder = "return document.querySelector(arguments[0]).placeholder"
    assert page.run(placeholder, "#option-temperature") == str(scripted_server.params["temperature"])
    assert page.run(placeholder, "#option-max_tokens") == "until the end"
    values = {"temperature": "0.5", "seed": "7", "stop": "a\n\nb", "num_draft_tokens": "3", "verification": "block"}
    values |= {"logit_bias": '{"5": 1.5}', "regex": "12", "extra": '{"chat_template_kwargs": {"x": true}}', "top_k": ""}
    for name, value in values.items():
        page.write(f"#option-{name}", value)
    page.reload()
    talk(page, scripted_server, ("b", "2"))
    body = scripted_server.bodies[-1]
    assert {name: body.get(name) for name in (*values, "chat_template_kwargs")} == {
        "temperature": 0.5,
        "seed": 7,
        "stop": ["a", "b"],
        "num_draft_tokens": 3,
        "verification": "block",
        "logit_bias": {"5": 1.5},
        "regex": "12",
        "chat_template_kwargs": {"x": True},
        "extra": None,
        "top_k": None,
    }
    page.write("#option-logit_bias", "{")
    assert "This is not JSON" in page.text("#options") and page.shows("#settings.changed")
    page.click("#reset")
    assert not page.shows("#settings.changed")
    talk(page, scripted_server, ("c", "3"))
    assert set(scripted_server.bodies[-1]) == {*ALWAYS, "messages", "seed"}


def test_every_option_of_the_server_has_a_field(page: Page, scripted_server: ScriptedServer) -> None:
    """Also one that the page does not know."""
    shown = page.run("return Array.from(document.querySelectorAll('#options [id]'), (one) => one.id)")
    others = {"n_predict", "repeat_last_n", "top_logprobs"}  # other names, and what the page does not show
    expected = {f"option-{name}" for name in {*scripted_server.params, "extra"} - others} | {"default-system"}
    assert sorted(shown) == sorted(expected)
    scripted_server.params |= {"new_number": 1.5, "new_flag": False, "new_text": "x"}
    page.reload()
    page.write("#option-new_number", "2.5")
    page.write("#option-new_flag", "true")
    talk(page, scripted_server, ("a", "1"))
    body = scripted_server.bodies[-1]
    assert (body["new_number"], body["new_flag"], body.get("new_text")) == (2.5, True, None)


def test_the_context_meter(page: Page, scripted_server: ScriptedServer) -> None:
    page.write("#prompt", "x" * 400)
    page.wait(lambda: page.text("#meter") == "100 of 4,096 tokens")
    page.write("#prompt", "x" * 40_000)
    page.wait(lambda: page.text("#meter") == "10,000 of 4,096 tokens" and page.shows("#meter.full"))
    page.write("#prompt", "")
    talk(page, scripted_server, ("x" * 400, "y" * 400))
    page.wait(lambda: page.text("#meter") == "200 of 4,096 tokens" and not page.shows("#meter.full"))


def test_the_oldest_turns_are_left_out_when_the_context_is_full(page: Page, scripted_server: ScriptedServer) -> None:
    talk(page, scripted_server, *((str(i) + "x" * CONTEXT, "y") for i in range(3)))
    assert not page.shows(".cut")
    talk(page, scripted_server, ("3" + "x" * CONTEXT, "y"))
    assert [content[0] for content in contents(scripted_server.bodies[-1])] == ["3"]
    assert "no longer sees" in page.text(".cut") and len(page.texts(".message")) == 8
    talk(page, scripted_server, ("4", "y"))
    assert [content[0] for content in contents(scripted_server.bodies[-1])] == ["3", "y", "4"]


def test_several_models(page: Page, scripted_server: ScriptedServer) -> None:
    assert page.text("#model") == "scripted" and not page.shows("#models")
    scripted_server.names = ["small", "large"]
    page.reload()
    assert page.shows("#models") and not page.shows("#model")
    page.write("#models", "large")
    talk(page, scripted_server, ("a", "1"))
    assert scripted_server.bodies[-1]["model"] == "large"
    page.reload()
    assert page.run("return document.querySelector('#models').value") == "large"
    assert scripted_server.queries[-1] == "model=large"


def test_a_model_is_loaded_by_what_is_written_to_it(page: Page, scripted_server: ScriptedServer) -> None:
    scripted_server.names, scripted_server.loaded = ["small", "large"], set()
    page.reload()
    page.write("#models", "large")
    assert not page.shows("#meter") and scripted_server.loaded == set()
    page.write("#prompt", "x" * 400)
    page.wait(lambda: page.text("#meter") == "100 of 4,096 tokens")
    assert scripted_server.loaded == {"large"} and scripted_server.queries[-1] == "model=large"


def test_a_new_tab_opens_the_last_conversation(page: Page, scripted_server: ScriptedServer) -> None:
    talk(page, scripted_server, ("first", "one"))
    page.click("#new")
    talk(page, scripted_server, ("other", "two"))
    page.click("#list li:last-child .title")

    def open_tab() -> None:
        page.browser.get("about:blank")
        page.browser.get(page.url)
        page.wait(page.is_ready)

    open_tab()
    assert page.texts(".message > .text") == ["first", "one"] and page.run("return location.hash") != ""
    page.click("#new")
    open_tab()
    assert page.texts(".message") == [] and page.titles() == ["other", "first"]
    # One that another tab writes is left to it.
    page.click("#list .title")
    page.run("chat.nodes[1].state = 'running'; return save(chat).then(() => sessionStorage.clear())")
    open_tab()
    assert page.texts(".message") == []
    page.click("#list .title")
    assert page.run("return chat.nodes[1].state") == "running"
