"""Text from data on a figure."""

from __future__ import annotations

from minbert.figures.style import shorten


def test_a_label_is_cut_in_its_middle() -> None:
    assert shorten("a  short\nlabel", 20) == "a short label"
    cut = shorten("RSS + MP + GS + CNN + Res + MLP[2]", 20)
    assert cut == "RSS + MP +\u2026+ MLP[2]" and len(cut) <= 20
