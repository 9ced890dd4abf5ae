"""How the page looks and is used: narrow screens, dark mode, the keyboard, names for screen readers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.server.scripted import ScriptedServer

if TYPE_CHECKING:
    from tests.server.browsing import Page

ENTER, ESCAPE, UP, TAB = "\ue007", "\ue00c", "\ue013", "\ue004"
CONTROL, SHIFT = "\ue009", "\ue008"
LONG = """A paragraph with a {word} word and `{word}`.

| {word} | b | c | d | e | f | g |
|---|---|---|---|---|---|---|
| a longer text | a longer text | a longer text | a longer text | a longer text | a longer text | a longer text |

```python
{word} = 1
```
""".format(word="x" * 200)


def focused(page: Page) -> str:
    return str(page.run("return document.activeElement.id"))


def test_the_keyboard(page: Page, scripted_server: ScriptedServer) -> None:
    assert focused(page) == "prompt"
    scripted_server.say("1")
    page.type("one")
    page.chord(SHIFT, ENTER)
    page.type("two", ENTER)
    page.wait(lambda: page.is_idle() and page.texts(".message > .text") == ["one\ntwo", "1"])
    assert focused(page) == "prompt"
    page.type(UP)
    assert page.run("return document.activeElement.value") == "one\ntwo"
    page.type(ESCAPE)
    assert focused(page) == "prompt" and page.texts(".message > .text") == ["one\ntwo", "1"]
    scripted_server.say("2", ends=False)
    page.type("three", ENTER)
    page.wait(lambda: page.text(".assistant > .text") == "2")
    page.type("typed meanwhile", ENTER)
    assert page.run("return document.querySelector('#prompt').value") == "typed meanwhile"
    page.type(ESCAPE)
    page.wait(page.is_idle)
    assert page.text(".assistant .note") == "Stopped after 1 token Continue"
    page.chord(CONTROL, SHIFT, "o")
    assert page.texts(".message") == [] and focused(page) == "prompt"
    page.chord(CONTROL, SHIFT, "s")
    assert not page.shows("#side")
    page.chord(CONTROL, SHIFT, "s")
    assert page.shows("#side")
    page.chord(CONTROL, ",")
    assert page.shows("#dialog")
    assert page.run("return document.activeElement.innerText") == "Done"  # not "Reset all"
    page.type(ESCAPE)
    assert not page.shows("#dialog")


def test_everything_is_reached_by_tab(page: Page, scripted_server: ScriptedServer) -> None:
    scripted_server.say("```\nx\n```", ("y", "model"))
    page.ask("a")
    script = """return [...document.querySelectorAll('button, input, textarea, select, summary, a')]
      .filter((one) => one.checkVisibility({visibilityProperty: true}) && !one.disabled).length"""
    expected, seen = int(page.run(script)), set()
    for _ in range(expected + 5):
        page.type(TAB)
        element = page.browser.switch_to.active_element
        if element.tag_name in ("button", "input", "textarea", "select", "summary", "a"):
            seen.add(element.id)
    assert len(seen) == expected > 14


def test_everything_has_a_name(page: Page, scripted_server: ScriptedServer) -> None:
    scripted_server.say("a")
    page.ask("a")
    page.click("#settings")
    script = """return [...document.querySelectorAll('button, input, textarea, select')]
      .filter((one) => !(one.ariaLabel || one.innerText?.trim() || one.labels?.length || one.type === 'file'))
      .map((one) => one.outerHTML)"""
    assert page.run(script) == []


@pytest.mark.parametrize("sheet", ["chat", "settings"])
def test_nothing_leaves_a_narrow_screen(page: Page, scripted_server: ScriptedServer, sheet: str) -> None:
    page.resize(360, 740)
    page.reload()
    assert not page.shows("#side")
    scripted_server.say(LONG)
    page.ask("y" * 300)
    page.click("#show")
    if sheet == "settings":
        page.click("#settings")
    assert page.run("return document.documentElement.scrollWidth") == 360
    outside = """return [...document.querySelectorAll('body *')].filter((one) => {
      const {left, right, width} = one.getBoundingClientRect();
      return width && one.checkVisibility() && !one.closest('.scroll, pre, .read')
        && (left < 0 || right > 360.5);
    }).map((one) => one.outerHTML.slice(0, 100))"""
    assert page.run(outside) == []


def test_conversations_on_a_narrow_screen(page: Page, scripted_server: ScriptedServer) -> None:
    page.resize(360, 740)
    page.reload()
    scripted_server.say("1")
    page.ask("first")
    page.click("header [data-does=toggleSide]")
    assert page.shows("#side") and page.shows("#shade")
    page.click("#new")
    assert not page.shows("#side")
    page.click("header [data-does=toggleSide]")
    page.click("#shade")
    assert not page.shows("#side") and page.texts(".message") == []
    page.click("header [data-does=toggleSide]")
    page.click("#list .title")
    assert not page.shows("#side") and page.texts(".message > .text") == ["first", "1"]


def luminance(colour: str) -> float:
    parts = [float(part) for part in re.findall(r"[\d.]+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in parts)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    dark, light = sorted((luminance(a), luminance(b)))
    return (light + 0.05) / (dark + 0.05)


def test_dark_and_light(page: Page, scripted_server: ScriptedServer) -> None:
    """The system's choice, or the button's; and all text can be read (WCAG's 4.5)."""
    scripted_server.say(
        "**a** [b](http://x)\n```python\nif 1: 'a' # b\n```\n", ("d", "model"), ("s", "suffix"), ("g", "constraint")
    )
    page.ask("a")
    page.click("#show")
    background = "return getComputedStyle(document.body).backgroundColor"

    def prefers(scheme: str) -> None:
        page.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    prefers("dark")
    assert luminance(page.run(background)) < 0.02
    prefers("light")
    assert luminance(page.run(background)) == 1
    page.click("#side [data-does=nextTheme]")  # light
    prefers("dark")
    assert luminance(page.run(background)) == 1
    page.click("#side [data-does=nextTheme]")  # dark
    prefers("light")
    page.reload()
    assert luminance(page.run(background)) < 0.02
    colours = """return [...document.querySelectorAll('#messages *, header *, #side *, #below *, #legend *')]
      .filter((one) => one.checkVisibility({opacityProperty: true}) && !one.disabled
        && [...one.childNodes].some((child) => child.nodeType === 3 && child.data.trim()))
      .map((one) => {
        let behind = one;
        while (/, 0\\)$|transparent/.test(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;
        return [one.textContent.slice(0, 20), getComputedStyle(one).color, getComputedStyle(behind).backgroundColor];
      })"""
    for _ in range(2):
        found = page.run(colours)
        assert len(found) > 20
        assert [one for one in found if not one[2].startswith("rgba") and contrast(one[1], one[2]) < 4.5] == []
        for _ in range(2):  # dark -> the system's, which is light
            page.click("#side [data-does=nextTheme]")


def test_the_empty_page(page: Page) -> None:
    """Examples are the message being written; drafts are explained before they are switched on."""
    examples = page.texts(".examples button")
    assert len(examples) == 4
    page.click(".examples button")
    assert page.run("return document.querySelector('#prompt').value") == examples[-1] and focused(page) == "prompt"
    for button in ("#explain", ".welcome p button"):
        assert not page.shows("#explanation")
        page.click(button)
        assert page.shows("#explanation") and "never change them" in page.text("#explanation")
        assert not page.run("return document.querySelector('#show').checked")
        page.type(ESCAPE)
    page.run("server.isChat = false; showChat()")
    assert page.text(".welcome h2") == "Begin a text" and page.texts(".examples button") != examples


def test_rare_settings_are_folded(page: Page) -> None:
    page.click("#settings")
    assert page.shows("#option-temperature") and page.shows("#option-num_draft_tokens")
    assert not page.shows("#option-top_k") and not page.shows("#option-extra")
    page.click(".advanced summary")
    assert page.shows("#option-top_k") and page.shows("#option-extra")
    page.write("#option-top_k", 7)
    page.reload()
    page.click("#settings")
    assert page.shows("#option-top_k"), "where something is changed"


@pytest.mark.parametrize("width", [390, 1440])
def test_the_tools_of_a_question_are_at_its_bubble(page: Page, scripted_server: ScriptedServer, width: int) -> None:
    page.resize(width, 844)
    scripted_server.say("1")
    page.ask("a short question")
    script = """const of = (selector) => document.querySelector(selector).getBoundingClientRect();
      return [of('.user > .text'), of('.user .edit')].map(({left, right, top, bottom}) => [left, right, top, bottom])"""
    (left, _, top, bottom), (_, right, above, below) = page.run(script)
    assert 0 <= left - right < 20 and top <= above and below <= bottom + 4


def test_the_end_stays_in_view(page: Page, scripted_server: ScriptedServer) -> None:
    """When the message being written takes several lines; a reader further up stays there."""
    scripted_server.say("word\n\n" * 40)
    page.ask("hello")
    below = (
        "const one = document.querySelector('#messages'); return one.scrollHeight - one.scrollTop - one.clientHeight"
    )
    page.wait(lambda: int(page.run(below)) <= 1)
    height = int(page.run("return document.querySelector('#messages').clientHeight"))
    page.write("#prompt", "one\n" * 6)
    page.wait(lambda: int(page.run("return document.querySelector('#messages').clientHeight")) < height - 60)
    page.wait(lambda: int(page.run(below)) <= 1)
    page.run("document.querySelector('#messages').scrollTop = 0")
    page.wait(lambda: page.shows("#down"))
    page.write("#prompt", "one\n" * 8)
    page.run("return new Promise((done) => requestAnimationFrame(() => setTimeout(done, 100)))")
    assert page.run("return document.querySelector('#messages').scrollTop") == 0
