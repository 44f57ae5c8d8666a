"""What one variant gains over another on dev, with the claims' interval, and what its paper says.

Both are scored on the same resampled examples (`minbert.evaluate.systems`).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from minbert.evaluate.bootstrap import difference
from minbert.evaluate.reading import Of
from minbert.evaluate.statistics import Interval
from minbert.evaluate.systems import Systems
from minbert.figures.inputs import Inputs
from minbert.figures.scored import read_scores


def systems(inputs: Inputs) -> Systems:
    """Return those variants of the only paper among the inputs that have scores."""
    ((paper, path),) = inputs.scores.items()
    files = {
        f"{score.key}.{seed}": inputs.predictions[of.variant][of.measure][seed]
        for of, by_seed in read_scores(path, paper).items()
        for seed, score in by_seed.items()
        if of.measure in inputs.predictions.get(of.variant, {})
    }
    return Systems(paper, path, files, inputs.variants, inputs.about["overall_tasks"])


def gain(found: Systems, name: str, other: str, measure: str) -> Interval | None:
    """Return the gain with its interval over examples and seeds; None without both scores."""
    counts = [len(found.seeds(variant, measure)) for variant in (name, other)]
    if not all(counts):
        return None
    one, below = (found.sample(variant, measure) for variant in (name, other))
    change = difference(one, below, 1 / found.examples(measure))
    return Interval(change.value, *change.interval(), min(counts))


def published(rows: Iterable[Mapping[str, Any]], rule: str = "") -> dict[Of, float]:
    """Return the published dev scores; overall scores are by `rule`."""
    return {
        Of(row["variant"], "dev", rule if task == "overall" else task): value
        for row in rows
        for task, value in row["published"].items()
        if row["split"] == "dev" and value is not None
    }


def printed(scores: Mapping[Of, float], name: str, other: str, measure: str) -> Interval | None:
    """Return the published gain; None if one of the two scores is not `published`."""
    one, below = (scores.get(Of(variant, "dev", measure)) for variant in (name, other))
    return None if one is None or below is None else Interval(one - below)
