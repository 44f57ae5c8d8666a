"""The runs in the study's bundles: what they were trained on, where, and what they predict."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from minbert.spec.config import load_config

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "study"
CONFIGURED = (ROOT / "workflow/overlays/minilm.yaml", STUDY / "study.yaml")
BUNDLES = sorted(STUDY.glob("seed-*.zip"))
SEEDS = [f"seed{number}" for number in load_config(CONFIGURED).seeds]  # that have finished


@cache
def bundled() -> Mapping[str, Path]:
    """Return {name: bundle} of the files in the bundles."""
    found = dict[str, Path]()
    for path in BUNDLES:
        with zipfile.ZipFile(path) as archive:
            found |= dict.fromkeys(archive.namelist(), path)
    return found


def read(name: str) -> bytes:
    """Return a file of the bundles."""
    with zipfile.ZipFile(bundled()[name]) as archive:
        return archive.read(name)


@cache
def reports() -> Mapping[str, Mapping[str, Any]]:
    """Return the report on each task's data."""
    found = [json.loads(read(name)) for name in bundled() if name.endswith("/report.json")]
    return {report["task"]: report for report in found}


@cache
def runs() -> pd.DataFrame:
    """Return the key, seed, device, seconds and best score of every training."""
    lines = []
    for name in bundled():
        if name.endswith("/run.json"):
            _, key, seed, _ = name.split("/")
            of = json.loads(read(name))
            device = of["environment"]["device"].replace("cpu", "CPU")
            lines.append((key, seed, device, *map(of["outcome"].get, ("seconds", "best_score"))))
    return pd.DataFrame(lines, columns=["key", "seed", "device", "seconds", "best"])


def read_runs(keys: str, file: str, task: str, **of: str) -> list[pd.DataFrame]:
    """Return what each training with one of `keys` has of a task on dev, where it is `of`.

    Trainings of other tasks, and of seeds that have not finished, are left out.
    """
    rows = {"split": "dev", "task": task, **of}
    filters = [(column, "==", value) for column, value in rows.items()]
    names = [f"train/{key}/{seed}/" for key in keys.split() for seed in SEEDS]
    paths = [name for name in bundled() if name.startswith((*names,)) and name.endswith(file)]
    tables = (pd.read_parquet(io.BytesIO(read(path)), filters=filters) for path in paths)
    return [table for table in tables if len(table)]


def labels(task: str) -> pd.Series[float]:
    """Return the labels of a task's dev and test rows, by the numbers that predictions have."""
    specs = [name for name in bundled() if name.startswith("spec/rows-")]
    (spec,) = {name for name in specs if json.loads(read(name))["title"] == task}
    key = Path(spec).stem.partition("-")[2]
    return pd.read_parquet(io.BytesIO(read(f"rows/{key}/rows.parquet")))["label"]
