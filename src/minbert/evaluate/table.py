"""A paper's table, published figures beside ours: csv, markdown and LaTeX."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from minbert.base.errors import UserError
from minbert.base.files import write_text
from minbert.evaluate.gain import DELTA_M
from minbert.evaluate.marks import MEANING, Standing, guesses, standing
from minbert.evaluate.reading import Score, read_scores, score_title
from minbert.evaluate.scoring import CORRELATIONS
from minbert.evaluate.selected import FAVOURED
from minbert.evaluate.statistics import Interval, interval
from minbert.evaluate.text import ABSENT, csv_text, latex, latex_float, markdown, markdown_table
from minbert.evaluate.tuning import Tuned, read_tuning
from minbert.spec.protocol import OVERALL_TASKS, RULES
from minbert.spec.task import TASKS
from minbert.store.job import Job

SCORED, NOT_RUN, NO_LABELS, FAILED = "scored", "not run", "no labels", "failed"
OWN_RULE = "†"
FLOOR = "Floor"


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


Values = dict[str, dict[int, Score]]
"""Scores by measure and seed, of one variant and split."""


class Table(NamedTuple):
    """A table. `rule` is the paper's own overall score; `seeds` are those that were asked for.

    It has columns for each of `tasks`; the overall score is that of `overall_tasks`. `single` is
    the label of the variant that the gain `delta_m` is over, if the paper has one, and `select_on`
    says what chose the epochs (`selected.FAVOURED`).
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
    select_on: str = "dev"
    tasks: Sequence[str] = OVERALL_TASKS
    overall_tasks: Sequence[str] = OVERALL_TASKS

    @property
    def has_published(self) -> bool:
        """Whether a row has a published figure."""
        return any(_published(row, name) for row in self.rows for name in row.spec.published)


def make(job: Job) -> None:
    """Make a paper's table from its scores."""
    failures = job.failed(job.spec["paper"])
    tuning = job.need("tuning") if "tuning" in job.described["needs"] else None
    write_table(read_table(job.spec, job.need("scores"), failures, tuning), job.out)


def read_table(
    spec: Mapping[str, Any],
    scores: Path,
    failures: Mapping[str, str],
    tuning: Path | None = None,
) -> Table:
    """Return the table of a node's `spec`, with what the score table at `scores` has of its rows.

    `tuning` is where the choices of tuned rows are, if the paper has any.

    A row without scores is `not run`; `failed` if `failures`, {variant: why}, names its variant, or
    one of the settings that it tried; or `no labels` if it is a test row whose labels are not
    public.
    """
    found: dict[tuple[str, str], Values] = {}
    for of, by_seed in read_scores(scores, spec["paper"]).items():
        found.setdefault((of.variant, of.split), {})[of.measure] = by_seed
    tuned = read_tuning(tuning) if tuning else {}
    rows = []
    for row in (TableRow(**each) for each in spec["rows"]):
        values = found.get((row.variant, row.split), {})
        made = _row(spec, row, values, found.get((row.variant, "dev"), {}))
        made = made._replace(tuned=tuned.get(row.variant))
        trained = [row.variant, *(made.tuned.candidates if made.tuned else ())]
        why = next((failures[name] for name in trained if name in failures), None)
        if made.status == NOT_RUN and why is not None:
            made = made._replace(status=FAILED, remark=why)
        rows.append(made)
    known = {name: value for name, value in spec.items() if name in Table._fields}
    return Table(**{**known, "rows": rows})


def _row(spec: Mapping[str, Any], row: TableRow, values: Values, on_dev: Values) -> Row:
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
    return Row(
        row,
        SCORED if shown else unlabelled,
        other_task,
        {name: _interval(list(of)) for name, of in shown.items()},
        n=len({seed for name in shown for seed in values[name]}),
        keys=tuple(sorted(set().union(*keys.values()))),
        remark=_choice(row.choice, keys) if row.choice and keys else "",
        last={name: fmean(of) for name, of in lasts.items() if of},
        standing={name: of for name, seeds in shown.items() if (of := standing(list(seeds)))},
        on_dev=tuple(on_dev),
    )


def _interval(seeds: Sequence[Score]) -> Interval:
    """Return the mean over seeds with its interval; of one seed, that over examples."""
    return interval([score.value for score in seeds], seeds[0].error)


def _choice(choice: Mapping[str, str], keys: Mapping[str, set[str]]) -> str:
    """Say which variants the scores of a best-of row come from."""
    named = {t: "/".join(sorted({choice.get(k, k) for k in keys[t]})) for t in TASKS if t in keys}
    if len(set(named.values())) == 1:
        return f"here: {next(iter(named.values()))}"
    return "here: " + ", ".join(f"{TASKS[task].title} {name}" for task, name in named.items())


