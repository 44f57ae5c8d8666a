"""Which runs learnt nothing: those that predict one class, or score no higher than their floor."""

from collections.abc import Mapping
from typing import NamedTuple

from minbert.evaluate.reading import Score, tested
from minbert.report.material import Material
from minbert.spec.task import TASKS


class Verdicts(NamedTuple):
    """The dev scores of all runs against their floors.

    `tested` counts the distinct scores of a run on a task, `above` those above their floor at the
    5 % level, and `single` those below whose run predicts one class or number. `constant` and `low`
    name the cases below, variant by variant; the first those whose run predicts one class.
    """

    tested: int
    above: int
    single: int
    constant: list[str]
    low: list[str]


def judge(material: Material) -> Verdicts:
    """Hold every run against its floors, which the score tables have."""
    cases: dict[bool, list[str]] = {True: [], False: []}  # by whether all predictions are the same
    for paper in material.papers:
        for of, by_seed in material.trained(paper):
            known = {seed: one for seed, one in by_seed.items() if one.learned is not None}
            name = f"{paper} / {material.labels[paper, of.variant]}: {TASKS[of.measure].title}"
            for constant, found in cases.items():
                low = {n: one for n, one in known.items() if not one.learned}
                if alike := {n: one for n, one in low.items() if one.constant is constant}:
                    found.append(f"{name} {_in_words(alike)}")
    runs = tested(material.scores[paper] for paper in material.papers)
    below = [one for one in runs.values() if not one.learned]
    single = sum(bool(one.constant) for one in below)
    return Verdicts(len(runs), len(runs) - len(below), single, cases[True], cases[False])


def _in_words(scores: Mapping[int, Score]) -> str:
    """Return the scores by seed, and their floor."""
    values = ", ".join(f"{score.value:.3f}" for score in scores.values())
    numbers = f"seed{'s' * (len(scores) > 1)} {', '.join(map(str, scores))}"
    return f"{values}; floor {next(iter(scores.values())).floor:.3f} ({numbers})"
