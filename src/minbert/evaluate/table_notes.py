"""The sentences under a table that say how to read it."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from minbert.evaluate.marks import FAVOURED, MEANING, guesses
from minbert.evaluate.reading import DELTA_M, score_title
from minbert.evaluate.scoring import CORRELATIONS
from minbert.evaluate.table_rows import Row, Table
from minbert.evaluate.text import ABSENT
from minbert.spec.task import OWN_FILES, TASKS

FLOOR = "Floor"
OWN_RULE = "†"


def remarks(table: Table, rows: Sequence[Row]) -> list[str]:
    """Return the sentences under `rows` of the table that say how to read it, as plain text."""
    count, scored = len(table.seeds), [row.n for row in rows if row.n]
    short = sum(n < count for n in scored)
    alone = "over the split's examples, which says nothing about how another run would score"
    if count == 1:
        ours = f"Ours: the score of one run ± half the width of its 95 % interval {alone}."
    else:
        fewer = f" ({short} of {len(scored)} rows have fewer)" if short else ""
        ours = "Ours: mean ± half the width of its 95 % interval (Student t) over n of "
        ours += f"{count} seeds{fewer}, by the spread that the rows share; with one seed, {alone}."
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
        f"Backbone: {table.backbone}. Data: {_data(table)}. "
        f"{ABSENT}: not published, or not a task of the row.",
    ]


def _data(table: Table) -> str:
    """Say where the data come from, and which tasks have data of one's own, if any."""
    own = [TASKS[task].title for task in table.tasks if task not in TASKS.built_in]
    other = "" if table.data == OWN_FILES else f"{table.data}; "
    return f"{other}{OWN_FILES}: {_listed(own)}" if own else table.data


def _as_normalised(task: str) -> str:
    """Return how a task counts in a normalised overall score, in words."""
    said = score_title(task)
    return f"({said} + 1) / 2" if TASKS[task].metric in CORRELATIONS else said


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _selection(table: Table, rows: Sequence[Row]) -> list[str]:
    """Say what chose the epochs; if dev did, by how much their scores exceed the last epochs'."""
    if table.selection_split != "dev":
        return [f"{FAVOURED[table.selection_split]}."]
    gains: dict[str, list[float]] = {}
    for row in rows:
        for name, of in row.scores.items():
            if name in table.overall_tasks and of.last is not None:
                gains.setdefault(TASKS[name].title, []).append(of.mean - of.last)
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
