"""Claims about curves: what is measured of them, and how it is judged by the seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from claimed_paper import Paper, against
from scipy.stats import ttest_1samp, ttest_ind

from minbert.evaluate.systems import measured

GAPS = {"one": (0.5, 0.53125, 0.5625), "two": (0.125, 0.15625, 0.1875)}
RISING = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]


@pytest.fixture
def paper(tmp_path: Path) -> Paper:
    return Paper(tmp_path)


@pytest.mark.parametrize(
    ("measure", "train", "dev", "expected"),
    [
        ("gap", [0.9, 0.5], [0.4, 0.6], -0.1),
        ("spread", [], [0.0, 0.5, 0.52, 0.51, 0.49, 0.5], 0.03),
        ("spread", [], RISING, 0.4),
        ("epoch", [], RISING, 1.0),
        ("epoch", [], [0.3, 0.496, 0.4, 0.5, 0.5], 0.4),
        ("epoch", [], [0.3, 0.494, 0.4, 0.5, 0.5], 0.8),
        ("epoch", [], [-0.5, -0.4, -0.2, -0.3], 0.75),
        ("loss", [2.0, 0.5, 0.5], [], 1.0),
    ],
)
def test_measures(measure: str, train: list[float], dev: list[float], expected: float) -> None:
    assert measured(measure, np.array(train), np.array(dev)) == pytest.approx(expected)


def test_claims_on_curves_are_judged_by_their_seeds(paper: Paper) -> None:
    """Both variances are equal, to the bit, so that the pooled test is Student's."""
    for name, gaps in (GAPS | {"three": (0.30, 0.31, 0.32)}).items():
        for seed, gap in enumerate(gaps):
            paper.run(name, seed, sst=0.7)
            paper.curve(name, seed, train_sst=[0.5, 0.5 + gap], dev_sst=[0.6, 0.5])
    for seed in range(2):  # its curves are not read
        paper.run("scored", seed, sst=0.3)
    claim = against("one", "two", measure="gap")
    on_curves, on_scores = paper.judge(claim, against("one", "scored"))
    assert float(on_curves["difference"]) == 0.375
    assert float(on_curves["p"]) == pytest.approx(ttest_ind(*GAPS.values()).pvalue)
    assert (on_curves["measure"], on_scores["measure"]) == ("gap", "")
    assert (on_curves["method"], on_curves["seeds"]) == ("variance over seeds", "3")
    assert "SST: gap" in paper.text("md") and "Spread: the largest less" in paper.text("md")
    # Two variances of each side's own size, with the degrees of freedom of three.
    beside, _ = paper.judge(claim, against("one", "three", measure="gap"))
    assert beside["error"] == on_curves["error"]
    assert float(beside["p"]) < float(on_curves["p"])


def test_curves_of_an_overall_score_are_those_of_its_tasks_together(paper: Paper) -> None:
    skills = {"sst": 0.7, "para": 0.9, "sts": 0.8}
    for name, last in {"one": 0.8, "two": 0.6, "uneven": 0.6}.items():
        for seed in range(2):
            paper.run(name, seed, **skills)
            end = last + seed / 100
            dev = {f"dev_{task}": [0.5, 0.5, 0.5, 0.5, end] for task in skills}
            train = {f"train_{task}": [1.0] * 5 for task in skills}
            train |= {"train_sst": [1.0] * 4} if name == "uneven" else {}
            loss = {f"loss_{task}": [2.0, 2.0, 2.0, 2.0, end] for task in skills}
            paper.curve(name, seed, **dev, **train, **loss)
    *found, uneven = paper.judge(
        *(against("one", "two", task="normalised", measure=name) for name in ("gap", "loss")),
        against("one", "two", task="plain", measure="spread"),
        against("one", "two", task="normalised", measure="spread"),
        against("one", "uneven", task="plain", measure="gap"),
    )
    assert uneven["reason"] == "fewer than 1 scored epochs: uneven 0"
    # Half of a difference in r counts as much as one of an accuracy.
    expected = (-0.2 * 2.5 / 3, 0.2 * 3 / 5, 0.2, 0.2 * 2.5 / 3)
    assert [float(line["difference"]) for line in found] == pytest.approx(expected)


def test_curves_that_are_too_short_or_of_one_seed_cannot_be_judged(paper: Paper) -> None:
    for name, epochs in {"single": 5, "long": 5, "short": 4}.items():
        for seed in range(1 if name == "single" else 2):
            paper.run(name, seed, sst=0.7)
            paper.curve(name, seed, train_sst=[0.5] * epochs, dev_sst=[0.5] * epochs)
    found = paper.judge(
        against("long", "single", measure="gap"),
        against("long", "short", measure="spread"),
        against("long", "short", measure="gap"),
    )
    reasons = ["one seed", "fewer than 5 scored epochs: short 4", ""]
    assert [line["reason"] for line in found] == reasons
    assert {line["verdict"] for line in found[:2]} == {"cannot be judged"}


def test_a_loss_is_compared_with_a_number(paper: Paper) -> None:
    losses = (2.0, 3.0, 4.0)
    for seed, loss in enumerate(losses):
        paper.run("one", seed, sst=0.7)
        paper.curve("one", seed, loss_sst=[loss + 1, loss - 1], dev_sst=[0.5, 0.6])
    claim = against("one", score=0.0, measure="loss", direction="not higher", margin=0.1)
    (line,) = paper.judge(claim)
    assert float(line["difference"]) == pytest.approx(3.0)
    assert float(line["p"]) == pytest.approx(ttest_1samp(losses, 0.1).pvalue)
    assert line["verdict"] == "does not hold"
