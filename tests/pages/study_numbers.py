"""Numbers in sentences on the study, from its tables, settings and the runs in its bundles."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from minbert.evaluate.text import read_csv
from minbert.spec.task import TASKS as KNOWN

from .study_tables import (
    MINUS,
    PAPERS,
    ROOT,
    STUDY,
    TASKS,
    at_floor,
    claimed,
    published_above,
    ranks,
    row_of,
    table,
    verdicts,
)

BUNDLES = sorted(STUDY.glob("seed-*.zip"))
CONFIGURED = ("workflow/overlays/minilm.yaml", "study/study.yaml")


def short(value: float, sign: str = "") -> str:
    """Return a score as sentences have it: .471, or +.076 with the `sign` "+"."""
    return re.sub(r"^([^0-9.]?)0\.", r"\1.", f"{value:{sign}.3f}").replace("-", MINUS)


def of_claim(name: str, task: str) -> dict[str, str]:
    """Return the claim of PAPER/VARIANT/AGAINST on the scores of a task, by the first of others."""
    (one,) = (
        one
        for one in claimed()
        if name == f"{one['paper']}/{one['variant']}/{one['against'].split()[0]}"
        and (one["task"], one["measure"]) == (task, "")
    )
    return one


def gain_of(name: str, task: str, column: str = "difference") -> str:
    """Return the difference of a claim (`of_claim`), ours or the paper's."""
    return short(float(of_claim(name, task)[column]), "+")


def claims_of(paper: str, said: str = "claims") -> str:
    """Return how many claims a paper, or `all`, has: with one of `IN_WORDS` by its first words."""
    (line,) = (line for line in verdicts() if line[0] == paper)
    heads = [head.replace(" ", "-") for head in next(verdicts())]
    return line[heads.index(said)]


def rank_of(paper: str, task: str) -> str:
    """Return Spearman's rho of a paper's rows on a task, of the table `ranks`."""
    (line,) = (line for line in ranks() if line[0] == paper)
    return short(float(line[1 + list(TASKS).index(task)].split()[0].replace(MINUS, "-")))[:-1]


def above_floors(which: str) -> str:
    """Return how many scores of rows are `due`, as the paper's is clearly above, or `above`."""
    due = [
        at_floor(row, task) * 2 < row[f"{task}_n"]
        for paper in PAPERS
        for row in table(paper).to_dict("records")
        for task in TASKS
        if row[f"{task}_n"] > 0 and published_above(row, task)
    ]
    return str(len(due) if which == "due" else sum(due))


def rows_of(status: str) -> str:
    """Return how many published rows there are, `all` or those `scored`."""
    index = read_csv(STUDY / "tables" / "index.csv")
    return str(sum(status in ("all", line["status"]) for line in index))


def setting(path: str) -> str:
    """Return what the study's configuration sets at a path of keys."""
    found: Any = {}
    for file in CONFIGURED:
        found |= yaml.safe_load((ROOT / file).read_text("utf-8"))
    for key in path.split("."):
        found = found[key]
    return f"{len(found) if isinstance(found, list) else found:g}"


@cache
def bundled() -> dict[str, Path]:
    """Return {name: bundle} of the files in the bundles."""
    found = {}
    for path in BUNDLES:
        with zipfile.ZipFile(path) as archive:
            found |= dict.fromkeys(archive.namelist(), path)
    return found


def read_bundled(name: str) -> bytes:
    """Return a file of the bundles."""
    with zipfile.ZipFile(bundled()[name]) as archive:
        return archive.read(name)


def examples(task: str, split: str) -> str:
    """Return how many examples a split has, by the reports on data."""
    names = [name for name in bundled() if name.endswith("/report.json")]
    (found,) = (one for one in map(json.loads, map(read_bundled, names)) if one["task"] == task)
    return f"{found['rows'][split]:,}"


@cache
def runs() -> pd.DataFrame:
    """Return the device and the seconds of every training in the bundles."""
    lines = []
    for name in bundled():
        if name.endswith("/run.json"):
            _, key, seed, _ = name.split("/")
            of = json.loads(read_bundled(name))
            device = "GPU" if "NVIDIA" in of["environment"]["device"] else "CPU"
            lines.append((key, seed, device, of["outcome"]["seconds"]))
    return pd.DataFrame(lines, columns=["key", "seed", "device", "seconds"])


def read_runs(key: str, file: str, task: str, **of: str) -> list[pd.DataFrame]:
    """Return what a table of each seed's training has of a task on dev, where it is `of`."""
    rows = [*{"split": "dev", "task": task, **of}.items()]
    filters = [(column, "==", value) for column, value in rows]
    seeds = runs().query("key == @key")["seed"]
    names = (f"train/{key}/{seed}/{file}" for seed in seeds)
    return [pd.read_parquet(io.BytesIO(read_bundled(name)), filters=filters) for name in names]


def trainings(device: str) -> str:
    """Return how many trainings were made on a device: `GPU` or `CPU`."""
    return str((runs()["device"] == device).sum())


def hours(device: str) -> str:
    """Return how long the trainings on a device took, each for itself."""
    return f"{runs().query('device == @device')['seconds'].sum() / 3600:.1f}"


def stage(row: str, task: str) -> str:
    """Return the best score on dev of a row's stage for one task, the mean over its seeds.

    Of a row of several stages, the last is that of the table; each starts from the one before it.
    """
    key, metric = row_of(row)["keys"], KNOWN[task].metric
    while True:
        described = json.loads(read_bundled(f"spec/train-{key}.json"))
        if described["title"].partition(" ")[0].endswith(f"/{task}"):
            break
        key = described["needs"]["start"]["key"]
    tables = read_runs(key, "history.parquet", task, metric=metric)
    return short(float(np.mean([table["value"].max() for table in tables])))


def predicted(row: str, task: str) -> str:
    """Return the mean prediction of a row for a task on dev."""
    tables = read_runs(row_of(row)["keys"], "predictions.parquet", task)
    return short(float(np.mean([table["prediction"].mean() for table in tables])))


NUMBERS: Mapping[str, Callable[..., str]] = {
    "score": lambda row, task: short(row_of(row)[f"{task}_mean"]),
    "published": lambda row, task: short(row_of(row)[f"{task}_published"]),
    "gain": gain_of,
    "published-gain": lambda name, task: gain_of(name, task, "published_difference"),
    "verdict": lambda name, task: of_claim(name, task)["verdict"],
    "claims": claims_of,
    "rank": rank_of,
    "floors": above_floors,
    "rows": rows_of,
    "setting": setting,
    "examples": examples,
    "trainings": trainings,
    "hours": hours,
    "stage": stage,
    "predicted": predicted,
}
