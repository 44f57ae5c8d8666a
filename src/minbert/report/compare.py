"""What the page's script needs to show two variants side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minbert.data.parquet import read_file
from minbert.evaluate.reading import METRIC_TITLES, Of, Score, mostly_learned
from minbert.evaluate.statistics import Interval
from minbert.figures.inputs import Values, present
from minbert.report.material import Material
from minbert.report.predictions import Said, Stage, Texts, label_name, marks
from minbert.spec.task import TASKS

EXAMPLES = 120
"""Examples of each task in the page, so that it stays small whatever the data."""


def divisive(found: Mapping[Stage, Said]) -> dict[str, list[int]]:
    """Return the places of the dev examples of each task on which the stages differ most.

    That is where the values' variance is largest, and of classes the share that is not the
    commonest. Places are in the order of the data.
    """
    said: dict[str, list[Values]] = {}
    for (_, task), one in found.items():
        said.setdefault(task, []).append(one.said)
    chosen = {}
    for task in (task for task in TASKS if task in said):
        values = np.array(said[task])
        if TASKS[task].kind == "regression":
            spread = values.var(axis=0)
        else:
            spread = -np.max([(values == of).mean(axis=0) for of in np.unique(values)], axis=0)
        first = np.lexsort((np.arange(values.shape[1]), -spread))[:EXAMPLES]
        chosen[task] = sorted(map(int, first))
    return chosen


def comparison(
    material: Material,
    found: Mapping[Stage, Said],
    places: Mapping[str, Sequence[int]],
    texts: Texts,
) -> dict[str, Any]:
    """Return {tasks, runs, papers} as JSON-able data; `places` are those of `divisive`.

    A variant names, for each task, its place in `runs`, as several variants may share a stage.
    """
    runs: list[dict[str, Any]] = []
    numbers: dict[Stage, int] = {}
    papers: list[dict[str, Any]] = []
    for paper in material.papers:
        variants: dict[str, dict[str, int]] = {}
        means = material.means(paper)
        for of, by_seed in material.trained(paper):
            stage = (next(iter(by_seed.values())).key, of.measure)
            if stage not in found:
                continue
            if stage not in numbers:
                numbers[stage] = len(runs)
                chosen = places[of.measure]
                runs.append(_run(material, of, by_seed, means[of], found[stage], chosen))
            variants.setdefault(of.variant, {})[of.measure] = numbers[stage]
        labelled = [
            {"label": material.labels[paper, name], "runs": of} for name, of in variants.items()
        ]
        papers += [{"name": paper, "variants": labelled}] * bool(labelled)
    first = {task: one for (_, task), one in found.items()}
    tasks = {task: _task(task, first[task], places[task], texts) for task in places}
    return {"tasks": tasks, "runs": runs, "papers": papers}


def _task(task: str, one: Said, places: Sequence[int], texts: Texts) -> dict[str, Any]:
    known = TASKS[task]
    shown = [{"texts": texts.get((task, one.ids[n]), []), "label": one.label[n]} for n in places]
    return {
        "title": known.title,
        "metric": METRIC_TITLES[known.metric],
        "names": known.names,
        "classes": [label_name(task, value) for value in marks(task) if one.confusion],
        "differ": (known.high - known.low) / 5 if known.kind == "regression" else 0.5,
        "examples": shown,
    }


def _run(
    material: Material,
    of: Of,
    by_seed: Mapping[int, Score],
    mean: Interval,
    one: Said,
    places: Sequence[int],
) -> dict[str, Any]:
    scores = list(by_seed.values())
    digits = 1 if TASKS[of.measure].kind == "regression" else None  # None: a whole number
    return {
        "score": round(mean.mean, 4),
        "said": mean.in_words(),
        "floor": scores[0].floor,
        "learned": bool(mostly_learned(scores)),
        "curve": _curve(material, scores[0].key, of.measure),
        "confusion": one.confusion,
        "predicted": [round(float(one.said[n]), digits) for n in places],
    }


def _curve(material: Material, key: str, task: str) -> list[list[float]]:
    """Return (epoch, dev score), the mean over the seeds that have the epoch; empty if unknown."""
    wanted = [("split", "=", "dev"), ("task", "=", task), ("metric", "=", TASKS[task].metric)]
    values: dict[int, list[float]] = {}
    for path in present(material.seeds("history", key)).values():
        for row in read_file(
            path, ("epoch", "split", "task", "metric", "value"), wanted
        ).to_pylist():
            values.setdefault(row["epoch"], []).append(row["value"])
    return [[epoch, round(float(np.mean(of)), 4)] for epoch, of in sorted(values.items())]
