"""A paper's table, published figures beside ours: csv, markdown and LaTeX."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from minbert.base.files import write_text
from minbert.evaluate.reading import DELTA_M
from minbert.evaluate.statistics import Interval
from minbert.evaluate.table_notes import FLOOR, OWN_RULE, has_published, marks, remarks
from minbert.evaluate.table_rows import NO_LABELS, NOT_RUN, PARTS, SCORED, table_rows
from minbert.evaluate.text import (
    ABSENT,
    Line,
    csv_text,
    latex_float,
    markdown,
    markdown_table,
)
from minbert.spec.protocol import RULES
from minbert.spec.task import TASKS
from minbert.store.job import Job

Head = tuple[str, str]
"""What a column is called: its group, of columns side by side, and its own heading below that."""


class Section(NamedTuple):
    """One of the paper's own tables as plain text.

    `lines` are the cells of `rows`, none of them empty; `floors` has a line for each split, above
    them; `notes` explain the marks [1] and so on.
    """

    heading: str
    rows: Sequence[Line]
    heads: Sequence[Head]
    floors: Sequence[Sequence[str]]
    lines: Sequence[Sequence[str]]
    notes: Sequence[str]

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Each group of columns and how many it has."""
        return [(name, len(list(of))) for name, of in groupby(self.heads, itemgetter(0))]


def make(job: Job) -> None:
    """Make a paper's table from its scores: `table.csv`, `table.md` and `table.tex`.

    The csv has each number in a column, with 8 significant digits: `sst_published`, `sst_mean`,
    `sst_low`, `sst_high`, `sst_n`, `sst_sd` (the standard deviation over the row's own seeds),
    `sst_last` (the mean after the last epoch) and so on; those of `delta_m` are in per cent.
    `sst_floor` is what takes no learning, `sst_above` and `sst_constant` how many seeds are above
    it and how many predict one class. A cell is empty if there is no number: `status` says why. A
    paper with tuned rows has their `settings`, and the training runs that this took, `runs_done` of
    `runs_wanted`.
    """
    about, rows = job.spec, table_rows(job, job.spec)
    columns = ["paper", "table", "row", "variant", "split", "status", "seeds", "other_task"]
    columns += [f"{task}_{part}" for task in about["tasks"] for part in ("published", *PARTS)]
    columns += ["overall_published", "overall_rule"]
    columns += [f"overall_{rule}_{part}" for rule in RULES for part in PARTS[:7]]
    columns += [f"{DELTA_M}_{part}" for part in PARTS[:6]]
    columns += ["parameters", "parameters_bert_base"]
    columns += ["settings", "runs_done", "runs_wanted"] * any("settings" in row for row in rows)
    columns += ["backbone", "data", "note", "reason", "keys"]
    found = sections(about, rows)
    write_text(job.out / "table.csv", csv_text(columns, rows))
    write_text(job.out / "table.md", _to_markdown(about, rows, found))
    write_text(job.out / "table.tex", "\n".join(_to_latex(about, section) for section in found))


def sections(about: Line, rows: Sequence[Line]) -> list[Section]:
    """Return a section for each of the paper's own tables, then one for rows in none of them."""

    def place(row: Line) -> tuple[bool, bool, str]:
        return row["table"] is None, not str(row["table"]).isdigit(), str(row["table"]).rjust(4)

    found = [(t, list(of)) for t, of in groupby(sorted(rows, key=place), itemgetter("table"))]
    named = {"text": "In the text", None: "Not in the paper" if len(found) > 1 else ""}
    return [_section(about, named.get(table, f"Table {table}"), of) for table, of in found]


