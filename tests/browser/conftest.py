"""The browser of these tests. Without Chromium they are skipped, and say so."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from .chromium import NAMES, Browser, chromium

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="module")
def started() -> Iterator[Browser]:
    """Start Chromium, for one file: Playwright's event loop would be in the way of others."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"none of {', '.join(NAMES)} is on the PATH (apt-get install chromium)")
    with chromium(program) as browser:
        yield browser


@pytest.fixture
def browser(started: Browser) -> Browser:
    """Return the browser, at 1280 x 900 px in the light colour scheme."""
    started.resize(1280, 900)
    return started
