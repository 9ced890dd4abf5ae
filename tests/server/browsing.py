"""The page at / in a real browser: Debian's chromium and chromium-driver."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

SECONDS = 60
WIDE = (1280, 860)


@contextlib.contextmanager
def browsing() -> Iterator[webdriver.Chrome]:
    driver, chromium = shutil.which("chromedriver"), shutil.which("chromium")
    if driver is None or chromium is None:
        pytest.skip("needs chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with tempfile.TemporaryDirectory() as profile:
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--user-data-dir={profile}"):
            options.add_argument(argument)
        browser = webdriver.Chrome(options, webdriver.ChromeService(driver))
        yield browser
        browser.quit()


class Page:
    """What a person sees and does. Elements are named by CSS selectors."""

    def __init__(self, browser: webdriver.Chrome, url: str, downloads: pathlib.Path) -> None:
        self.browser, self.url, self.downloads = browser, url, downloads
        self.command("Storage.clearDataForOrigin", origin=url, storageTypes="all")
        self.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))
        self.command("Browser.grantPermissions", origin=url, permissions=["clipboardReadWrite"])
        self.command("Emulation.setEmulatedMedia", features=[])
        self.command("Emulation.setFocusEmulationEnabled", enabled=True)
        self.resize(*WIDE)
        browser.get("about:blank")
        self.errors()
        browser.get(url)
        self.wait(self.is_ready)

    def command(self, name: str, **arguments: Any) -> Any:
        return self.browser.execute_cdp_cmd(name, arguments)

    def resize(self, width: int, height: int) -> None:
        values = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700}
        self.command("Emulation.setDeviceMetricsOverride", **values)

    def reload(self) -> None:
        self.browser.refresh()
        self.wait(self.is_ready)

    def is_ready(self) -> bool:
        return bool(self.all("#option-temperature"))

    def run(self, script: str, *arguments: object) -> Any:
        return self.browser.execute_script(script, *arguments)

    def errors(self) -> list[str]:
        """Errors of scripts and of the security policy since the last look."""
        return [str(entry["message"]) for entry in self.browser.get_log("browser")]  # type: ignore[no-untyped-call]

    def wait(self, condition: Callable[[], Any]) -> Any:
        return WebDriverWait(self.browser, SECONDS, 0.05).until(lambda _: condition())

    def all(self, selector: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def shows(self, selector: str) -> bool:
        script = "return [...document.querySelectorAll(arguments[0])].some((one) => one.checkVisibility())"
        return bool(self.run(script, selector))

    def text(self, selector: str) -> str:
        """The text of the last of these elements."""
        return str(self.run("return [...document.querySelectorAll(arguments[0])].at(-1)?.innerText ?? ''", selector))

    def texts(self, selector: str) -> list[str]:
        return list(
            self.run("return Array.from(document.querySelectorAll(arguments[0]), (e) => e.innerText)", selector)
        )

    def click(self, selector: str) -> None:
        """The last of these elements."""
        self.run("[...document.querySelectorAll(arguments[0])].at(-1).click()", selector)

    def type(self, *keys: str) -> None:
        """Where the focus is."""
        ActionChains(self.browser).send_keys(*keys).perform()

    def chord(self, *keys: str) -> None:
        actions = ActionChains(self.browser)
        for key in keys[:-1]:
            actions.key_down(key)
        actions.send_keys(keys[-1])
        for key in keys[:-1]:
            actions.key_up(key)
        actions.perform()

    def write(self, selector: str, value: object) -> None:
        script = (
            "const e = document.querySelector(arguments[0]); e.value = arguments[1]; e.oninput?.({}); e.onchange?.({})"
        )
        self.run(script, selector, str(value))

    def send(self, text: str) -> None:
        self.write("#prompt", text)
        self.click("#send")

    def is_idle(self) -> bool:
        return self.shows("#send")

    def ask(self, text: str) -> str:
        """The answer's text, as it is shown."""
        self.send(text)
        self.wait(self.is_idle)
        return self.text(".assistant > .text")

    def choose(self, entry: str, title: str = "") -> None:
        """In the menu of the conversation with this title; without one, of the open conversation."""
        script = "return [...document.querySelectorAll('#list li')].find((li) => arguments[0] ? "
        script += "li.innerText.includes(arguments[0]) : li.className === 'open').querySelector('.more').click()"
        self.run(script, title)
        script = (
            "[...document.querySelectorAll('#menu button')].find((one) => one.textContent === arguments[0]).click()"
        )
        self.run(script, entry)

    def titles(self) -> list[str]:
        return self.texts("#list .title")

    def download(self, name: str) -> str:
        path = self.downloads / name
        self.wait(path.exists)
        return path.read_text(encoding="utf-8")