def _section(about: Line, heading: str, rows: Sequence[Line]) -> Section:
    notes: dict[str, str] = {}
    cells, floors = [], []
    for row in rows:
        number = ""
        if said := "; ".join(filter(None, (row["note"], row["reason"]))):
            number = " " + notes.setdefault(said, f"[{len(notes) + 1}]")
        counts = [row["parameters"], row["parameters_bert_base"]]
        here, base = (f"{of / 1e6:.2f} M" if of else "not counted" for of in counts)
        cells.append(
            {("", "Row"): row["row"] + number, ("", "Split"): row["split"]}
            | _score_cells(about, row)
            | {("", "n"): str(row["seeds"])}
            | {("Parameters", "here"): here, ("Parameters", "BERT-base"): base}
            | {("Tuned", name): row.get(name, "") for name in ("settings", "budget")}
        )
    for split in dict.fromkeys(row["split"] for row in rows):
        known = {
            (name, score.floor)
            for row in rows
            for name, score in row["scores"].items()
            if row["split"] == split and score.floor is not None
        }
        # Rows with other tasks of their own have other floors.
        times = Counter(name for name, _ in known)
        if shared := {name: Interval(of, n=0) for name, of in known if times[name] == 1}:
            scores = _score_cells(about, {"scores": shared, "figures": {}})
            floors.append({("", "Row"): FLOOR, ("", "Split"): split} | scores)
    heads = [head for head in cells[0] if any(line[head] for line in cells)]
    above, lines = (
        [[line.get(head) or ABSENT for head in heads] for line in part] for part in (floors, cells)
    )
    return Section(heading, rows, heads, above, lines, [f"{n} {said}" for said, n in notes.items()])


def _score_cells(about: Line, row: Line) -> dict[Head, str]:
    """Return the cells on scores of a row, or of floors; "" for those that only others have."""
    found: dict[Head, str] = {}
    scores, own = row["scores"], about["rule"]
    overall = {rule: rule + OWN_RULE * (rule == own) for rule in RULES}
    groups = [(TASKS[task].title, task, {task: "ours"}) for task in about["tasks"]]
    for title, of, measures in [*groups, ("Overall", own, overall)]:
        figure = row["figures"].get(of)
        has = of in (*about["overall_tasks"], own, *scores) or figure is not None
        if has_published(about):
            found[title, "paper"] = _number(figure) * has
        found |= {(title, said): _ours(about, row, name) * has for name, said in measures.items()}
    last = scores[own].last if own in scores else None
    found["Overall", "last epoch" + OWN_RULE] = "" if last is None else _number(last)
    found["", "Δm (%)"] = _ours(about, row, DELTA_M) if DELTA_M in scores else ""
    return found


def _ours(about: Line, row: Line, name: str) -> str:
    """Return a score of ours as a cell: of a task, by an overall rule, or the gain in per cent.

    If there is none, the cell says why if a figure is due: the paper gives it, or it gives none in
    the row and the variant has the task, or for an overall score all of its tasks.
    """
    if value := row["scores"].get(name):
        fewer = f" (n = {value.n})" if value.n != row.get("seeds", 0) else ""
        return value.in_words(*[2, "+"] * (name == DELTA_M)) + marks(value) + fewer
    needed = about["overall_tasks"] if name in RULES else [name]
    due = not row.get("given") and {*needed} <= {*row.get("tasks", ())}
    if not due and row["figures"].get(name) is None:
        return ABSENT
    if row["status"] != SCORED:
        return row["status"]
    return NO_LABELS if row["split"] == "test" else NOT_RUN


def _number(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.3f}"


def _to_markdown(about: Line, rows: Sequence[Line], found: Sequence[Section]) -> str:
    """Return the table as markdown, a section for each of the paper's own tables."""
    parts = [f"# {markdown(about['title'])}", markdown(about["caption"])]
    for section in found:
        heads = [" ".join(filter(None, head)) for head in section.heads]
        parts.append(f"## {section.heading}" * bool(section.heading))
        parts.append(markdown_table([heads, *section.floors, *section.lines], left=2))
        parts += map(markdown, section.notes)
    parts.append("## How to read this" * (len(found) > 1))
    parts += map(markdown, [*remarks(about, rows), *about["footnotes"]])
    return "\n\n".join(filter(None, parts)) + "\n"


def _to_latex(about: Line, section: Section) -> str:
    """Return a LaTeX float of one of the paper's tables."""
    return latex_float(
        f"{about['paper']} {section.heading}".strip(),
        f"{', '.join(filter(None, (about['title'], section.heading)))}. {about['caption']}".strip(),
        "ll" + "r" * (len(section.heads) - 2),
        [[head for _, head in section.heads], *section.floors, *section.lines],
        [*remarks(about, section.rows), *section.notes, *about["footnotes"]],
        section.groups,
    )
