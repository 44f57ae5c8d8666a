"""A paper's table, published figures beside ours: csv, markdown and LaTeX."""

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from minbert.base.files import write_text
from minbert.evaluate.reading import DELTA_M, Of, Scores, read_scores
from minbert.evaluate.seeds import Interval, over_seeds
from minbert.evaluate.table_notes import FLOOR, OWN_RULE, has_published, marks, remarks
from minbert.evaluate.text import (
    ABSENT,
    Line,
    csv_text,
    latex_float,
    markdown,
    markdown_table,
    read_csv,
)
from minbert.spec.protocol import RULES
from minbert.spec.task import TASKS
from minbert.store.job import Job

SCORED, NOT_RUN, NO_LABELS, FAILED = "scored", "not run", "no labels", "failed"

PARTS = ("mean", "low", "high", "n", "sd", "last", "floor", "above", "constant")
"""What a row has of each score (`statistics.Interval`)."""

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
    `sst_floor` is the floor, `sst_above` and `sst_constant` how many seeds are above
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


def table_rows(job: Job, about: Line) -> list[dict[str, Any]]:
    """Return the rows of a paper, of which the plan says `about` and a job needs the scores.

    A row has what the plan says of it (`plan.outputs`), and:

    `scores`: {measure: what the seeds come to} where it was scored, at the epoch that was best on
    dev; `sst_mean` and so on: each of their numbers, by `PARTS`; `seeds`: how many there are;
    `keys`: those of the trainings that the scores come from.
    `figures`: {measure: what the paper has of it}; `given`: whether there are any.
    `status`: a row without any of the scores that the paper gives, or of all if it gives none, is
    `not run`; `failed` if its variant did, or one of the settings that it tried; or `no labels` if
    it is a test row whose labels are not public. `reason` is said besides its note.
    `settings`, `budget`, `runs_done`, `runs_wanted`: only of a tuned variant.
    """
    paper = about["paper"]
    found = read_scores(job.need(f"scores.{paper}"), paper)
    means = over_seeds(found, about["overall_tasks"])
    tuned = _tuned(job.needs("tuning").get(paper))
    tried = {of["name"]: of["tried"] for of in about["variants"]}
    failures = job.failed(paper)
    rows = []
    for planned in about["rows"]:
        row = planned | {name: about[name] for name in ("paper", "backbone", "data")}
        row |= tuned.get(row["variant"], {}) | {"overall_rule": about["rule"]}
        row |= _scored(row, found, means)
        names = (row["variant"], *tried[row["variant"]])
        why = [failures[name] for name in names if name in failures]
        if row["status"] == NOT_RUN and why:
            row |= {"status": FAILED, "reason": why[0]}
        rows.append(row)
    return rows


def _tuned(path: Path | None) -> dict[str, dict[str, Any]]:
    """Return what came of each tuned variant in the `tuning.csv` of `evaluate.choose`, if any.

    A run is wanted for each setting and seed; `settings` are the chosen one, in words.
    """
    found: dict[str, dict[str, Any]] = {}
    for line in read_csv(path) if path else ():
        one = found.setdefault(line["variant"], {"settings": "", "runs_done": 0, "runs_wanted": 0})
        one["runs_done"] += len(line["seeds"].split())
        one["runs_wanted"] += int(line["asked"])
        one["settings"] += line["settings"] * bool(line["chosen"])
        done, wanted = one["runs_done"], one["runs_wanted"]
        one["budget"] = f"{done} of " * (done < wanted) + f"{wanted} runs"
    return found


