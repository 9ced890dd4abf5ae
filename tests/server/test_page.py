"""The page at / of the real server. What it does with other answers: test_page_markdown.py and others."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from tests.server.running import Server, serving, wait_until

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from tests.server.browsing import Page

MODEL = "stdlib-target-f16.gguf"
PROMPT = "def bfs(graph, start):"


@pytest.fixture(scope="module")
def drafting_server(specdec: pathlib.Path) -> Iterator[Server]:
    """With a fixed number of drafts: "auto" may use none on a busy machine."""
    with serving(specdec, "-k", 4) as running:
        yield running


def answer(server: Server, max_tokens: int) -> str:
    body = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": max_tokens, "temperature": 0}
    text: str = server.post("/v1/chat/completions", body).json["choices"][0]["message"]["content"]
    return text


def test_a_conversation_that_outgrows_the_context(specdec: pathlib.Path, page_of: Callable[[str], Page]) -> None:
    with serving(specdec, "-c", 256, "-l", "0-inf") as server:
        page = page_of(server.url)
        assert page.run("return document.querySelector('#option-num_draft_tokens').placeholder") == "auto"
        page.ask(PROMPT)
        assert page.text(".assistant .note") == "The context is full Continue"
        page.wait(lambda: page.shows("#meter.full"))
        page.write("#option-max_tokens", 4)
        page.ask("class Stack:")
        assert page.texts(".error") == [] and "no longer sees" in page.text(".cut")
        assert page.text(".numbers").startswith("4 tokens, ")


def test_a_conversation(drafting_server: Server, page_of: Callable[[str], Page]) -> None:
    server, page = drafting_server, page_of(drafting_server.url)
    assert page.text("#model") == MODEL
    page.write("#option-temperature", 0)
    page.write("#option-max_tokens", 40)
    page.ask(PROMPT)
    found = re.match(r"40 tokens, [\d.]+ tokens per second, (\d+) of \d+ drafts accepted", page.text(".numbers"))
    assert found and page.text(".assistant .note") == "Cut at the most tokens of an answer Continue"
    assert page.run("return chat.nodes[1].text") == answer(server, 40)
    # Accepted drafts are marked.
    marked = page.texts(".assistant .model, .assistant .copy")
    assert marked
    # Plain decoding on request.
    page.click(".assistant .more")
    page.click("#menu button")
    page.wait(lambda: page.is_idle() and page.shows(".plain"))
    assert re.search(r"^Plain decoding: [\d.]+ tokens per second, .* as fast; the same text\.$", page.text(".plain"))
    # The second question has the first one as its context.
    page.ask("def dfs")
    used = page.wait(lambda: re.match(r"(\d+) of ([\d,]+) tokens", page.text("#meter")))
    assert int(used[1]) > 90
    page.reload()
    assert page.shows(".plain") and len(page.texts(".message")) == 4


def test_a_continued_answer_is_the_uncut_one(drafting_server: Server, page_of: Callable[[str], Page]) -> None:
    page = page_of(drafting_server.url)
    page.write("#option-temperature", 0)
    page.write("#option-max_tokens", 20)
    page.ask(PROMPT)
    page.click(".continue")
    page.wait(lambda: page.is_idle() and page.text(".numbers").startswith("40 tokens, "))
    assert page.run("return chat.nodes[1].text") == answer(drafting_server, 40)


def test_a_model_without_a_template(server: Server, page_of: Callable[[str], Page]) -> None:
    """The bundled one: the page says that it continues texts."""
    assert page_of(server.url).text(".welcome h2") == "Begin a text"


def test_an_answer_is_stopped(server: Server, page_of: Callable[[str], Page]) -> None:
    page = page_of(server.url)
    page.send("class")
    page.wait(lambda: page.text(".assistant > .text"))
    page.click("#stop")
    page.wait(page.is_idle)
    assert re.match(r"Stopped after \d+ tokens?", page.text(".assistant .note"))
    wait_until(lambda: server.num_unfinished() == 0)


def test_errors_are_shown(server: Server, page_of: Callable[[str], Page]) -> None:
    page = page_of(server.url)
    page.write("#option-temperature", -1)
    page.ask("x")
    assert "temperature is -1" in page.text(".error")
    page.write("#option-temperature", "")
    page.write("#option-max_tokens", 1)
    page.click(".error .again")
    page.wait(lambda: page.shows(".numbers"))
    page.errors()  # the 400


def test_a_server_that_ended(specdec: pathlib.Path, page_of: Callable[[str], Page]) -> None:
    with serving(specdec) as server:
        page = page_of(server.url)
    page.ask("x")
    assert "The server does not answer" in page.text(".error")
    page.errors()


def test_every_option_has_a_name(server: Server, page_of: Callable[[str], Page]) -> None:
    page = page_of(server.url)
    names = page.run("return optionGroups().find(([title]) => title === 'More')[1].map(([name]) => name)")
    assert names == ["extra"], "give these a row in OPTIONS of page.html"


def test_an_api_key_is_asked_for(specdec: pathlib.Path, browser: Chrome) -> None:
    from selenium.webdriver.support.expected_conditions import alert_is_present
    from selenium.webdriver.support.ui import WebDriverWait

    with serving(specdec, "--api-key", "secret") as server:
        browser.get(server.url)
        prompt = WebDriverWait(browser, 60).until(alert_is_present())
        prompt.send_keys("secret")
        prompt.accept()
        WebDriverWait(browser, 60).until(lambda page: "tokens" in page.find_element("id", "meter").text)  # asked once
        assert browser.find_element("id", "model").text == MODEL
        browser.get("about:blank")


def test_the_page_can_be_left_out(specdec: pathlib.Path) -> None:
    with serving(specdec, "--no-webui") as server:
        assert server.get("/").status == 404


def test_the_page_loads_nothing_from_elsewhere(server: Server) -> None:
    reply = server.get("/")
    assert reply.status == 200 and reply.headers["Content-Type"].startswith("text/html")
    assert reply.headers["Content-Security-Policy"].startswith("default-src 'none';")
    assert "http://" not in reply.text and "https://" not in reply.text


def test_one_of_several_models_is_chosen(
    specdec: pathlib.Path, page_of: Callable[[str], Page], tmp_path: pathlib.Path, target_path: pathlib.Path
) -> None:
    for name in ("first", "second"):
        (tmp_path / f"{name}.gguf").symlink_to(target_path)
    with serving(specdec, "--models-dir", tmp_path) as server:
        page = page_of(server.url)
        assert page.run("return [...document.querySelector('#models').options].map((one) => one.value)") == [
            "first",
            "second",
        ]
        page.write("#models", "second")
        page.write("#option-max_tokens", 3)
        page.ask("x")
        assert page.shows(".numbers") and "model second" in page.run("return document.querySelector('.numbers').title")
