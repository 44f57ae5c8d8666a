"""The two forms of a table that people read: markdown (aligned, for terminals too) and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import fmean
from typing import get_args

from minbert.evaluate import escape
from minbert.evaluate.statistics import Interval
from minbert.evaluate.table_rows import NO_LABELS, NOT_RUN, SCORED, Row
from minbert.evaluate.table_spec import TableSpec
from minbert.evaluate.write import markdown_table
from minbert.grid.tasks import TASKS
from minbert.scoring import OVERALL_TASKS, Rule

ABSENT = "—"
OWN_RULE = "†"
LAST = "last epoch"
_RULES = {
    "normalised": "the mean of SST accuracy, paraphrase accuracy and (STS r + 1) / 2",
    "plain": "the plain mean of SST accuracy, paraphrase accuracy and STS r",
}


def header(table: TableSpec, rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Return the columns as (group, heading); a group's columns stand side by side."""
    columns = [("", "Row"), ("", "Split")]
    for name in _names(rows):
        title = TASKS[name].title if name in TASKS else _other_title(rows)
        columns += [(title, "paper"), (title, "ours")]
    columns.append(("Overall", "paper"))
    columns += [("Overall", rule + OWN_RULE * (rule == table.rule)) for rule in get_args(Rule)]
    columns += [("Overall", LAST + OWN_RULE)] * _has_last(table, rows)
    return [*columns, ("", "n"), ("Parameters", "here"), ("Parameters", "BERT-base")]


def body(table: TableSpec, rows: Sequence[Row]) -> list[list[str]]:
    """Return the cells of every row as plain text, none of them empty."""
    lines = []
    notes = _marked_notes(rows)
    for row in rows:
        spec = row.spec
        mark = f" [{notes.index(_row_note(row)) + 1}]" if _row_note(row) else ""
        line = [spec.row + mark, spec.split]
        for name in _names(rows):
            line += [_number(getattr(spec.published, name)), _ours(row, name, _due(row, name))]
        line.append(_number(spec.published.overall))
        line += [_ours(row, rule, _due(row, "overall")) for rule in get_args(Rule)]
        line += [_number(row.last.get(table.rule))] * _has_last(table, rows)
        counts = (spec.parameters, spec.parameters_bert_base)
        lines.append([*line, str(row.n), *(_millions(count) for count in counts)])
    return lines


def remarks(table: TableSpec, rows: Sequence[Row]) -> list[str]:
    """Return the sentences under the table, as plain text, that say how to read it."""
    short = sum(row.n < table.seed_count for row in rows)
    seeds = f"Ours: mean ± half the width of the 95 % Student-t interval over n of {_count(table)}"
    if short:
        seeds += f" ({short} of {len(rows)} rows have fewer)"
    tasks = [TASKS[name] for name in OVERALL_TASKS]
    metrics = ", ".join(f"{t.title} {_metric(t.name)}" for t in tasks)
    return [
        f"{seeds}; one seed has no interval. Scores: {metrics}.",
        f"Overall: normalised is {_RULES['normalised']}; plain is {_RULES['plain']}; "
        f"{OWN_RULE} marks the paper's own rule, which its published overall follows.",
        *_selection(rows),
        f"Backbone: {table.backbone}. Data: {table.data}. "
        f"{ABSENT}: not published, or not a task of the row.",
    ]


def _has_last(table: TableSpec, rows: Sequence[Row]) -> bool:
    return any(table.rule in row.last for row in rows)


def _selection(rows: Sequence[Row]) -> list[str]:
    """Say that dev chose the epochs, and by how much their scores exceed the last epochs'."""
    gains: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.last.items():
            if name in OVERALL_TASKS:
                gains.setdefault(TASKS[name].title, []).append(row.scores[name].mean - value)
    if not gains:
        return []
    said = ", ".join(f"{title} {fmean(of):+.3f}" for title, of in gains.items())
    return [
        "Selected on dev: our figures are those of each run's best epoch by its dev score. Less "
        f"those of the last epoch, on average over the rows: {said}; every row in the csv."
    ]


