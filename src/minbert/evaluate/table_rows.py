"""The rows of a paper's table: what was published, and what our runs scored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import NamedTuple, get_args

from minbert.common.errors import UserError
from minbert.evaluate.reading import read_columns
from minbert.evaluate.statistics import Interval, interval
from minbert.evaluate.table_spec import TableRow, TableSpec
from minbert.grid.tasks import TASKS
from minbert.scoring import OVERALL_TASKS, Rule

SCORED, NOT_RUN, NO_LABELS, FAILED = "scored", "not run", "no labels", "failed"


class Row(NamedTuple):
    """A row of the table with our figures.

    `scores` has an `Interval` for each of sst, para, sts, other, normalised and plain that was
    scored; `n` is the number of seeds behind the row. `keys` are the training keys it comes from,
    and `remark` what is to be said of it besides its notes. `last` has the mean scores after the
    last epoch, where those were measured; `scores` are those of the epoch that was best on dev.
    """

    spec: TableRow
    status: str
    other_task: str | None
    scores: dict[str, Interval]
    n: int
    keys: tuple[str, ...] = ()
    remark: str = ""
    last: Mapping[str, float] = {}


Values = dict[str, dict[int, float]]
"""{score name: {seed: value}} of one variant and split."""


def collect(table: TableSpec, scores: Path, failures: Mapping[str, str] | None = None) -> list[Row]:
    """Return the table's rows in the order of the spec, each with what `scores` has of it.

    `failures` says of variants, by name, why they have no scores.
    """
    columns = ("paper", "variant", "seed", "split", "task", "metric", "value", "key", "last")
    found: dict[tuple[str, str], Values] = {}
    lasts: dict[tuple[str, str], Values] = {}
    keys: dict[tuple[str, str], dict[str, set[str]]] = {}
    main = {(name, task.metric) for name, task in TASKS.items()}
    main |= {("overall", rule) for rule in get_args(Rule)}
    of_paper = read_columns(scores, columns, [("paper", "=", table.paper)])
    for line in of_paper.to_pylist():
        if (line["task"], line["metric"]) in main:
            at = (line["variant"], line["split"])
            name = line["metric"] if line["task"] == "overall" else line["task"]
            found.setdefault(at, {}).setdefault(name, {})[line["seed"]] = line["value"]
            if line["last"] is not None:
                lasts.setdefault(at, {}).setdefault(name, {})[line["seed"]] = line["last"]
            if line["task"] != "overall":
                keys.setdefault(at, {}).setdefault(line["task"], set()).add(line["key"])
    scored = {variant for variant, _ in found}
    rows = []
    for row in table.rows:
        at = (row.variant, row.split)
        made = _row(table.paper, row, found.get(at, {}), lasts.get(at, {}), row.variant in scored)
        of_tasks = keys.get(at, {})
        made = made._replace(keys=tuple(sorted(set().union(*of_tasks.values()))))
        if row.choice and of_tasks:
            made = made._replace(remark=_choice(row.choice, of_tasks))
        if made.status == NOT_RUN and failures and row.variant in failures:
            made = made._replace(status=FAILED, remark=failures[row.variant])
        rows.append(made)
    return rows


def _choice(choice: Mapping[str, str], keys: Mapping[str, set[str]]) -> str:
    """Say which variants the scores of a best-of row are those of."""
    named = {t: "/".join(sorted({choice.get(k, k) for k in keys[t]})) for t in TASKS if t in keys}
    if len(set(named.values())) == 1:
        return f"here: {next(iter(named.values()))}"
    return "here: " + ", ".join(f"{TASKS[task].title} {name}" for task, name in named.items())


def _row(paper: str, row: TableRow, values: Values, lasts: Values, variant_scored: bool) -> Row:
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
    last = {name: fmean(lasts[task].values()) for name, task in names.items() if task in lasts}
    return Row(row, status, other_task, intervals, n, last=last)
