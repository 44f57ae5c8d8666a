"""A paper's table, published figures beside ours: csv, markdown and LaTeX."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, product
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from minbert.base.files import write_text
from minbert.evaluate.reading import (
    DELTA_M,
    FAVOURED,
    LEAST_GAIN,
    Of,
    Scores,
    read_scores,
    score_title,
)
from minbert.evaluate.scoring import CORRELATIONS
from minbert.evaluate.seeds import Interval, over_seeds
from minbert.evaluate.text import (
    ABSENT,
    Line,
    latex_float,
    markdown,
    markdown_table,
    read_csv,
    write_csv,
    write_markdown,
)
from minbert.spec.protocol import RULES
from minbert.spec.task import BUILT_IN, OWN_FILES, TASKS
from minbert.store.job import Job

SCORED, NOT_RUN, NO_LABELS, FAILED = "scored", "not run", "no labels", "failed"

FLOOR, OWN_RULE, BELOW, CONSTANT = "Floor", "†", "°", "‡"

PARTS = Interval._fields[:-1]
"""What a row has of each score, each in a column: all but whether it learned."""

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
    `sst_floor` is the floor, `sst_above` and `sst_constant` how many seeds have learned and how
    many predict one class. A cell is empty if there is no number: `status` says why. A paper with
    tuned rows has their `settings`, and the training runs that this took, `runs_done` of
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
    lines = []
    for row in rows:
        line = row | {f"{name}_published": figure for name, figure in row["figures"].items()}
        for name, score in row["scores"].items():
            column = f"overall_{name}" if name in RULES else name
            line |= {f"{column}_{part}": value for part, value in score._asdict().items()}
        lines.append(line)
    found = sections(about, rows)
    write_csv(job.out / "table.csv", columns, lines)
    write_markdown(job.out / "table.md", about["title"], _to_markdown(about, rows, found))
    write_text(job.out / "table.tex", "\n".join(_to_latex(about, section) for section in found))


def table_rows(job: Job, about: Line) -> list[dict[str, Any]]:
    """Return the rows of a paper, of which the plan says `about` and a job needs the scores.

    A row has what the plan says of it (`plan.outputs`), and:

    `scores`: {measure: what the seeds come to} where it was scored, at the epoch that was best on
    dev; `seeds`: how many there are; `keys`: those of the trainings that the scores come from.
    `figures`: {measure: what the paper has of it}.
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
    rows = []
    for planned in about["rows"]:
        name = planned["variant"]
        row = planned | {part: about[part] for part in ("paper", "backbone", "data")}
        row |= {"overall_rule": about["rule"]} | tuned.get(name, {}) | _scored(row, found, means)
        own = [(paper, of) for of in (name, *tried[name])]
        why = [job.failures[at] for at in own if at in job.failures]
        if row["status"] == NOT_RUN and why:
            row |= {"status": FAILED, "reason": why[0]}
        rows.append(row)
    return rows


def _tuned(path: Path | None) -> dict[str, dict[str, Any]]:
    """Return what came of each tuned variant in the `tuning.csv` of `evaluate.choose`, if any.

    A run is wanted for each setting and seed; `settings` are the chosen one, in words.
    """
    found = {}
    for variant, lines in groupby(read_csv(path) if path else (), itemgetter("variant")):
        tried = list(lines)
        done = sum(len(line["seeds"].split()) for line in tried)
        wanted = sum(int(line["asked"]) for line in tried)
        found[variant] = {
            "settings": "".join(line["settings"] for line in tried if line["chosen"]),
            "runs_done": done,
            "runs_wanted": wanted,
            "budget": f"{done} of " * (done < wanted) + f"{wanted} runs",
        }
    return found


