"""`minbert learned`: which rows learnt, of those that learnt in their paper."""

from collections.abc import Iterator
from typing import NamedTuple

from minbert.commands.plan import aligned, paper_scores
from minbert.evaluate.reading import Of, Score, Scores
from minbert.evaluate.text import p_value
from minbert.plan.cost import SIZES
from minbert.plan.plan import Plan
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.published import Published

FLOORS = {"sst": 0.262, "para": 0.631, "sts": 0.0, "cfimdb": 0.502, "lmrd": 0.295}
"""Of the papers' dev sets: the share of the most frequent class; r = 0."""

CLEARLY = 1.645
"""Standard errors that a published score is above its floor by, to ask it of ours."""

HEADER = ("paper", "variant", "task", "seed", "paper's", "ours", "floor", "p", "")


class Row(NamedTuple):
    """A published score above its floor, and ours for a seed; None if there is none yet."""

    paper: str
    variant: str
    task: str
    published: float
    seed: int | None
    ours: Score | None


def learned_text(plan: Plan) -> str:
    """Return a line for each published score on dev that is clearly above its floor, and counts."""
    rows = list(learned(plan))
    run = [row.ours for row in rows if row.ours]
    above, constant = sum(bool(one.learned) for one in run), sum(bool(one.constant) for one in run)
    missing = f"; {len(rows) - len(run)} have not run" if len(rows) > len(run) else ""
    return (
        f"{aligned([HEADER, *map(_cells, rows)])}\n\n"
        f"{above} of {len(run)} above their floor at the 5 % level, {constant} of {len(run)} "
        f"constant predictors{missing}.\n"
        "Floors: the most frequent label of dev (exact McNemar test), r = 0 (t test). Listed: "
        "rows whose published score is clearly above the floor of the paper's dev set."
    )


def learned(plan: Plan) -> Iterator[Row]:
    """Yield a row for each published score that is clearly above its floor, and each seed."""
    for grid in plan.grids:
        scores = paper_scores(plan, grid.paper)
        for row in plan.published:
            if row.paper != grid.paper or row.split != "dev" or row.variant not in grid.variants:
                continue
            for task, published in _clear(row, scores):
                found = scores.get(Of(row.variant, "dev", task), {})
                of = grid.paper, row.variant, task, published
                if not found:
                    yield Row(*of, None, None)
                for seed, score in found.items():
                    yield Row(*of, seed, score)


def _clear(row: Published, scores: Scores) -> Iterator[tuple[str, float]]:
    """Yield the tasks whose published score is clearly above its floor, with that score.

    The floor of a task of one's own is that of our dev set, whose runs are in `scores`.
    """
    named = {task: row.figures[task] for task in OVERALL_TASKS}
    if row.other_task:
        named[row.other_task] = row.figures["other"]
    for task, published in named.items():
        ours = next(iter(scores.get(Of(row.variant, "dev", task), {}).values()), None)
        if task in FLOORS:
            floor, n = FLOORS[task], SIZES[task].dev
            error = (floor * (1 - floor) / n) ** 0.5 or n**-0.5  # of r = 0
        elif ours:
            floor, error = ours.floor or 0.0, ours.error or 0.0
        else:
            continue
        if published is not None and published > floor + CLEARLY * error:
            yield task, published


def _cells(row: Row) -> tuple[str, ...]:
    of = (row.paper, row.variant, row.task)
    if row.ours is None:
        return (*of, "-", f"{row.published:.3f}", "-", "-", "-", "has not run")
    one = row.ours
    said = "constant" if one.constant else "not above its floor" if one.learned is False else ""
    floor = "-" if one.floor is None else f"{one.floor:.3f}"
    p = "-" if one.p_floor is None else p_value(one.p_floor)
    return (*of, str(row.seed), f"{row.published:.3f}", f"{one.value:.3f}", floor, p, said)
