"""One page of a headless Chromium, driven by Playwright."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 60_000
"""Milliseconds that an answer, or what is waited for, may take."""


class Browser:
    """A page, what it asked for and what went wrong in it since it was opened."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._requests: list[str] = []
        self._errors: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("request", lambda request: self._requests.append(request.url))
        page.on("pageerror", lambda error: self._errors.append(str(error)))
        page.on("console", lambda said: said.type == "error" and self._errors.append(said.text))

    def open(self, url: str) -> None:
        """Open a page and wait until it has loaded; what was seen of earlier pages is forgotten."""
        self.page.goto("about:blank")
        self._requests.clear()
        self._errors.clear()
        self.page.goto(url)

    def evaluate(self, script: str) -> Any:
        """Return the value of a JavaScript expression; a promise is awaited."""
        return self.page.evaluate(script)

    def wait_for(self, script: str) -> None:
        """Wait until a JavaScript expression is truthy."""
        self.page.wait_for_function(script)

    def resize(self, width: int, height: int, dark: bool = False) -> None:
        """Set the window's size in CSS pixels, and the colour scheme that it asks for."""
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(color_scheme="dark" if dark else "light")

    def requests(self) -> list[str]:
        """Return the addresses that the page asked for; `data:` is none."""
        return [url for url in self._requests if not url.startswith(("data:", "blob:"))]

    def errors(self) -> list[str]:
        """Return what the page's scripts threw or logged as errors."""
        self.evaluate("0")  # takes in what came last
        return self._errors


@contextmanager
def chromium(program: str) -> Iterator[Browser]:
    """Start the `program`, with an empty profile, and end it."""
    with sync_playwright() as playwright:
        # Root, as in a container, cannot have a sandbox; only our own pages are opened.
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield Browser(started.new_page())
        started.close()
