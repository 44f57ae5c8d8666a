"""Times in words."""

from __future__ import annotations

import pytest

from minbert.base.progress import clock, duration


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (59.4, "59 s"), (61, "1 min 1 s"), (3000, "50 min"), (3720, "1 h 2 min")],
)
def test_sentences_have_the_units_that_matter(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(("seconds", "said"), [(3.4, "3 s"), (600, "10.0 min"), (9000, "2.5 h")])
def test_tables_have_the_unit_that_suits(seconds: float, said: str) -> None:
    assert clock(seconds) == said
