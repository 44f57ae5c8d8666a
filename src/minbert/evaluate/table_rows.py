"""A paper's rows: the published figures and our scores, as its table, csv and report show them."""

from collections.abc import Mapping, Sequence
from typing import Any

from minbert.evaluate.reading import Of, Scores, read_scores
from minbert.evaluate.seeds import over_seeds
from minbert.evaluate.statistics import Interval
from minbert.evaluate.text import Line
from minbert.evaluate.tuning import read_tuning
from minbert.spec.protocol import RULES
from minbert.spec.task import TASKS
from minbert.store.job import Job

SCORED, NOT_RUN, NO_LABELS, FAILED = "scored", "not run", "no labels", "failed"

PARTS = ("mean", "low", "high", "n", "sd", "last", "floor", "above", "constant")
"""What a row has of each score (`statistics.Interval`)."""


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
    tuning, failures = job.needs("tuning").get(paper), job.failed(paper)
    tuned = read_tuning(tuning) if tuning else {}
    rows = []
    for planned in about["rows"]:
        row = planned | {name: about[name] for name in ("paper", "backbone", "data")}
        tried: Sequence[str] = ()
        if one := tuned.get(row["variant"]):
            tried = one.candidates
            row |= {"settings": one.settings, "budget": one.runs}
            row |= {"runs_done": one.done, "runs_wanted": one.wanted}
        row |= {"overall_rule": about["rule"]} | _scored(row, found, means)
        why = [failures[name] for name in (row["variant"], *tried) if name in failures]
        if row["status"] == NOT_RUN and why:
            row |= {"status": FAILED, "reason": why[0]}
        rows.append(row)
    return rows


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
