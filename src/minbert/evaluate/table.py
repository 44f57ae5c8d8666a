"""A paper's table, published figures beside ours: csv, markdown and LaTeX."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from minbert.base.files import write_text
from minbert.evaluate.marks import marks
from minbert.evaluate.reading import DELTA_M
from minbert.evaluate.statistics import Interval
from minbert.evaluate.table_notes import FLOOR, OWN_RULE, remarks
from minbert.evaluate.table_rows import NO_LABELS, NOT_RUN, SCORED, Row, Table, table_of
from minbert.evaluate.text import ABSENT, csv_text, latex, latex_float, markdown, markdown_table
from minbert.spec.protocol import RULES
from minbert.spec.task import TASKS
from minbert.store.job import Job


def make(job: Job) -> None:
    """Make a paper's table from its scores."""
    write_table(table_of(job, job.spec), job.out)


def write_table(table: Table, folder: Path) -> None:
    """Write `table.csv`, `table.md` and `table.tex` in `folder`.

    The csv has each number in a column, with 8 significant digits: `sst_published`, `sst_mean`,
    `sst_low`, `sst_high`, `sst_n`, `sst_sd` (the standard deviation over the row's own seeds),
    `sst_last` (the mean after the last epoch) and so on; those of `delta_m` are in per cent.
    `sst_floor` is what takes no learning, `sst_above` and `sst_constant` how many seeds are above
    it and how many predict one class. A cell is empty if there is no number: `status` says why. A
    paper with tuned rows has their `settings`, and the training runs that this took, `runs_done` of
    `runs_wanted`.
    """
    lines = [_csv_line(table, row) for row in table.rows]
    write_text(folder / "table.csv", csv_text(list(lines[0]) if lines else [], lines))
    write_text(folder / "table.md", _to_markdown(table))
    write_text(folder / "table.tex", _to_latex(table))


def _csv_line(table: Table, row: Row) -> dict[str, Any]:
    line: dict[str, Any] = {"paper": table.paper}
    line |= {name: getattr(row, name) for name in ("table", "row", "variant", "split", "status")}
    line |= {"seeds": row.n, "other_task": row.other_task}
    for name in table.tasks:
        line |= {f"{name}_published": row.figure(name)} | _csv_scores(row, name, name)
    line |= {"overall_published": row.figure(table.rule), "overall_rule": table.rule}
    for rule in RULES:
        line |= _csv_scores(row, rule, f"overall_{rule}")
    line |= _csv_scores(row, DELTA_M, DELTA_M)
    line |= {name: getattr(row, name) for name in ("parameters", "parameters_bert_base")}
    if any(row.tuned for row in table.rows):
        line |= {"settings": row.tuned.settings if row.tuned else None}
        line |= {f"runs_{n}": getattr(row.tuned, n, None) for n in ("done", "wanted")}
    line |= {"backbone": table.backbone, "data": table.data}
    return line | {"note": row.note, "reason": row.remark, "keys": " ".join(row.keys)}


def _csv_scores(row: Row, name: str, column: str) -> dict[str, float | None]:
    parts = ["mean", "low", "high", "n", "sd", "last"] + ["floor"] * (name != DELTA_M)
    parts += ["above", "constant"] * (name in TASKS)
    return {f"{column}_{part}": getattr(row.scores.get(name), part, None) for part in parts}


class Column(NamedTuple):
    """A column: its heading, below that of its group, and what it says of a row.

    `score` names the score whose floor stands above the rows, if it is one of ours.
    """

    group: str
    heading: str
    cell: Callable[[Row], str]
    score: str = ""


class Section(NamedTuple):
    """One of the paper's own tables as plain text.

    A group's `columns` are side by side; `lines` are the cells of `rows`, none of them empty;
    `floors` has a line for each split, above them; `notes` explain the marks [1] and so on.
    """

    heading: str
    rows: Sequence[Row]
    columns: list[Column]
    floors: list[list[str]]
    lines: list[list[str]]
    notes: list[str]

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Each group of columns and how many it has."""
        return [(name, len(list(of))) for name, of in groupby(each.group for each in self.columns)]


def sections(table: Table) -> list[Section]:
    """Return a section for each of the paper's own tables, then one for rows in none of them."""
    found: dict[str | None, list[Row]] = {}
    for row in table.rows:
        found.setdefault(row.table, []).append(row)
    extra = found.pop(None, [])
    ordered = sorted(found, key=lambda t: (not str(t).isdigit(), f"{t:>4}"))
    named = [("In the text" if t == "text" else f"Table {t}", found[t]) for t in ordered]
    if extra or not named:
        named.append(("Not in the paper" if named else "", extra))
    return [_section(table, heading, rows) for heading, rows in named]