def sections(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Return (heading, rows) for each table of the paper, by number, and for what is in none."""
    found: dict[str | None, list[Row]] = {}
    for row in rows:
        found.setdefault(row.spec.table, []).append(row)
    extra = found.pop(None, [])
    ordered = sorted(found, key=lambda t: (not str(t).isdigit(), f"{t:>4}"))
    named = [("In the text" if t == "text" else f"Table {t}", found[t]) for t in ordered]
    return [*named, ("Not in the paper", extra)] if extra and named else named or [("", list(rows))]


def to_markdown(table: TableSpec, rows: Sequence[Row]) -> str:
    """Return the table as markdown with aligned columns, so that it reads well unrendered.

    Each of the paper's tables is a section; what holds for all stands at the end.
    """
    parts = [f"# {escape.markdown(table.title)}", escape.markdown(table.caption)]
    for heading, of_section in sections(rows):
        parts += [f"## {heading}" if heading else "", _markdown(table, of_section)]
        parts += [escape.markdown(note) for note in numbered(of_section)]
    said = [*remarks(table, rows), *table.footnotes]
    parts += ["## How to read this" if len(sections(rows)) > 1 else ""]
    parts += [escape.markdown(text) for text in said]
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown(table: TableSpec, rows: Sequence[Row]) -> str:
    heads = [" ".join(part for part in column if part) for column in header(table, rows)]
    return markdown_table([heads, *body(table, rows)], left=2)


def to_latex(table: TableSpec, rows: Sequence[Row]) -> str:
    """Return LaTeX floats over both columns, one a table of the paper.

    They need the package booktabs.
    """
    return "\n".join(_float(table, heading, of) for heading, of in sections(rows))


def _float(table: TableSpec, heading: str, rows: Sequence[Row]) -> str:
    columns = header(table, rows)
    said = [*remarks(table, rows), *numbered(rows), *table.footnotes]
    title = f"{table.title}, {heading}" if heading else table.title
    name = f"{table.paper} {heading}".strip()
    groups = [group for group, _ in columns]
    top, rules = [], []
    start = 0
    while start < len(groups):
        end = start + 1
        while groups[start] and end < len(groups) and groups[end] == groups[start]:
            end += 1
        label = escape.latex(groups[start])
        if label:
            top.append(rf"\multicolumn{{{end - start}}}{{c}}{{{label}}}")
            rules.append(rf"\cmidrule(lr){{{start + 1}-{end}}}")
        else:
            top.append("")
        start = end
    lines = [
        r"\begin{table*}[t]",
        r"\centering\scriptsize\setlength{\tabcolsep}{3pt}",
        rf"\caption{{{escape.latex(f'{title}. {table.caption}'.strip())}}}",
        rf"\label{{tab:{escape.label(name)}}}",
        rf"\begin{{tabular}}{{ll{'r' * (len(columns) - 2)}}}",
        r"\toprule",
        " & ".join(top) + r" \\",
        "".join(rules),
        _latex_line([heading for _, heading in columns]),
        r"\midrule",
        *(_latex_line(line) for line in body(table, rows)),
        r"\bottomrule",
        r"\end{tabular}",
        r"\par\medskip\raggedright",
        *(escape.latex(remark) + r"\par" for remark in said),
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def _latex_line(cells: Sequence[str]) -> str:
    text = [re.sub(r"^-(?=\d)", "$-$", escape.latex(cell)) for cell in cells]
    return " & ".join(text) + r" \\"


def _names(rows: Sequence[Row]) -> list[str]:
    """Return the score columns: `other` only where a row has such a figure."""
    has_other = any(row.spec.published.other is not None or "other" in row.scores for row in rows)
    return [*OVERALL_TASKS, *["other"] * has_other]


def _other_title(rows: Sequence[Row]) -> str:
    titles = {TASKS[row.other_task].title for row in rows if row.other_task in TASKS}
    return " / ".join(sorted(titles)) or "Other"


def _metric(task: str) -> str:
    return {"accuracy": "accuracy", "pearson": "Pearson r"}[TASKS[task].metric]


def _due(row: Row, name: str) -> bool:
    """Return whether a figure of ours belongs here: one is published, or none in the whole row."""
    published = row.spec.published.model_dump()
    return published[name] is not None or not any(v is not None for v in published.values())


def _ours(row: Row, name: str, due: bool) -> str:
    value: Interval | None = row.scores.get(name)
    if value is None:
        return (NOT_RUN if row.status == SCORED else row.status) if due else ABSENT
    fewer = f" (n = {value.n})" if value.n != row.n else ""
    return f"{value.in_words()}{fewer}"


def _number(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.3f}"


def _millions(count: int | None) -> str:
    return "not counted" if count is None else f"{count / 1e6:.2f} M"


def _count(table: TableSpec) -> str:
    return f"{table.seed_count} seed{'s' * (table.seed_count != 1)}"


def numbered(rows: Sequence[Row]) -> list[str]:
    """Return the notes that the rows' marks, [1] and so on, stand for."""
    return [f"[{number}] {note}" for number, note in enumerate(_marked_notes(rows), start=1)]


def _row_note(row: Row) -> str:
    """Return the row's note and, where it could not be scored, the reason."""
    reason = row.spec.reason if row.status == NO_LABELS else None
    return "; ".join(part for part in (row.spec.note, reason, row.remark) if part)


def _marked_notes(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(note for row in rows if (note := _row_note(row))))