def write_table(table: Table, folder: Path) -> None:
    """Write `table.csv`, `table.md` and `table.tex` in `folder`.

    The csv has every number unrounded and in a column of its own: `sst_published`, `sst_mean`,
    `sst_low`, `sst_high`, `sst_n`, `sst_last` (the mean after the last epoch) and so on;
    those of `delta_m` are in per cent. `sst_floor` is what takes no learning, `sst_above` and
    `sst_constant` how many seeds are above it and how many predict one class. A cell is empty if
    there is no number: `status` says why. A paper with tuned rows has their `settings`, and the
    training runs that this took, `runs_done` of `runs_wanted`.
    """
    lines = [_csv_line(table, row) for row in table.rows]
    write_text(folder / "table.csv", csv_text(list(lines[0]) if lines else [], lines))
    write_text(folder / "table.md", _to_markdown(table))
    write_text(folder / "table.tex", _to_latex(table))


def _csv_line(table: Table, row: Row) -> dict[str, Any]:
    spec = row.spec
    line: dict[str, Any] = {"paper": table.paper}
    line |= {name: getattr(spec, name) for name in ("table", "row", "variant", "split")}
    line |= {"status": row.status, "seeds": row.n, "other_task": row.other_task}
    for name in table.tasks:
        line |= {f"{name}_published": _figure(row, name)} | _csv_scores(row, name, name)
    line |= {"overall_published": spec.published.get("overall"), "overall_rule": table.rule}
    for rule in RULES:
        line |= _csv_scores(row, rule, f"overall_{rule}")
    line |= _csv_scores(row, DELTA_M, DELTA_M)
    line |= {"parameters": spec.parameters, "parameters_bert_base": spec.parameters_bert_base}
    if any(row.tuned for row in table.rows):
        line |= {"settings": row.tuned.settings if row.tuned else None}
        line |= {f"runs_{n}": getattr(row.tuned, n, None) for n in ("done", "wanted")}
    line |= {"backbone": table.backbone, "data": table.data}
    return line | {"note": spec.note, "reason": row.remark, "keys": " ".join(row.keys)}


def _csv_scores(row: Row, name: str, column: str) -> dict[str, float | None]:
    value, stands = row.scores.get(name), row.standing.get(name)
    parts = value._asdict() if value else dict.fromkeys(Interval._fields)
    parts |= {"last": row.last.get(name)}
    if name != DELTA_M:
        parts |= {"floor": stands.floor if stands else None}
    if name not in (*RULES, DELTA_M):
        parts |= {n: getattr(stands, n) if stands else None for n in ("above", "constant")}
    return {f"{column}_{part}": of for part, of in parts.items()}


class Section(NamedTuple):
    """One of the paper's own tables as plain text.

    `columns` are (group, heading), a group's columns side by side; `lines` are the cells of
    `rows`, none of them empty; `floors` has a line for each split, above them; `notes` explain
    the marks [1] and so on.
    """

    heading: str
    rows: Sequence[Row]
    columns: list[tuple[str, str]]
    floors: list[list[str]]
    lines: list[list[str]]
    notes: list[str]

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Each group of columns and how many it has."""
        return [(name, len(list(of))) for name, of in groupby(name for name, _ in self.columns)]


def sections(table: Table) -> list[Section]:
    """Return a section for each of the paper's own tables, then one for rows in none of them."""
    found: dict[str | None, list[Row]] = {}
    for row in table.rows:
        found.setdefault(row.spec.table, []).append(row)
    extra = found.pop(None, [])
    ordered = sorted(found, key=lambda t: (not str(t).isdigit(), f"{t:>4}"))
    named = [("In the text" if t == "text" else f"Table {t}", found[t]) for t in ordered]
    if extra or not named:
        named.append(("Not in the paper" if named else "", extra))
    return [_section(table, heading, rows) for heading, rows in named]


