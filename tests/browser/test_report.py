"""The report, as a browser shows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pipeline.project import Project

from .chromium import Browser

pytestmark = pytest.mark.pipeline

IMAGES = "[...document.querySelectorAll('main img')]"
LOADED = f"{IMAGES}.map(i => i.complete && i.naturalWidth > 100)"


def test_pictures_load_and_links_lead_to_files(finished: Project, browser: Browser) -> None:
    page = (finished.root / "report.html").as_uri()
    browser.open(page)
    figures = list((finished.root / "figures").rglob("*.png"))
    assert browser.evaluate(LOADED) == [True] * len(figures) != []
    assert browser.evaluate(f"{IMAGES}.every(i => i.alt.length > 20)")
    assert browser.requests() == [page]
    assert browser.errors() == []
    assert "snakemake --cores 2 all" in browser.evaluate("document.body.innerText")
    links = browser.evaluate("[...document.querySelectorAll('main a')].map(a => a.pathname)")
    assert len({link for link in links if "/store/train/" in link}) == len(finished.variants())
    assert [link for link in links if not Path(link).exists()] == []