def _scored(row: Line, found: Scores, means: Mapping[Of, Interval]) -> dict[str, Any]:
    """Return what a row has of scores, and of what the paper says of them."""
    at, published, choice = (row["variant"], row["split"]), row["published"], row["choice"]
    ours = {of.measure: by_seed for of, by_seed in found.items() if of[:2] == at}
    keys = {t: {score.key for score in ours[t].values()} for t in TASKS if t in ours}
    figures = published | {row["other_task"]: published.get("other")}
    figures |= dict.fromkeys(RULES, published.get("overall"))
    status = NOT_RUN
    if any(figures.get(name) is not None for name in ours) or (ours and not published):
        status = SCORED
    elif row["split"] == "test" and any(of[:2] == (row["variant"], "dev") for of in found):
        status = NO_LABELS
    names = ["/".join(sorted({choice.get(key, key) for key in of})) for of in keys.values()]
    if len({*names}) > 1:
        names = [f"{TASKS[task].title} {name}" for task, name in zip(keys, names, strict=True)]
    return {
        "status": status,
        "reason": f"here: {', '.join(dict.fromkeys(names))}" if choice and keys else "",
        "scores": {name: means[Of(*at, name)] for name in ours},
        "figures": figures,
        "seeds": len(set().union(*ours.values())),
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
    own, published = about["rule"], _has_published(about)
    of_rows = (of for row in rows for of in (row["figures"] | row["scores"]).items())
    shown = {name for name, of in of_rows if of is not None}.union(about["overall_tasks"])
    ours = {task: (TASKS[task].title, "ours") for task in about["tasks"] if task in shown}
    ours |= {rule: ("Overall", rule + OWN_RULE * (rule == own)) for rule in RULES}
    notes: dict[str, str] = {}
    cells: list[dict[Head, str]] = []
    for row in rows:
        mark = ""
        if said := "; ".join(filter(None, (row["note"], row["reason"]))):
            mark = " " + notes.setdefault(said, f"[{len(notes) + 1}]")
        line = {("", "Row"): row["row"] + mark, ("", "Split"): row["split"]}
        for name, head in ours.items():
            if published:
                line[head[0], "paper"] = number(row["figures"].get(name))
            line[head] = _ours(about, row, name)
        scores = row["scores"]
        last = scores[own].last if own in scores else None
        line["Overall", "last epoch" + OWN_RULE] = "" if last is None else number(last)
        line["", "Δm (%)"] = _ours(about, row, DELTA_M) if DELTA_M in scores else ""
        line["", "n"] = str(row["seeds"])
        for where, column in (("here", "parameters"), ("BERT-base", "parameters_bert_base")):
            count = row[column]
            line["Parameters", where] = f"{count / 1e6:.2f} M" if count else "not counted"
        cells.append(line | {("Tuned", name): row.get(name, "") for name in ("settings", "budget")})
    floors = []
    for split in dict.fromkeys(row["split"] for row in rows):
        line = {("", "Row"): FLOOR, ("", "Split"): split}
        for name, head in ours.items():
            of_split = (row["scores"].get(name) for row in rows if row["split"] == split)
            # Rows with tasks of their own have other floors.
            floor, *others = {score.floor for score in of_split if score} or {None}
            if floor is not None and not others:
                line[head] = number(floor)
        floors += [line] * (len(line) > 2)
    heads = [head for head in cells[0] if any(line[head] for line in cells)]
    above, lines = (
        [[line.get(head) or ABSENT for head in heads] for line in part] for part in (floors, cells)
    )
    return Section(heading, rows, heads, above, lines, [f"{n} {said}" for said, n in notes.items()])


def _ours(about: Line, row: Line, name: str) -> str:
    """Return a score of ours as a cell: of a task, by an overall rule, or the gain in per cent.

    If there is none, the cell says why if a figure is due: the paper gives it, or it gives none in
    the row and the variant has the task, or for an overall score all of its tasks.
    """
    if value := row["scores"].get(name):
        fewer = f" (n = {value.n})" if value.n != row["seeds"] else ""
        said = value.in_words(2, "+") if name == DELTA_M else value.in_words()
        return said + _marks(value) + fewer
    needed = about["overall_tasks"] if name in RULES else [name]
    due = not row["published"] and {*needed} <= {*row["tasks"]}
    if not due and row["figures"].get(name) is None:
        return ABSENT
    if row["status"] != SCORED:
        return row["status"]
    return NO_LABELS if row["split"] == "test" else NOT_RUN


def number(value: float | None) -> str:
    """Return a score as a cell."""
    return ABSENT if value is None else f"{value:.3f}"


def _to_markdown(about: Line, rows: Sequence[Line], found: Sequence[Section]) -> list[str]:
    """Return the table as parts of a page, a section for each of the paper's own tables."""
    parts = [markdown(about["caption"])]
    for section in found:
        heads = [" ".join(filter(None, head)) for head in section.heads]
        parts.append(f"## {section.heading}" * bool(section.heading))
        parts.append(markdown_table([heads, *section.floors, *section.lines], left=2))
        parts += map(markdown, section.notes)
    parts.append("## How to read this" * (len(found) > 1))
    return [*parts, *map(markdown, [*remarks(about, rows), *about["footnotes"]])]


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


def _marks(score: Interval) -> str:
    """Return the marks after a score; with several seeds, how many of them each is about."""
    constant = score.constant or 0
    below = 0 if score.above is None else score.n - score.above - constant
    counts = {CONSTANT: constant, BELOW: below}
    return "".join(
        f" {mark}" + f"{seeds}/{score.n}" * (seeds < score.n)
        for mark, seeds in counts.items()
        if seeds > 0
    )


def _has_published(about: Line) -> bool:
    """Whether the paper gives a figure of any of its rows."""
    return any(row["published"] for row in about["rows"])


def remarks(about: Line, rows: Sequence[Line]) -> list[str]:
    """Return the sentences under `rows` of the table that say how to read it, as plain text."""
    tasks, overall, single = about["tasks"], about["overall_tasks"], about["single"]
    count = len(about["seeds"])
    alone = "over the split's examples, which says nothing about how another run would score"
    ours = f"the score of one run ± half the width of its 95 % interval {alone}."
    if count > 1:
        ours = (
            f"mean ± half the width of its 95 % interval (Student t) over n of {count} seeds, by "
            "the spread that the rows share; a row that varies far more or has not learned, and "
            "a gain over single tasks, by its own, which may exceed the scale; with one seed, "
            f"{alone}."
        )
    normalised = (
        f"({score_title(task)} + 1) / 2"
        if TASKS[task].metric in CORRELATIONS
        else score_title(task)
        for task in overall
    )
    others = {TASKS[task].metric for task in tasks} - {"accuracy", "pearson"}
    own = _listed(TASKS[task].title for task in tasks if task not in BUILT_IN)
    data = [about["data"]] * (not own or about["data"] != OWN_FILES)
    found = [
        f"Ours: {ours} Scores: {', '.join(map(score_title, tasks))}.",
        f"{FLOOR}: the score without learning. {BELOW} marks a score that is not clearly above its "
        f"floor (the most frequent class, or r = 0): not at the 5 % level, or by less than "
        f"{100 * LEAST_GAIN:g} % of what separates it from a perfect score (r below "
        f"{LEAST_GAIN**0.5:.2f}); "
        f"{CONSTANT} a score of predictions that are all the same; 1/3 after a mark: one of three "
        "seeds. If half or more of a row's seeds are marked, the row is not shown to have learned "
        "the task." + " Floors of other metrics: docs/statistics.md." * bool(others),
        f"Overall: normalised is the mean of {_listed(normalised)}; plain is the plain mean of "
        f"{_listed(map(score_title, overall))}; {OWN_RULE} marks the paper's own rule"
        + ", which its published overall follows" * _has_published(about)
        + ".",
    ]
    gains: dict[str, list[float]] = {}
    for row, task in product(rows, overall):
        if (score := row["scores"].get(task)) and score.last is not None:
            gains.setdefault(TASKS[task].title, []).append(score.mean - score.last)
    said = ", ".join(f"{title} {fmean(of):+.3f}" for title, of in gains.items())
    if about["selection_split"] != "dev":
        found.append(f"{FAVOURED[about['selection_split']]}.")
    elif said:
        found.append(
            "Selected on dev: our figures are from the epoch of each run with the best dev score. "
            f"Best minus last epoch, averaged over the rows: {said}; the csv has every "
            "row."
        )
    if any(DELTA_M in row["scores"] for row in rows):
        label, titles = about["labels"][single], ", ".join(TASKS[task].title for task in overall)
        found.append(
            f"Δm: the gain over '{label}', which trains each task alone, with the same seed: the "
            f"mean over {titles} of (score - single) / single, in per cent (Maninis et al. 2019). "
            f"It is 0 for '{label}' itself, and {ABSENT} where a task has no score or its single "
            "score is not above 0."
        )
    if any("budget" in row for row in rows):
        found.append(
            "Tuned: of the settings listed in the grid, the one with the best overall score, "
            "averaged over the seeds, on the half of dev that also chose the epochs; its scores "
            "here are on the other half, or on test. Budget: the training runs of all settings and "
            "seeds. Settings are as in the grid, before 'scale' in the configuration applies; "
            f"tables/{about['paper']}.tuning.md lists all that were tried."
        )
    data += [f"{OWN_FILES}: {own}"] * bool(own)
    return [
        *found,
        f"Backbone: {about['backbone']}. Data: {'; '.join(data)}. {ABSENT}: not published, or not "
        "a task of the row.",
    ]


def _listed(words: Iterable[str]) -> str:
    *first, last = list(words) or [""]
    return f"{', '.join(first)} and {last}" if first else last
