"""Which runs learnt nothing: those that predict one class, or score no higher than their floor."""

from collections.abc import Mapping
from typing import NamedTuple

from minbert.evaluate.reading import Score
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
    counts: dict[tuple[str, str, int], tuple[bool, bool]] = {}
    trains: dict[tuple[str, str], set[str]] = {}
    for stage in material.job.spec["stages"]:
        trains.setdefault((stage["paper"], stage["row"]), set()).update(stage["tasks"])
    constant: list[str] = []
    low: list[str] = []
    for paper in material.papers:
        for of, by_seed in material.trained(paper):
            known = {seed: s for seed, s in by_seed.items() if s.learned is not None}
            for seed, score in known.items():
                counts[score.key, of.measure, seed] = (bool(score.learned), bool(score.constant))
            alike = [n for n, s in known.items() if not s.learned and s.constant]
            rest = [n for n, s in known.items() if not s.learned and not s.constant]
            name = f"{paper} / {material.labels[paper, of.variant]}: {TASKS[of.measure].title}"
            untrained = of.measure not in trains[paper, of.variant]
            for seeds, cases in ((alike, constant), (rest, low)):
                if seeds:
                    said = _in_words({seed: known[seed] for seed in seeds})
                    why = "; not trained on this task" * untrained
                    cases.append(f"{name} {said}{why}")
    above = sum(learned for learned, _ in counts.values())
    single = sum(constant for learned, constant in counts.values() if not learned)
    return Verdicts(len(counts), above, single, constant, low)


def _in_words(scores: Mapping[int, Score]) -> str:
    """Return the scores by seed, and their floor."""
    values = ", ".join(f"{score.value:.3f}" for score in scores.values())
    numbers = f"seed{'s' * (len(scores) > 1)} {', '.join(map(str, scores))}"
    return f"{values}; floor {next(iter(scores.values())).floor:.3f} ({numbers})"
