"""`minbert ensemble`: what the seeds of a variant score together on dev."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from minbert.base.errors import UserError
from minbert.commands.plan import aligned, paper_scores
from minbert.evaluate.predictions import read_predicted
from minbert.evaluate.reading import Of, Score
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


def ensemble_text(plan: Plan) -> str:
    """Return a line for each variant with two or more seeds, and each of its tasks."""
    lines: list[Sequence[str]] = [HEADER]
    for *of, seeds, ensemble in ensembles(plan):
        scores = (f"{score:.3f}" for score in (np.mean(seeds), max(seeds), ensemble))
        lines.append((*of, str(len(seeds)), *scores))
    if lines == [HEADER]:
        raise UserError(
            "no variant has dev scores of two seeds or more; ask for them with "
            "'seeds: [0, 1, 2]' in config.yaml and run `snakemake --cores 2 all`"
        )
    return (
        f"{aligned(lines)}\n\nScores on dev. The ensemble predicts from the mean of its seeds' "
        "predicted probabilities, or values (Lakshminarayanan et al., 2017, section 2.4)."
    )


def ensembles(plan: Plan) -> Iterator[Row]:
    """Yield the tasks of each variant with two or more seeds, then the overall score."""
    for grid in plan.grids:
        scores = paper_scores(plan, grid.paper)
        for variant in grid.variants:
            together: dict[str, float] = {}
            for task in TASKS:
                seeds = scores.get(Of(variant, "dev", task), {})
                if len(seeds) > 1:
                    together[task] = _score(plan, seeds, task)
                    yield Row(grid.paper, variant, task, _values(seeds), together[task])
            ours = overall(together, grid.overall, grid.overall_tasks)
            seeds = scores.get(Of(variant, "dev", grid.overall), {})
            if ours is not None:
                yield Row(grid.paper, variant, "overall", _values(seeds), ours)


def _values(seeds: Mapping[int, Score]) -> tuple[float, ...]:
    return tuple(score.value for score in seeds.values())


def _score(plan: Plan, seeds: Mapping[int, Score], task: str) -> float:
    runs = (plan.nodes["train", of.key].folder(plan.root, seed) for seed, of in seeds.items())
    found = read_predicted([run / "predictions.parquet" for run in runs], task)
    if not found.scores.shape[2]:
        raise UserError(
            f"predictions of '{task}' have no probabilities, as they came in a lean bundle; take "
            "one that was made without --lean, or train the seeds again"
        )
    return score_task(task, predicted(task, found.scores.mean(0)), found.label)


def predicted(task: str, scores: np.ndarray) -> np.ndarray:
    """Return what `scores` [n, s] predict: classes or values [n]."""
    if TASKS[task].kind == "classification":
        return scores.argmax(1).astype(float)
    value = scores[:, 0]
    return (value > 0.5).astype(float) if TASKS[task].kind == "binary" else value
