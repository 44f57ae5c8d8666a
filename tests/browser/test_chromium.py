"""The browser that the other tests look with: what it would miss, they could not find."""

from __future__ import annotations

from pathlib import Path

import pytest

from .chromium import Browser


def page(folder: Path, body: str) -> str:
    path = folder / "page.html"
    path.write_text(f"<!DOCTYPE html><title>a page</title>{body}", encoding="utf-8")
    return path.as_uri()


def test_it_evaluates_waits_and_takes_pictures(browser: Browser, tmp_path: Path) -> None:
    late = "<p id=p></p><script>setTimeout(() => p.textContent = 'here', 200)</script>"
    browser.open(page(tmp_path, late))
    assert browser.evaluate("document.title") == "a page"
    assert browser.wait_for("p.textContent") == "here"
    assert browser.evaluate("innerWidth") == 1280
    browser.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(TimeoutError, match=r"in vain until p\.hidden"):
        browser.wait_for("p.hidden", seconds=0.2)
    with pytest.raises(RuntimeError, match="nowhere is not defined"):
        browser.evaluate("nowhere")


def test_it_sees_requests_and_errors(browser: Browser, tmp_path: Path) -> None:
    browser.open(page(tmp_path, "<img src='http://127.0.0.1:9/away.png'><script>no.such</script>"))
    assert "http://127.0.0.1:9/away.png" in browser.requests()
    assert any("no is not defined" in error for error in browser.errors())
    browser.open(page(tmp_path, "<p>quiet"))
    assert browser.requests() == [(tmp_path / "page.html").as_uri()]
    assert browser.errors() == []