def _section(table: Table, heading: str, rows: Sequence[Row]) -> Section:
    notes = list(dict.fromkeys(note for row in rows if (note := _note(row))))
    names = [
        name
        for name in table.tasks
        if name in table.overall_tasks
        or any(name in row.scores or _figure(row, name) is not None for row in rows)
    ]
    sides = ("paper", "ours") if table.has_published else ("ours",)
    has_last = any(table.rule in row.last for row in rows)
    has_gain = any(DELTA_M in row.scores for row in rows)
    columns = [("", "Row"), ("", "Split")]
    columns += [(TASKS[name].title, side) for name in names for side in sides]
    columns += [("Overall", side) for side in sides[:-1]]
    columns += [("Overall", rule + OWN_RULE * (rule == table.rule)) for rule in RULES]
    before = [None] * (len(sides) - 1)
    ours = [None, None, *(of for name in names for of in (*before, name)), *before, *RULES]
    columns += [("Overall", "last epoch" + OWN_RULE)] * has_last
    columns += [("", "Δm (%)")] * has_gain
    has_tuned = any(row.tuned for row in rows)
    columns += [("", "n"), ("Parameters", "here"), ("Parameters", "BERT-base")]
    columns += [("Tuned", "settings"), ("Tuned", "budget")] * has_tuned
    lines = []
    for row in rows:
        spec = row.spec
        mark = f" [{notes.index(_note(row)) + 1}]" if _note(row) else ""
        line = [spec.row + mark, spec.split]
        for name in names:
            of = [_number(_figure(row, name)), _ours(table, row, name)]
            line += of[-len(sides) :]
        line += [_number(spec.published.get("overall"))] * (len(sides) - 1)
        line += [_ours(table, row, rule) for rule in RULES]
        line += [_number(row.last.get(table.rule))] * has_last
        line += [_gain(row)] * has_gain
        counts = (spec.parameters, spec.parameters_bert_base)
        said = ("not counted" if count is None else f"{count / 1e6:.2f} M" for count in counts)
        tuned = [row.tuned.settings or ABSENT, row.tuned.runs] if row.tuned else [ABSENT] * 2
        lines.append([*line, str(row.n), *said, *tuned * has_tuned])
    numbered = [f"[{number}] {note}" for number, note in enumerate(notes, start=1)]
    return Section(heading, rows, columns, _floors(rows, ours, len(columns)), lines, numbered)


def _floors(rows: Sequence[Row], ours: Sequence[str | None], width: int) -> list[list[str]]:
    """Return a line of floors for each split; `ours` names the scores of the first columns."""
    lines = []
    for split in dict.fromkeys(row.spec.split for row in rows):
        found: dict[str | None, set[float]] = {}
        for row in rows:
            for name, of in row.standing.items():
                if row.spec.split == split:
                    found.setdefault(name, set()).add(of.floor)
        # Rows with other tasks of their own have other floors.
        one = {name: next(iter(of)) for name, of in found.items() if len(of) == 1}
        cells = [_number(one.get(name)) for name in ours] + [ABSENT] * (width - len(ours))
        if one:
            lines.append([FLOOR, split, *cells[2:]])
    return lines


def remarks(table: Table, rows: Sequence[Row]) -> list[str]:
    """Return the sentences under `rows` of the table that say how to read it, as plain text."""
    count, short = len(table.seeds), sum(row.n < len(table.seeds) for row in rows)
    alone = "over the split's examples, which says nothing about how another run would score"
    if count == 1:
        ours = f"Ours: the score of one run ± half the width of its 95 % interval {alone}."
    else:
        fewer = f" ({short} of {len(rows)} rows have fewer)" if short else ""
        ours = "Ours: mean ± half the width of the 95 % Student-t interval over n of "
        ours += f"{count} seeds{fewer}; with one seed, {alone}."
    metrics = ", ".join(map(score_title, table.tasks))
    follows = ", which its published overall follows" if table.has_published else ""
    return [
        f"{ours} Scores: {metrics}.",
        f"{FLOOR}: the score without learning. {MEANING}{guesses(table.tasks)}",
        f"Overall: normalised is the mean of {_listed(map(_as_normalised, table.overall_tasks))}; "
        f"plain is the plain mean of {_listed(map(score_title, table.overall_tasks))}; "
        f"{OWN_RULE} marks the paper's own rule{follows}.",
        *_selection(table, rows),
        *_relative(table, rows),
        *_tuned(table, rows),
        f"Backbone: {table.backbone}. Data: {table.data}{_own_files(table.tasks)}. "
        f"{ABSENT}: not published, or not a task of the row.",
    ]


def _own_files(tasks: Sequence[str]) -> str:
    """Say which tasks have data of one's own, if any."""
    own = [TASKS[task].title for task in tasks if task not in TASKS.built_in]
    return f"; own files: {_listed(own)}" if own else ""


def _as_normalised(task: str) -> str:
    """Return how a task counts in a normalised overall score, in words."""
    said = score_title(task)
    return f"({said} + 1) / 2" if TASKS[task].metric in CORRELATIONS else said


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _selection(table: Table, rows: Sequence[Row]) -> list[str]:
    """Say what chose the epochs; if dev did, by how much their scores exceed the last epochs'."""
    if table.select_on != "dev":
        return [f"{FAVOURED[table.select_on]}."]
    gains: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.last.items():
            if name in table.overall_tasks:
                gains.setdefault(TASKS[name].title, []).append(row.scores[name].mean - value)
    if not gains:
        return []
    said = ", ".join(f"{title} {fmean(of):+.3f}" for title, of in gains.items())
    return [
        "Selected on dev: our figures are from the epoch of each run with the best dev score. Best "
        f"minus last epoch, averaged over the rows: {said}; the csv has every row."
    ]


