"""`minbert ensemble`: what the seeds of a variant score together."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from minbert.base.errors import UserError
from minbert.commands.plan import aligned
from minbert.data.labels import read_labels
from minbert.evaluate.predictions import read_predicted
from minbert.evaluate.reading import Of, Score, read_scores
from minbert.evaluate.scoring import overall, score_task
from minbert.plan.plan import Plan
from minbert.spec.task import TASKS

HEADER = ("paper", "variant", "task", "seeds", "mean of seeds", "best seed", "ensemble")


class Row(NamedTuple):
    """A score of each of several seeds, and that of their ensemble; of a task or `overall`."""

    paper: str
    variant: str
    measure: str
    seeds: tuple[float, ...]
    ensemble: float


def ensemble_text(plan: Plan, split: str) -> str:
    """Return a line for each variant with two or more seeds, and each of its tasks."""
    rows = list(ensembles(plan, split))
    if not rows:
        raise UserError(
            f"no variant has {split} scores of two seeds or more; ask for them with "
            "'seeds: [0, 1, 2]' in config.yaml and run `snakemake --cores 2 all`"
        )
    lines = []
    for row in rows:
        scores = (float(np.mean(row.seeds)), max(row.seeds), row.ensemble)
        of = (row.paper, row.variant, row.measure, str(len(row.seeds)))
        lines.append((*of, *(f"{score:.3f}" for score in scores)))
    return "\n".join(
        [
            aligned([HEADER, *lines]),
            "",
            f"Scores on {split}. The ensemble predicts from the mean of its seeds' predicted "
            "probabilities, or values (Lakshminarayanan et al., 2017, section 2.4).",
        ]
    )


def ensembles(plan: Plan, split: str) -> Iterator[Row]:
    """Yield the tasks of each variant with two or more seeds, then the overall score."""
    for grid in plan.grids:
        path = plan.shown[f"scores/{grid.paper}"].folder(plan.root) / "scores.parquet"
        scores = read_scores(path, grid.paper) if path.exists() else {}
        given = _labels(plan, grid.paper) if split == "test" else {}
        for variant in grid.variants:
            together: dict[str, float] = {}
            for task in TASKS:
                seeds = scores.get(Of(variant, split, task), {})
                if len(seeds) > 1:
                    together[task] = _score(plan, seeds, task, split, given.get(task, {}))
                    yield Row(grid.paper, variant, task, _values(seeds), together[task])
            ours = overall(together, grid.overall, grid.overall_tasks)
            seeds = scores.get(Of(variant, split, grid.overall), {})
            if ours is not None:
                yield Row(grid.paper, variant, "overall", _values(seeds), ours)


def _values(seeds: Mapping[int, Score]) -> tuple[float, ...]:
    return tuple(score.value for score in seeds.values())


def _labels(plan: Plan, paper: str) -> dict[str, dict[str, float]]:
    """Return the public labels, {task: {id: label}}, that a paper's test rows were scored with."""
    needs = plan.shown[f"scores/{paper}"].needs
    found = {task: needs[f"labels.{task}"] for task in TASKS if f"labels.{task}" in needs}
    return {task: read_labels(need.path(plan.root, None)) for task, need in found.items()}


def _score(
    plan: Plan, seeds: Mapping[int, Score], task: str, split: str, given: Mapping[str, float]
) -> float:
    runs = (plan.nodes["train", of.key].folder(plan.root, seed) for seed, of in seeds.items())
    found = read_predicted([run / "predictions.parquet" for run in runs], task, split, given)
    if not found.scores.shape[2]:
        raise UserError(
            f"predictions of '{task}' on {split} have no probabilities, as they came in a lean "
            "bundle; take one that was made without --lean, or train the seeds again"
        )
    return score_task(task, predicted(task, found.scores), found.label)


def predicted(task: str, scores: np.ndarray) -> np.ndarray:
    """Return what the mean of several seeds' `scores` [seeds, n, s] predicts: classes or values."""
    mean = np.mean(scores, axis=0)
    if TASKS[task].kind == "classification":
        return np.asarray(mean.argmax(1), np.float64)
    if TASKS[task].kind == "binary":
        return np.asarray(mean[:, 0] > 0.5, np.float64)
    return np.asarray(mean[:, 0])
