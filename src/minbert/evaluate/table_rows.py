"""What a table shows: its rows, with our scores beside the published figures."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from minbert.base.errors import UserError
from minbert.evaluate.gain import DELTA_M
from minbert.evaluate.marks import Standing, standing
from minbert.evaluate.means import over_seeds
from minbert.evaluate.reading import Of, Score, read_scores
from minbert.evaluate.statistics import Interval
from minbert.evaluate.tuning import Tuned, read_tuning
from minbert.spec.protocol import OVERALL_TASKS, RULES
from minbert.spec.task import TASKS

SCORED, NOT_RUN, NO_LABELS, FAILED = "scored", "not run", "no labels", "failed"


class TableRow(NamedTuple):
    """What a row is planned to show. `table` is the paper's own table that has it, None if none.

    `published` has the paper's figures for sst, para, sts, other and overall, None or absent where
    it gives none. A row that is the best of other variants has these as `choice`, {training key:
    variant}. `other_task` is the task of the figure `other`: needed only if the variant is scored
    on several tasks besides SST, para and STS. `tasks` are those that the variant has, if planned.
    """

    row: str
    variant: str
    split: str
    published: Mapping[str, float | None]
    table: str | None = None
    choice: Mapping[str, str] = {}
    note: str | None = None
    other_task: str | None = None
    parameters: int | None = None
    parameters_bert_base: int | None = None
    tasks: Sequence[str] | None = None


class Row(NamedTuple):
    """A row of the table with our figures.

    `scores` has an `Interval` for each of the tasks, normalised, plain and delta_m (in per cent)
    that was scored, at the epoch that was best on dev, and `last` the means after the last epoch,
    where they were measured. `n` is the number of seeds, `keys` are the training keys that the
    scores come from, and `remark` is said of the row besides its note. `standing` says of each
    score how it stands against its floor. `tuned` is what came of a tuned variant. `on_dev` are the
    scores that the variant has on dev: a test row without one of them lacks its labels.
    """

    spec: TableRow
    status: str
    other_task: str | None
    scores: Mapping[str, Interval]
    n: int
    keys: tuple[str, ...] = ()
    remark: str = ""
    last: Mapping[str, float] = {}
    standing: Mapping[str, Standing] = {}
    tuned: Tuned | None = None
    on_dev: Collection[str] = ()

    def gives(self, name: str) -> bool:
        """Whether the paper gives a figure of `name`."""
        return self.spec.published.get(name) is not None

    def figure(self, task: str) -> float | None:
        """Return the published figure of a task."""
        name = task if task in OVERALL_TASKS else "other" if task == self.other_task else ""
        return self.spec.published.get(name)


Values = dict[str, dict[int, Score]]
"""Scores by measure and seed, of one variant and split."""


class Table(NamedTuple):
    """A table. `rule` is the paper's own overall score; `seeds` are those that were asked for.

    It has columns for each of `tasks`; the overall score is that of `overall_tasks`. `single` is
    the label of the variant that the gain `delta_m` is over, if the paper has one, and
    `selection_split` says what chose the epochs (`selected.FAVOURED`).
    """

    paper: str
    title: str
    caption: str
    rule: str
    seeds: Sequence[int]
    backbone: str
    data: str
    rows: Sequence[Row]
    footnotes: Sequence[str] = ()
    single: str = ""
    selection_split: str = "dev"
    tasks: Sequence[str] = OVERALL_TASKS
    overall_tasks: Sequence[str] = OVERALL_TASKS

    @property
    def has_published(self) -> bool:
        """Whether a row has a published figure."""
        return any(row.gives(name) for row in self.rows for name in row.spec.published)


def read_table(
    spec: Mapping[str, Any],
    scores: Path,
    failures: Mapping[str, str],
    tuning: Path | None = None,
) -> Table:
    """Return the table of a node's `spec`, with what the score table at `scores` has of its rows.

    `tuning` is where the choices of tuned rows are, if the paper has any.

    A row without any of the scores that the paper gives, or of all if it gives none, is `not run`;
    `failed` if `failures`, {variant: why}, names its variant, or one of the settings that it tried;
    or `no labels` if it is a test row whose labels are not public.
    """
    found: dict[tuple[str, str], Values] = {}
    every = read_scores(scores, spec["paper"])
    for of, by_seed in every.items():
        found.setdefault((of.variant, of.split), {})[of.measure] = by_seed
    means = over_seeds(every, spec.get("overall_tasks", OVERALL_TASKS))
    tuned = read_tuning(tuning) if tuning else {}
    rows = []
    for row in (TableRow(**each) for each in spec["rows"]):
        values = found.get((row.variant, row.split), {})
        made = _row(spec, row, values, found.get((row.variant, "dev"), {}), means)
        made = made._replace(tuned=tuned.get(row.variant))
        trained = [row.variant, *(made.tuned.candidates if made.tuned else ())]
        why = next((failures[name] for name in trained if name in failures), None)
        if made.status == NOT_RUN and why is not None:
            made = made._replace(status=FAILED, remark=why)
        rows.append(made)
    known = {name: value for name, value in spec.items() if name in Table._fields}
    return Table(**{**known, "rows": rows})


def _row(
    spec: Mapping[str, Any],
    row: TableRow,
    values: Values,
    on_dev: Values,
    means: Mapping[Of, Interval],
) -> Row:
    others = [task for task in values if task in TASKS and task not in OVERALL_TASKS]
    figure = row.published.get("other") is not None
    if figure and row.other_task is None and len(others) > 1:
        raise UserError(
            f"table of paper '{spec['paper']}', row '{row.row}': variant '{row.variant}' is scored "
            f"on {' and '.join(others)}; say with 'other_task' which of them the figure 'other' is "
            "of"
        )
    other_task = row.other_task or (others[0] if figure and others else None)
    names = (*spec.get("tasks", OVERALL_TASKS), *RULES, DELTA_M)
    shown = {name: values[name].values() for name in names if name in values}
    unlabelled = NO_LABELS if row.split == "test" and on_dev else NOT_RUN
    lasts = {name: [s.last for s in of if s.last is not None] for name, of in shown.items()}
    keys = {t: {s.key for s in of.values()} for t, of in values.items() if t in TASKS}
    columns = {"other": other_task, "overall": spec["rule"]}
    given = {columns.get(name, name) for name, of in row.published.items() if of is not None}
    return Row(
        row,
        SCORED if shown.keys() & (given or shown) else unlabelled,
        other_task,
        {name: means[Of(row.variant, row.split, name)] for name in shown},
        n=len({seed for name in shown for seed in values[name]}),
        keys=tuple(sorted(set().union(*keys.values()))),
        remark=_choice(row.choice, keys) if row.choice and keys else "",
        last={name: fmean(of) for name, of in lasts.items() if of},
        standing={name: of for name, seeds in shown.items() if (of := standing(list(seeds)))},
        on_dev=tuple(on_dev),
    )


def _choice(choice: Mapping[str, str], keys: Mapping[str, set[str]]) -> str:
    """Say which variants the scores of a best-of row come from."""
    named = {t: "/".join(sorted({choice.get(k, k) for k in keys[t]})) for t in TASKS if t in keys}
    if len(set(named.values())) == 1:
        return f"here: {next(iter(named.values()))}"
    return "here: " + ", ".join(f"{TASKS[task].title} {name}" for task, name in named.items())
