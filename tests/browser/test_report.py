"""The report, as a browser shows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pipeline.project import PAPER, Project

from .chromium import Browser

pytestmark = pytest.mark.pipeline

IMAGES = "[...document.querySelectorAll('main img')]"
LOADED = f"{IMAGES}.map(i => i.complete && i.naturalWidth > 100)"
LINKS = "[...document.querySelectorAll('nav a')].map(a => a.getAttribute('href'))"
TOP = "document.querySelector(location.hash).getBoundingClientRect().top"


def test_all_pictures_load_and_nothing_else_is_asked_for(
    finished: Project, browser: Browser
) -> None:
    page = (finished.root / "report.html").as_uri()
    browser.open(page)
    figures = list((finished.root / "figures").rglob("*.png"))
    assert browser.evaluate(LOADED) == [True] * len(figures) != []
    assert browser.evaluate(f"{IMAGES}.every(i => i.alt.length > 20)")
    assert browser.requests() == [page]
    assert browser.errors() == []
    assert "snakemake --cores 2 all" in browser.evaluate("document.body.innerText")


def test_the_contents_lead_where_they_say(finished: Project, browser: Browser) -> None:
    browser.open((finished.root / "report.html").as_uri())
    browser.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
    links = browser.evaluate(LINKS)
    assert {"#findings", "#warnings", f"#{PAPER}", "#sources"} <= set(links)
    for link in links:
        browser.evaluate(f"document.querySelector('nav a[href=\"{link}\"]').click()")
        assert browser.evaluate("location.hash") == link
        seen = browser.wait_for(f"[{TOP}]")[0]
        assert -1 < seen < browser.evaluate("innerHeight"), f"{link} is not on the screen"


def test_links_to_files_lead_to_files(finished: Project, browser: Browser) -> None:
    browser.open((finished.root / "report.html").as_uri())
    links = browser.evaluate("[...document.querySelectorAll('main a')].map(a => a.pathname)")
    assert len({link for link in links if "/store/train/" in link}) == len(finished.variants())
    assert [link for link in links if not Path(link).exists()] == []
