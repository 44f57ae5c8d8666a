"""The report and Snakemake's own, as a browser shows them."""

from __future__ import annotations

import csv
import zipfile
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
    assert {"#findings", "#warnings", f"#{PAPER}", "#times", "#sources"} <= set(links)
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


def test_snakemakes_own_report_has_every_figure_and_table(
    finished: Project, browser: Browser, tmp_path: Path
) -> None:
    project = finished.copy(tmp_path / "project")
    project.snakemake("--report", "own.zip", "all")
    with zipfile.ZipFile(project.folder / "own.zip") as packed:
        packed.extractall(tmp_path / "own")
    held = {path.read_bytes() for path in (tmp_path / "own").rglob("*") if path.is_file()}
    shown = [*(project.root / "figures").rglob("*.*"), project.root / "report.html"]
    shown += [
        path for path in (project.root / "tables").iterdir() if path.suffix in (".csv", ".md")
    ]
    assert len(shown) >= 7
    for path in shown:
        assert path.read_bytes() in held, f"{path.name} is not in Snakemake's report"
    browser.open((tmp_path / "own" / "own" / "report.html").as_uri())
    browser.wait_for("document.body.innerText.includes('ablation grids of four papers')")
    _click(browser, PAPER)
    row = (
        "[...document.querySelectorAll('tr')].find(r => r.innerText.match(/training loss\\s+png/))"
    )
    browser.wait_for(f"{row} != null")
    browser.evaluate(f"{row}.querySelector('a').click()")
    browser.wait_for(
        "[...document.images].some(i => i.src.endsWith('.png') && i.naturalWidth > 300)"
    )
    assert [url for url in browser.requests() if not url.startswith("file:")] == []


def _click(browser: Browser, text: str) -> None:
    """Click what shows just this text."""
    found = f"[...document.querySelectorAll('a, button')].find(e => e.innerText.trim() == '{text}')"
    browser.wait_for(found + " != null")
    browser.evaluate(found + ".click()")


def test_the_table_has_what_the_csv_has(finished: Project, browser: Browser) -> None:
    browser.open((finished.root / "report.html").as_uri())
    text = browser.evaluate(f"document.getElementById('{PAPER}').innerText")
    with (finished.root / "tables" / f"{PAPER}.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    for line in lines:
        assert line["row"] in text
        if line["sst_mean"]:
            assert f"{float(line['sst_mean']):.3f}" in text
