"""The rows of a paper's table: what was published, and what our runs scored."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, get_args

from minbert.common.errors import UserError
from minbert.evaluate.reading import read_columns
from minbert.evaluate.statistics import Interval, interval
from minbert.evaluate.table_spec import TableRow, TableSpec
from minbert.grid.tasks import TASKS
from minbert.scoring import OVERALL_TASKS, Rule

SCORED, NOT_RUN, NO_LABELS = "scored", "not run", "no labels"


class Row(NamedTuple):
    """A row of the table with our figures.

    `scores` has an `Interval` for each of sst, para, sts, other, normalised and plain that was
    scored; `n` is the number of seeds behind the row.
    """

    spec: TableRow
    status: str
    other_task: str | None
    scores: dict[str, Interval]
    n: int


def collect(table: TableSpec, scores: Path) -> list[Row]:
    """Return the table's rows in the order of the spec, each with what `scores` has of it."""
    columns = ("paper", "variant", "seed", "split", "task", "metric", "value")
    found: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    scored_variants = set()
    main = {(name, task.metric) for name, task in TASKS.items()}
    main |= {("overall", rule) for rule in get_args(Rule)}
    of_paper = read_columns(scores, columns, [("paper", "=", table.paper)])
    for line in of_paper.to_pylist():
        scored_variants.add(line["variant"])
        if (line["task"], line["metric"]) in main:
            name = line["metric"] if line["task"] == "overall" else line["task"]
            values = found.setdefault((line["variant"], line["split"]), {}).setdefault(name, {})
            values[line["seed"]] = line["value"]
    return [
        _row(
            table.paper,
            row,
            found.get((row.variant, row.split), {}),
            row.variant in scored_variants,
        )
        for row in table.rows
    ]


def _row(
    paper: str, row: TableRow, values: dict[str, dict[int, float]], variant_scored: bool
) -> Row:
    others = [task for task in values if task in TASKS and task not in OVERALL_TASKS]
    if row.other_task is None and len(others) > 1:
        raise UserError(
            f"table of paper '{paper}', row '{row.row}': variant '{row.variant}' is scored on "
            f"{' and '.join(others)}; say with 'other_task' which of them the row shows"
        )
    other_task = row.other_task or (others[0] if others else None)
    names = {task: task for task in OVERALL_TASKS} | {rule: rule for rule in get_args(Rule)}
    if other_task:
        names["other"] = other_task
    seeds = {name: values[task] for name, task in names.items() if task in values}
    intervals = {name: interval(list(of_seed.values())) for name, of_seed in seeds.items()}
    n = len({seed for of_seed in seeds.values() for seed in of_seed})
    unlabelled = row.split == "test" and (row.reason is not None or variant_scored)
    status = SCORED if intervals else NO_LABELS if unlabelled else NOT_RUN
    return Row(row, status, other_task, intervals, n)