def _section(table: Table, heading: str, rows: Sequence[Row]) -> Section:
    notes = list(dict.fromkeys(note for row in rows if (note := _note(row))))
    columns = list(_columns(table, rows, notes))
    lines = [[column.cell(row) for column in columns] for row in rows]
    numbered = [f"[{number}] {note}" for number, note in enumerate(notes, start=1)]
    return Section(heading, rows, columns, _floors(rows, columns[2:]), lines, numbered)


def _columns(table: Table, rows: Sequence[Row], notes: Sequence[str]) -> Iterator[Column]:
    def label(row: Row) -> str:
        return row.row + (f" [{notes.index(_note(row)) + 1}]" if _note(row) else "")

    def pair(title: str, measures: Mapping[str, str], figure: str) -> Iterator[Column]:
        """Yield the column of the published `figure`, if there are any, and those of ours."""
        if table.has_published:
            yield Column(title, "paper", lambda row: _number(row.figure(figure)))
        for measure, said in measures.items():
            yield Column(title, said, partial(_ours, table, measure), measure)

    yield Column("", "Row", label)
    yield Column("", "Split", lambda row: row.split)
    for name in table.tasks:
        has = any(name in row.scores or row.figure(name) is not None for row in rows)
        if has or name in table.overall_tasks:
            yield from pair(TASKS[name].title, {name: "ours"}, name)
    own_rule: dict[str, str] = {rule: rule + OWN_RULE * (rule == table.rule) for rule in RULES}
    yield from pair("Overall", own_rule, table.rule)
    if any(_last(table, row) is not None for row in rows):
        yield Column("Overall", "last epoch" + OWN_RULE, lambda row: _number(_last(table, row)))
    if any(DELTA_M in row.scores for row in rows):
        yield Column("", "Δm (%)", _gain)
    yield Column("", "n", lambda row: str(row.n))
    yield Column("Parameters", "here", lambda row: _millions(row.parameters))
    yield Column("Parameters", "BERT-base", lambda row: _millions(row.parameters_bert_base))
    if any(row.tuned for row in rows):
        yield Column("Tuned", "settings", lambda row: (row.tuned and row.tuned.settings) or ABSENT)
        yield Column("Tuned", "budget", lambda row: row.tuned.runs if row.tuned else ABSENT)


def _floors(rows: Sequence[Row], columns: Sequence[Column]) -> list[list[str]]:
    """Return a line of floors for each split; of rows that share one."""
    lines = []
    for split in dict.fromkeys(row.split for row in rows):
        of_rows = [row.scores for row in rows if row.split == split]
        cells = []
        for column in columns:
            found = {of[column.score].floor for of in of_rows if column.score in of} - {None}
            # Rows with other tasks of their own have other floors.
            cells.append(_number(found.pop() if len(found) == 1 else None))
        if set(cells) != {ABSENT}:
            lines.append([FLOOR, split, *cells])
    return lines


def _to_markdown(table: Table) -> str:
    """Return the table as markdown, a section for each of the paper's own tables."""
    parts = [f"# {markdown(table.title)}", markdown(table.caption)]
    found = sections(table)
    for section in found:
        heads = [" ".join(filter(None, column[:2])) for column in section.columns]
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
        heads = [column.heading for column in section.columns]
        rows = [heads, *section.floors, *section.lines]
        notes = [*remarks(table, section.rows), *section.notes, *table.footnotes]
        above = [" & ".join(top) + r" \\", rules]
        floats.append(latex_float(name, caption, columns, rows, notes, above))
    return "\n".join(floats)


def _ours(table: Table, name: str, row: Row) -> str:
    """Return a score of ours as a cell: of a task, or by an overall rule.

    If there is none, the cell says why if a figure is due: the paper gives it, or it gives none in
    the row and the variant has the task, or for an overall score all of its tasks.
    """
    value = row.scores.get(name)
    if value is None:
        needed = table.overall_tasks if name in RULES else (name,)
        has = set(needed) <= set(row.tasks)
        if row.figure(name) is None and (row.given or not has):
            return ABSENT
        if row.status != SCORED:
            return row.status
        return NO_LABELS if row.split == "test" and name in row.on_dev else NOT_RUN
    return value.in_words() + marks(value) + _fewer(row, value)


def _gain(row: Row) -> str:
    """Return delta_m as a cell, in per cent."""
    value = row.scores.get(DELTA_M)
    return ABSENT if value is None else value.in_words(2, "+") + _fewer(row, value)


def _fewer(row: Row, value: Interval) -> str:
    """Return the number of seeds if it is not the row's."""
    return f" (n = {value.n})" if value.n != row.n else ""


def _last(table: Table, row: Row) -> float | None:
    return row.scores[table.rule].last if table.rule in row.scores else None


def _note(row: Row) -> str:
    return "; ".join(filter(None, (row.note, row.remark)))


def _number(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.3f}"


def _millions(count: int | None) -> str:
    return "not counted" if count is None else f"{count / 1e6:.2f} M"
