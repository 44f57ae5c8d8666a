"""A paper's table, published figures beside ours: csv, markdown and LaTeX."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from minbert.base.files import write_text
from minbert.evaluate.gain import DELTA_M
from minbert.evaluate.statistics import Interval
from minbert.evaluate.table_notes import FLOOR, OWN_RULE, remarks
from minbert.evaluate.table_rows import NO_LABELS, NOT_RUN, SCORED, Row, Table, read_table
from minbert.evaluate.text import ABSENT, csv_text, latex, latex_float, markdown, markdown_table
from minbert.spec.protocol import RULES
from minbert.spec.task import TASKS
from minbert.store.job import Job


def make(job: Job) -> None:
    """Make a paper's table from its scores."""
    failures = job.failed(job.spec["paper"])
    tuning = job.need("tuning") if "tuning" in job.described["needs"] else None
    write_table(read_table(job.spec, job.need("scores"), failures, tuning), job.out)


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
    spec = row.spec
    line: dict[str, Any] = {"paper": table.paper}
    line |= {name: getattr(spec, name) for name in ("table", "row", "variant", "split")}
    line |= {"status": row.status, "seeds": row.n, "other_task": row.other_task}
    for name in table.tasks:
        line |= {f"{name}_published": row.figure(name)} | _csv_scores(row, name, name)
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
        or any(name in row.scores or row.figure(name) is not None for row in rows)
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
            of = [_number(row.figure(name)), _ours(table, row, name)]
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


def _ours(table: Table, row: Row, name: str) -> str:
    """Return a score of ours as a cell: of a task, or by an overall rule.

    If there is none, the cell says why if a figure is due: the paper gives it, or it gives none in
    the row and the variant has the task, or for an overall score all of its tasks.
    """
    value = row.scores.get(name)
    if value is None:
        given = row.spec.published.get("overall") if name in RULES else row.figure(name)
        needed = table.overall_tasks if name in RULES else (name,)
        has = row.spec.tasks is None or set(needed) <= set(row.spec.tasks)
        free = not any(row.gives(n) for n in row.spec.published)
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