def _scored(row: Line, found: Scores, means: Mapping[Of, Interval]) -> dict[str, Any]:
    """Return what a row has of scores, and of what the paper says of them."""
    at, published, choice = (row["variant"], row["split"]), row["published"], row["choice"]
    ours = {of.measure: of for of in found if of[:2] == at}
    keys = {t: {score.key for score in found[ours[t]].values()} for t in TASKS if t in ours}
    figures = published | {row["other_task"]: published.get("other")}
    figures |= dict.fromkeys(RULES, published.get("overall"))
    given = any(figure is not None for figure in published.values())
    status = NOT_RUN
    if any(figures.get(name) is not None for name in ours) or (ours and not given):
        status = SCORED
    elif row["split"] == "test" and any(of[:2] == (row["variant"], "dev") for of in found):
        status = NO_LABELS
    names = {t: "/".join(sorted({choice.get(key, key) for key in of})) for t, of in keys.items()}
    if len(set(names.values())) > 1:
        names = {task: f"{TASKS[task].title} {name}" for task, name in names.items()}
    chosen = f"here: {', '.join(dict.fromkeys(names.values()))}"
    scores = {name: means[of] for name, of in ours.items()}
    numbers = {f"{name}_published": figure for name, figure in figures.items()}
    for name, score in scores.items():
        column = f"overall_{name}" if name in RULES else name
        numbers |= {f"{column}_{part}": getattr(score, part) for part in PARTS}
    return numbers | {
        **{"status": status, "reason": chosen if choice and keys else ""},
        **{"scores": scores, "figures": figures, "given": given},
        "seeds": len({seed for of in ours.values() for seed in found[of]}),
        "keys": " ".join(sorted(set().union(*keys.values()))),
    }


def sections(about: Line, rows: Sequence[Line]) -> list[Section]:
    """Return a section for each of the paper's own tables, then one for rows in none of them."""

    def place(row: Line) -> str:
        return (row["table"] or "~~~~").rjust(4)  # numbers, then "text", then none

    found = [list(of) for _, of in groupby(sorted(rows, key=place), place)]
    named = {"text": "In the text", None: "Not in the paper" if len(found) > 1 else ""}
    return [
        _section(about, named.get(of[0]["table"], f"Table {of[0]['table']}"), of) for of in found
    ]


def _section(about: Line, heading: str, rows: Sequence[Line]) -> Section:
    """Return one of the paper's own tables; a column that is empty in all rows is left out."""
    notes: dict[str, str] = {}
    cells, floors = [], []
    figures = (of for row in rows for of in row["figures"].items())
    shown = {name for name, of in figures if of is not None}.union(*(row["scores"] for row in rows))
    for row in rows:
        number = ""
        if said := "; ".join(filter(None, (row["note"], row["reason"]))):
            number = " " + notes.setdefault(said, f"[{len(notes) + 1}]")
        counts = [row["parameters"], row["parameters_bert_base"]]
        here, base = (f"{of / 1e6:.2f} M" if of else "not counted" for of in counts)
        cells.append(
            {("", "Row"): row["row"] + number, ("", "Split"): row["split"]}
            | _score_cells(about, row, shown)
            | {("", "n"): str(row["seeds"])}
            | {("Parameters", "here"): here, ("Parameters", "BERT-base"): base}
            | {("Tuned", name): row.get(name, "") for name in ("settings", "budget")}
        )
    for split in dict.fromkeys(row["split"] for row in rows):
        pairs = {
            (name, score.floor)
            for row in rows
            if row["split"] == split
            for name, score in row["scores"].items()
        }
        names = [name for name, _ in pairs]
        # Rows with tasks of their own have other floors.
        shared = {
            name: Interval(floor, n=0)
            for name, floor in pairs
            if names.count(name) == 1 and floor is not None
        }
        if shared:
            scores = _score_cells(about, {"scores": shared, "figures": {}}, shown)
            floors.append({("", "Row"): FLOOR, ("", "Split"): split} | scores)
    heads = [head for head in cells[0] if any(line[head] for line in cells)]
    above, lines = (
        [[line.get(head) or ABSENT for head in heads] for line in part] for part in (floors, cells)
    )
    return Section(heading, rows, heads, above, lines, [f"{n} {said}" for said, n in notes.items()])


def _score_cells(about: Line, row: Line, shown: Collection[str]) -> dict[Head, str]:
    """Return the cells on scores of a row, or of floors; "" of tasks that are not `shown`."""
    found: dict[Head, str] = {}
    scores, own = row["scores"], about["rule"]
    overall = {rule: rule + OWN_RULE * (rule == own) for rule in RULES}
    groups = [(TASKS[task].title, task, {task: "ours"}) for task in about["tasks"]]
    for title, of, measures in [*groups, ("Overall", own, overall)]:
        has = of in (*about["overall_tasks"], own, *shown)
        if has_published(about):
            found[title, "paper"] = _number(row["figures"].get(of)) * has
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
        said = value.in_words(2, "+") if name == DELTA_M else value.in_words()
        return said + marks(value) + fewer
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
