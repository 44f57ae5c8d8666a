"""Delta m: the relative gain over single tasks."""

from __future__ import annotations

import pytest

from minbert.evaluate.metrics import delta_m

SINGLE = {"sst": 0.5, "para": 0.8, "sts": 0.9}


def test_golden() -> None:
    # By hand: (0.05 / 0.5 + 0.04 / 0.8 - 0.09 / 0.9) / 3 = 0.05 / 3
    scores = {"sst": 0.55, "para": 0.84, "sts": 0.81, "cfimdb": 0.1}
    assert delta_m(scores, SINGLE | {"lmrd": 0.9}) == pytest.approx(5 / 3)
    assert delta_m(SINGLE, SINGLE) == 0


def test_a_negative_score_is_a_loss_of_more_than_all() -> None:
    assert delta_m(SINGLE | {"sts": -0.9}, SINGLE) == pytest.approx(-200 / 3)


@pytest.mark.parametrize("r", [0.0, -0.2])
def test_nothing_is_a_share_of_0_or_less(r: float) -> None:
    assert delta_m(SINGLE, SINGLE | {"sts": r}) is None


def test_all_tasks_are_needed_on_both_sides() -> None:
    two = {"sst": 0.5, "para": 0.8}
    assert delta_m(two, SINGLE) is None
    assert delta_m(SINGLE, two) is None
