"""Text from data on a figure."""

from __future__ import annotations

import pytest

from minbert.figures.style import shorten
from minbert.figures.worst import plain, text_width, wrapped


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\r\nlines\x00\x07", "two lines"),
        ("\u202eabc\u2066\u200f", "abc"),
        ("\u4f60\U0001f9ff a", "<U+4F60><U+1F9FF> a"),
        ("\u05e9\u05dc\u05d5\u05dd", "\u05e9\u05dc\u05d5\u05dd"),
        ("caf\u00e9 $\\alpha$ {x}", "caf\u00e9 $\\alpha$ {x}"),
    ],
)
def test_text_is_one_line_of_known_letters(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize("text", ["a sentence of some words " * 20, "W" * 500, "i " * 300])
def test_lines_fit_and_hold_the_text_in_order(text: str) -> None:
    lines = wrapped(text, 6.5, 150, 100)
    assert max(text_width(line, 6.5) for line in lines) <= 150
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_what_is_left_over_is_marked() -> None:
    lines = wrapped("word " * 100, 6.5, 150, 3)
    assert len(lines) == 3 and lines[-1].endswith("\u2026")
    assert max(text_width(line, 6.5) for line in lines) <= 150
    exact = wrapped("word " * 100, 6.5, 150, 100)
    assert wrapped("word " * 100, 6.5, 150, len(exact)) == exact
    assert wrapped("", 6.5, 150, 3) == []


def test_a_label_is_cut_in_its_middle() -> None:
    assert shorten("a  short\nlabel", 20) == "a short label"
    cut = shorten("RSS + MP + GS + CNN + Res + MLP[2]", 20)
    assert cut == "RSS + MP +\u2026+ MLP[2]" and len(cut) <= 20
