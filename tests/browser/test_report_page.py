"""What the report's script does, on made-up results with hostile texts: no pipeline is run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Error
from reporting import HOSTILE, PAPER, plan_results, write_report

from .chromium import Browser

TITLE = "Ablation grids of multitask BERT fine-tuning"
SIZES = [(1280, 900), (390, 844)]
TABLE = f"document.querySelector('#{PAPER} table.data')"
CLAIMS = "document.querySelector('#claims table.data')"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(plan_results(tmp_path_factory.mktemp("page")))


@pytest.fixture
def page(report: Path, browser: Browser) -> Iterator[Browser]:
    """Open the report; afterwards nothing was loaded, and nothing went wrong."""
    browser.open(report.as_uri())
    browser.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
    yield browser
    assert browser.requests() == [report.as_uri()]
    assert browser.errors() == []


def cells(table: str, column: int) -> str:
    """Return JavaScript for the texts of a column's rows that are shown."""
    rows = f"[...[...{table}.tBodies].at(-1).rows].filter(row => !row.hidden)"
    return f"{rows}.map(row => row.cells[{column}].innerText)"


def click_head(page: Browser, table: str, column: int) -> str:
    """Click a column's heading; return the order that it then has."""
    head = f"[...{table}.tHead.rows].at(-1).cells[{column}]"
    page.evaluate(f"{head}.querySelector('button').click()")
    return str(page.evaluate(f"{head}.ariaSort"))


def test_the_policy_stops_what_is_not_the_pages_own(
    report: Path, browser: Browser, tmp_path: Path
) -> None:
    """A second wall: the texts here are in the page without being escaped."""
    broken = tmp_path / "report.html"
    away = "<img src='http://127.0.0.1:9/away.png'><p style='display: none' id=styled>seen</p>"
    text = report.read_text("utf-8").replace("<main>", f"<main>{''.join(HOSTILE[:3])}{away}")
    broken.write_text(text, encoding="utf-8")
    browser.open(broken.as_uri())
    browser.evaluate("document.querySelector('a[onclick]').click()")
    browser.evaluate("new Promise(done => setTimeout(done, 200))")
    assert browser.evaluate("document.title") == TITLE
    assert browser.evaluate("document.getElementById('styled').innerText") == "seen"
    stopped = " ".join(browser.errors())
    for directive in ("script-src", "img-src", "style-src"):
        assert directive in stopped, stopped
    with pytest.raises(Error, match="TrustedHTML"):
        browser.evaluate("document.body.innerHTML += '<b>x</b>'")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=["desktop", "phone"])
def test_the_first_screen_has_the_banner_and_the_floor(
    size: tuple[int, int], dark: bool, report: Path, browser: Browser
) -> None:
    browser.resize(*size, dark=dark)
    browser.open(report.as_uri())
    bottoms = browser.evaluate(
        "['.banner', '.findings li:nth-child(2)'].map("
        "s => document.querySelector(s).getBoundingClientRect().bottom)"
    )
    assert max(bottoms) < size[1]
    assert "above the floor" in browser.evaluate("document.querySelector('.findings').innerText")
    assert browser.evaluate("document.documentElement.scrollWidth") == size[0]
    ink, paper = (
        sum(map(int, browser.evaluate(f"getComputedStyle({of}).{name}")[4:-1].split(",")[:3]))
        for of, name in (
            ("document.querySelector('h1')", "color"),
            ("document.body", "backgroundColor"),
        )
    )
    assert paper + 400 < ink if dark else ink + 400 < paper
    assert browser.errors() == []


def test_a_heading_sorts_up_down_and_back(page: Browser) -> None:
    def scores() -> list[float]:
        """Return the numbers of the column, which stand before what is not a number."""
        texts = [text.split()[0] for text in page.evaluate(cells(TABLE, 3))]
        words = [text for text in texts if not text[-1].isdigit()]
        assert words and texts[-len(words) :] == words
        return list(map(float, texts[: -len(words)]))

    before = page.evaluate(cells(TABLE, 3))
    assert click_head(page, TABLE, 3) == "ascending"
    up = scores()
    assert up == sorted(up) and len(set(up)) > 1
    assert click_head(page, TABLE, 3) == "descending"
    assert scores() == up[::-1]
    assert click_head(page, TABLE, 3) == "none" and page.evaluate(cells(TABLE, 3)) == before
    assert click_head(page, TABLE, 0) == "ascending"
    names = page.evaluate(cells(TABLE, 0))
    assert names == sorted(names, key=str.lower)


def test_rows_are_searched(page: Browser) -> None:
    tools = f"{CLAIMS}.parentElement.previousElementSibling"
    every = len(page.evaluate(cells(CLAIMS, 0)))
    word = page.evaluate(cells(CLAIMS, 0))[2].split()[-1].upper()
    page.evaluate(f"{tools}.querySelector('input').value = {word!r}")
    page.evaluate(f"{tools}.dispatchEvent(new Event('input'))")
    found = page.evaluate(cells(CLAIMS, 0))
    assert 0 < len(found) < every
    assert (
        page.evaluate(f"{tools}.querySelector('output').value") == f"{len(found)} of {every} rows"
    )


@pytest.mark.parametrize("size", SIZES, ids=["desktop", "phone"])
def test_header_and_first_column_stay_in_view(size: tuple[int, int], page: Browser) -> None:
    page.resize(*size)
    box = f"{CLAIMS}.parentElement"
    page.evaluate(f"{CLAIMS}.style.width = '2000px'")
    page.evaluate(f"{box}.style.maxHeight = '200px'")
    page.evaluate(f"{box}.scrollIntoView()")
    page.evaluate(f"{box}.scrollTo(400, 150)")
    top, left = page.evaluate(f"(r => [r.top, r.left])({box}.getBoundingClientRect())")
    at = f"document.elementFromPoint({left + 20}, {top + 8})"
    assert page.evaluate(f"{at}.closest('th').innerText").startswith("Claim")
    body = f"document.elementFromPoint({left + 20}, {top + 100}).closest('td')"
    assert page.evaluate(f"{body}.cellIndex") == 0
    assert page.evaluate(f"getComputedStyle({body}).backgroundColor") != "rgba(0, 0, 0, 0)"


@pytest.mark.parametrize("size", SIZES, ids=["desktop", "phone"])
def test_a_figure_uses_the_width_and_enlarges(size: tuple[int, int], page: Browser) -> None:
    page.resize(*size)
    room = page.evaluate("document.querySelector('main').clientWidth")
    shown, own = (
        page.evaluate(f"document.querySelector('figure img').{name}")
        for name in ("clientWidth", "naturalWidth")
    )
    assert shown == pytest.approx(min(room, own), abs=12), "a pixel of a picture is one of a screen"
    page.evaluate("document.querySelector('a.enlarge').click()")
    assert page.evaluate("document.querySelector('dialog').open")
    shown = "document.querySelector('dialog img')"
    fitted = page.evaluate(f"{shown}.clientWidth")
    assert fitted <= size[0]
    page.evaluate(f"{shown}.click()")
    assert page.evaluate(f"{shown}.clientWidth") >= 1400 > fitted
    assert page.evaluate("document.documentElement.scrollWidth") == size[0]
    page.page.keyboard.press("Escape")
    page.wait_for("!document.querySelector('dialog').open")
