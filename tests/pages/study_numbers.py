"""Numbers in sentences on the study, from its tables, settings and the runs in its bundles."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.stats import mannwhitneyu

from minbert.evaluate import claims
from minbert.evaluate.text import read_csv
from minbert.spec.config import load_config
from minbert.spec.task import TASKS as KNOWN

from .study_bundles import CONFIGURED, SEEDS, STUDY, labels, read, read_runs, reports, runs
from .study_tables import (
    MINUS,
    PAPERS,
    TASKS,
    claimed,
    devices,
    outside,
    ranks,
    row_of,
    rows_reached,
    table,
    verdicts,
)


def short(value: float, sign: str = "", digits: int = 3) -> str:
    """Return a score as sentences have it: .471, or +.076 with the `sign` "+"."""
    return re.sub(r"^([^0-9.]?)0\.", r"\1.", f"{value:{sign}.{digits}f}").replace("-", MINUS)


def of_claim(name: str, task: str) -> dict[str, str]:
    """Return the claim of PAPER/VARIANT/AGAINST on the scores of a task, by the first of others."""
    found = [
        one
        for one in claimed()
        if name == f"{one['paper']}/{one['variant']}/{one['against'].split()[0]}"
        and (one["task"], one["measure"]) == (task, "")
    ]
    assert len(found) == 1, f"there are {len(found)} claims about {name} on {task}"
    return found[0]


def gain_of(name: str, task: str, column: str = "difference") -> str:
    """Return the difference of a claim (`of_claim`), ours or the paper's."""
    of = of_claim(name, task)
    assert of[column], f"{name} on {task}: {of['verdict']}, so its sentence is to be rewritten"
    return short(float(of[column]), "+")


def claims_of(paper: str, said: str = "claims") -> str:
    """Return how many claims a paper, or `all`, has: with one of `IN_WORDS` by its first words."""
    (line,) = (line for line in verdicts() if line[0] == paper)
    heads = [head.replace(" ", "-") for head in next(verdicts())]
    return line[heads.index(said)]


def rank_of(paper: str, task: str) -> str:
    """Return Spearman's rho of a paper's rows on a task, of the table `ranks`."""
    (line,) = (line for line in ranks() if line[0] == paper)
    rho = line[1 + list(TASKS).index(task)].split()[0]
    return short(float(rho.replace(MINUS, "-")), digits=2)


def above_floors(which: str) -> str:
    """Return how many scores are `due`, as the paper's is clearly above its floor, or `above`."""
    *_, (*_, counts, _, _) = rows_reached()
    return counts.split(" of ")[which == "due"]


def rows_of(status: str) -> str:
    """Return how many published rows there are, `all` or those `scored`."""
    index = read_csv(STUDY / "tables" / "index.csv")
    return str(sum(status in ("all", line["status"]) for line in index))


def setting(path: str) -> str:
    """Return what the study's configuration sets at a path of keys; of several, their number."""
    found: Any = load_config(CONFIGURED).model_dump()
    for key in path.split("."):
        found = found[key]
    return f"{len(found) if isinstance(found, tuple) else found:g}"


def device(name: str, column: str) -> str:
    """Return a column of the table `runs` for the device whose name ends with a word."""
    heads, *lines = devices()
    (line,) = (line for line in lines if line[0].endswith(name))
    return line[heads.index(column)]


def stage(row: str, task: str) -> str:
    """Return the best score on dev of a row's stage for one task, the mean over its seeds.

    Of a row of several stages, the last is that of the table; each starts from the one before it.
    """
    key, metric = row_of(row)["keys"], KNOWN[task].metric
    while True:
        described = json.loads(read(f"spec/train-{key}.json"))
        if described["title"].partition(" ")[0].endswith(f"/{task}"):
            break
        key = described["needs"]["start"]["key"]
    tables = read_runs(key, "history.parquet", task, metric=metric)
    return short(float(np.mean([table["value"].max() for table in tables])))


def predicted(row: str, task: str) -> str:
    """Return the mean prediction of a row for a task on dev."""
    tables = read_runs(row_of(row)["keys"], "predictions.parquet", task)
    return short(float(np.mean([table["prediction"].mean() for table in tables])))


def apart(how: str) -> str:
    """Return how far the best scores of a training's seeds are apart: their `median`, or `max`."""
    finished = runs()[runs()["seed"].isin(SEEDS)]
    return short(float(getattr(finished.groupby("key")["best"].agg(np.ptp), how)()))


def largest_sd() -> str:
    """Return the largest standard deviation of a row's score on a task over its seeds."""
    return short(float(max(table(paper)[f"{task}_sd"].max() for paper in PAPERS for task in TASKS)))


def last_gain(name: str, rule: str) -> str:
    """Return the difference of PAPER/VARIANT/AGAINST in the overall score of the last epoch."""
    row, against = name.rpartition("/")[::2]
    other = f"{row.partition('/')[0]}/{against}"
    ours, theirs = (row_of(of)[f"overall_{rule}_last"] for of in (row, other))
    return short(ours - theirs, "+")


def comparisons(which: str) -> str:
    """Return how many comparisons have a published difference and ours.

    `outside`: those in which it lies outside our interval; `noise`: those within noise that claim
    a difference, `undetectable` ones among them, whose published one was unlikely to be found.
    """
    found = [one for one in claimed() if one["published_difference"] and one["difference"]]
    noise = [
        of
        for of in found
        if of["verdict"] == claims.NOISE and of["direction"] in ("higher", "lower")
    ]
    small = (of for of in noise if abs(float(of["published_difference"])) < float(of["detectable"]))
    kinds = {"published": found, "outside": filter(outside, found), "noise": noise}
    return str(len([*(kinds | {"undetectable": small})[which]]))


def auc(row: str, task: str) -> str:
    """Return the mean area under the ROC curve of a row's dev scores for a task of two classes.

    That is how often a pair of class 1 scores higher than one of class 0 (Hanley & McNeil 1982).
    """
    found, label = [], labels(task)
    for of in read_runs(row_of(row)["keys"], "predictions.parquet", task):
        scores, is_one = np.array([*of["scores"]])[:, 0], label[of["row"]].to_numpy() == 1
        found.append(mannwhitneyu(scores[is_one], scores[~is_one]).statistic)
        found[-1] /= is_one.sum() * (~is_one).sum()
    return short(float(np.mean(found)))


NUMBERS: Mapping[str, Callable[..., str]] = {
    "score": lambda row, task: short(row_of(row)[f"{task}_mean"]),
    "published": lambda row, task: short(row_of(row)[f"{task}_published"]),
    "gain": gain_of,
    "published-gain": lambda name, task: gain_of(name, task, "published_difference"),
    "verdict": lambda name, task: claims.cells(of_claim(name, task))[-1],
    "claims": claims_of,
    "rank": rank_of,
    "floors": above_floors,
    "rows": rows_of,
    "setting": setting,
    "examples": lambda task, split: f"{reports()[task]['rows'][split]:,}",
    "trainings": lambda name: device(name, "trainings"),
    "hours": lambda name: device(name, "hours, each for itself"),
    "stage": stage,
    "predicted": predicted,
    "auc": auc,
    "apart": apart,
    "largest": lambda _: largest_sd(),
    "last-gain": last_gain,
    "comparisons": comparisons,
}
