"""The page at /, in a real browser: Debian's chromium and chromium-driver. Skipped where they are missing."""

from __future__ import annotations

import pathlib
import re
import shutil
import tempfile
from collections.abc import Iterator

import pytest
from tests.server.running import Server, serving, wait_until

webdriver = pytest.importorskip("selenium.webdriver")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.remote.webdriver import WebDriver  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

SECONDS = 60


@pytest.fixture(scope="module")
def browser() -> Iterator[WebDriver]:
    driver, chromium = shutil.which("chromedriver"), shutil.which("chromium")
    if driver is None or chromium is None:
        pytest.skip("needs chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    with tempfile.TemporaryDirectory() as profile:
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--user-data-dir={profile}"):
            options.add_argument(argument)
        browser = webdriver.Chrome(options, webdriver.ChromeService(driver))
        yield browser
        browser.quit()


def ask(browser: WebDriver, text: str, number: int = 1) -> str:
    """The numbers under the answer to the text, the number-th of the page."""
    browser.find_element(By.ID, "prompt").send_keys(text)
    browser.find_element(By.ID, "send").click()
    numbers = WebDriverWait(browser, SECONDS).until(
        lambda page: found if len(found := page.find_elements(By.CLASS_NAME, "numbers")) == number else None
    )
    return str(numbers[-1].text)


def set_value(browser: WebDriver, name: str, value: object) -> None:
    browser.execute_script("document.getElementById(arguments[0]).value = arguments[1]", name, str(value))  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def drafting_server(specdec: pathlib.Path) -> Iterator[Server]:
    """With a fixed number of drafts: "auto" may use none on a busy machine."""
    with serving(specdec, "-k", 4) as running:
        yield running


def test_a_conversation(drafting_server: Server, browser: WebDriver) -> None:
    server = drafting_server
    browser.get(server.url)
    WebDriverWait(browser, SECONDS).until(
        lambda page: page.find_element(By.ID, "model").text == "stdlib-target-f16.gguf"
    )
    set_value(browser, "temperature", 0)
    set_value(browser, "max_tokens", 40)
    numbers = ask(browser, "def bfs(graph, start):")
    accepted = re.match(
        r"40 tokens, [\d.]+ tokens per second, (\d+) of \d+ drafts accepted \(cut at the number", numbers
    )
    assert accepted
    reply = server.post(
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "def bfs(graph, start):"}], "max_tokens": 40, "temperature": 0},
    ).json
    expected = reply["choices"][0]["message"]["content"]
    answer = browser.find_element(By.CSS_SELECTOR, ".assistant")
    pieces = answer.find_elements(By.CSS_SELECTOR, "span:not(.plain)")
    assert "".join(str(piece.get_property("textContent")) for piece in pieces) == expected  # type: ignore[no-untyped-call]
    # Accepted drafts are marked, in another colour than the rest.
    marked = [piece for piece in pieces if piece.get_attribute("class") in ("model", "copy")]  # type: ignore[no-untyped-call]
    assert 0 < len(marked) <= int(accepted[1])
    (sampled, *_) = [piece for piece in pieces if piece not in marked]
    colours = {piece.value_of_css_property("background-color") for piece in (marked[0], sampled)}
    assert len(colours) == 2
    # Plain decoding on request.
    browser.find_element(By.CLASS_NAME, "compare").click()
    line = WebDriverWait(browser, SECONDS).until(lambda page: page.find_element(By.CLASS_NAME, "plain")).text
    assert re.search(r"^Plain decoding: [\d.]+ tokens per second, .* times as fast; the same text\.$", line)
    # The second question has the first one as its context.
    ask(browser, "def dfs", 2)
    assert browser.get_log("browser") == []


def test_text_is_never_markup(server: Server, browser: WebDriver) -> None:
    browser.get(server.url)
    set_value(browser, "max_tokens", 1)
    ask(browser, "<img src=x onerror=document.title='hacked'><b>bold</b>")
    question = browser.find_element(By.CSS_SELECTOR, ".user")
    assert "<b>bold</b>" in question.text and question.find_elements(By.CSS_SELECTOR, "*") == []
    assert browser.title == "specdec"


def test_an_answer_is_stopped(server: Server, browser: WebDriver) -> None:
    browser.get(server.url)
    set_value(browser, "max_tokens", 400)
    browser.find_element(By.ID, "prompt").send_keys("class")
    browser.find_element(By.ID, "send").click()
    WebDriverWait(browser, SECONDS).until(lambda page: page.find_elements(By.CSS_SELECTOR, ".assistant span"))
    browser.execute_script("document.getElementById('stop').click()")  # type: ignore[no-untyped-call]
    WebDriverWait(browser, SECONDS).until(lambda page: page.find_element(By.ID, "send").is_displayed())
    wait_until(lambda: server.num_unfinished() == 0)


def test_errors_are_shown(server: Server, browser: WebDriver) -> None:
    browser.get(server.url)
    set_value(browser, "temperature", -1)
    browser.find_element(By.ID, "prompt").send_keys("x")
    browser.execute_script("document.getElementById('form').requestSubmit()")  # type: ignore[no-untyped-call]
    error = WebDriverWait(browser, SECONDS).until(lambda page: page.find_element(By.CLASS_NAME, "error"))
    assert "temperature" in error.text


def test_an_api_key_is_asked_for(specdec: pathlib.Path, browser: WebDriver) -> None:
    with serving(specdec, "--api-key", "secret") as server:
        browser.get(server.url)
        prompt = WebDriverWait(browser, SECONDS).until(lambda page: page.switch_to.alert)
        prompt.send_keys("secret")
        prompt.accept()
        WebDriverWait(browser, SECONDS).until(
            lambda page: page.find_element(By.ID, "model").text == "stdlib-target-f16.gguf"
        )


def test_the_page_can_be_left_out(specdec: pathlib.Path) -> None:
    with serving(specdec, "--no-webui") as server:
        assert server.get("/").status == 404


def test_the_page_loads_nothing_from_elsewhere(server: Server) -> None:
    reply = server.get("/")
    assert reply.status == 200 and reply.headers["Content-Type"].startswith("text/html")
    assert reply.headers["Content-Security-Policy"].startswith("default-src 'none';")
    assert "http://" not in reply.text and "https://" not in reply.text