def _tuned(table: Table, rows: Sequence[Row]) -> list[str]:
    """Say how the settings of tuned rows were chosen, if there are any."""
    if not any(row.tuned for row in rows):
        return []
    return [
        "Tuned: of the settings listed in the grid, the one with the best overall score, averaged "
        "over the seeds, on the half of dev that also chose the epochs; its scores here are on the "
        "other half, or on test. Budget: the training runs of all settings and seeds. Settings are "
        "as in the grid, before 'scale' in the configuration applies; "
        f"tables/{table.paper}.tuning.md lists all that were tried."
    ]


def _relative(table: Table, rows: Sequence[Row]) -> list[str]:
    """Say what delta_m is the gain over, if a row has one."""
    if not any(DELTA_M in row.scores for row in rows):
        return []
    titles = ", ".join(TASKS[name].title for name in table.overall_tasks)
    return [
        f"Δm: the gain over '{table.single}', which trains each task alone, with the same seed: "
        f"the mean over {titles} of (score - single) / single, in per cent (Maninis et al. 2019). "
        f"It is 0 for '{table.single}' itself, and {ABSENT} where a task has no score or its "
        "single score is not above 0."
    ]


def _to_markdown(table: Table) -> str:
    """Return the table as markdown, a section for each of the paper's own tables."""
    parts = [f"# {markdown(table.title)}", markdown(table.caption)]
    found = sections(table)
    for section in found:
        heads = [" ".join(filter(None, column)) for column in section.columns]
        parts += [f"## {section.heading}" if section.heading else ""]
        parts += [
            markdown_table([heads, *section.floors, *section.lines], left=2),
            *map(markdown, section.notes),
        ]
    parts += ["## How to read this" if len(found) > 1 else ""]
    parts += map(markdown, [*remarks(table, table.rows), *table.footnotes])
    return "\n\n".join(filter(None, parts)) + "\n"


def _to_latex(table: Table) -> str:
    """Return a LaTeX float for each of the paper's tables."""
    floats = []
    for section in sections(table):
        title = f"{table.title}, {section.heading}" if section.heading else table.title
        top, rules, start = [], "", 1
        for group, width in section.groups:
            if group:
                top.append(rf"\multicolumn{{{width}}}{{c}}{{{latex(group)}}}")
                rules += rf"\cmidrule(lr){{{start}-{start + width - 1}}}"
            else:
                top += [""] * width
            start += width
        name = f"{table.paper} {section.heading}".strip()
        caption = f"{title}. {table.caption}".strip()
        columns = "ll" + "r" * (len(section.columns) - 2)
        heads = [heading for _, heading in section.columns]
        rows = [heads, *section.floors, *section.lines]
        notes = [*remarks(table, section.rows), *section.notes, *table.footnotes]
        above = [" & ".join(top) + r" \\", rules]
        floats.append(latex_float(name, caption, columns, rows, notes, above))
    return "\n".join(floats)


def _published(row: Row, name: str) -> bool:
    return row.spec.published.get(name) is not None


def _figure(row: Row, task: str) -> float | None:
    """Return the published figure of a task."""
    name = task if task in OVERALL_TASKS else "other" if task == row.other_task else ""
    return row.spec.published.get(name)


def _ours(table: Table, row: Row, name: str) -> str:
    """Return a score of ours as a cell: of a task, or by an overall rule.

    If there is none, the cell says why if a figure is due: the paper gives it, or it gives none in
    the row and the variant has the task, or for an overall score all of its tasks.
    """
    value = row.scores.get(name)
    if value is None:
        given = row.spec.published.get("overall") if name in RULES else _figure(row, name)
        needed = table.overall_tasks if name in RULES else (name,)
        has = row.spec.tasks is None or set(needed) <= set(row.spec.tasks)
        free = not any(_published(row, n) for n in row.spec.published)
        due = given is not None or (free and has)
        if not due:
            return ABSENT
        if row.status != SCORED:
            return row.status
        return NO_LABELS if row.spec.split == "test" and name in row.on_dev else NOT_RUN
    marks = row.standing[name].marks if name in row.standing else ""
    return value.in_words() + marks + _fewer(row, value)


def _gain(row: Row) -> str:
    """Return delta_m as a cell, in per cent."""
    value = row.scores.get(DELTA_M)
    return ABSENT if value is None else value.in_words(2, "+") + _fewer(row, value)


def _fewer(row: Row, value: Interval) -> str:
    """Return the number of seeds if it is not the row's."""
    return f" (n = {value.n})" if value.n != row.n else ""


def _note(row: Row) -> str:
    return "; ".join(filter(None, (row.spec.note, row.remark)))


def _number(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.3f}"
