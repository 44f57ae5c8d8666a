"""A paper whose runs predict with a given skill, and the table of claims about them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from run_files import history, score

from minbert.evaluate.claims import build_claims
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.task import TASKS
from minbert.train.evaluation import PREDICTIONS
from minbert.train.history import SCHEMA

N = 400


class Paper:
    """A paper's runs: what each predicts, the scores of that, and claims about it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.draw = np.random.default_rng(0)
        self.labels = {
            "sst": np.repeat([0.0, 1.0, 2.0, 3.0, 4.0], N // 5),
            "para": np.repeat([0.0, 1.0], [N // 4, 3 * N // 4]),
            "sts": np.linspace(0, 5, N),
        }
        self.files: dict[str, Path] = {}
        self.variants: dict[str, dict[str, Any]] = {}

    def run(self, variant: str, seed: int = 0, key: str = "", **skill: float) -> None:
        """Add a run: `skill` is the share that is right of sst and para, and about sts's r."""
        key = key or variant
        path = self.folder / f"{key}.{seed}" / "predictions.parquet"
        if not path.exists():
            path.parent.mkdir(parents=True)
            rows = [row for task, share in skill.items() for row in self._rows(task, share)]
            pq.write_table(pa.Table.from_pylist(rows, schema=PREDICTIONS), path)
            history(path.with_name("history.parquet"))
        self.files[f"{key}.{seed}"] = path
        about = {"name": variant, "key": key, "tasks": dict.fromkeys(skill, key)}
        self.variants.setdefault(variant, about)

    def curve(self, variant: str, seed: int, **curves: Any) -> None:
        """Write a run's history: the values by epoch of `split_task` and `loss_task`."""
        rows = []
        for name, values in curves.items():
            split, task = name.split("_")
            metric = "loss" if split == "loss" else TASKS[task].metric
            about = {"split": split.replace("loss", "train"), "task": task, "metric": metric}
            for epoch, value in enumerate(values, 1):
                rows.append(about | {"step": epoch, "epoch": epoch, "value": value, "time": 0.0})
        path = self.folder / f"{variant}.{seed}" / "history.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)

    def _rows(self, task: str, share: float) -> list[dict[str, Any]]:
        labels = self.labels[task]
        if task == "sts":
            noise = self.draw.normal(size=N) * labels.std()
            predicted = share * labels + np.sqrt(1 - share**2) * noise
        else:
            wrong = self.draw.random(N) >= share
            predicted = np.where(wrong, (labels + 1) % (5 if task == "sst" else 2), labels)
        order = self.draw.permutation(N)
        hidden = {"id": "t", "task": task, "split": "test", "prediction": 0.0, "scores": [0.0]}
        return [hidden] + [
            {"id": f"{task}{i}", "task": task, "split": "dev", "prediction": float(predicted[i])}
            | {"scores": [0.0], "label": float(labels[i])}
            for i in order
        ]

    def judge(self, *claims: dict[str, Any], **about: Any) -> list[dict[str, str]]:
        """Build the table, with what is said `about` it, and return its lines."""
        scores = self.folder / "scores.parquet"
        seeds = sorted({int(run.rpartition(".")[2]) for run in self.files})
        score(scores, *self.variants.values(), seeds=seeds)
        default = {"paper": "p", "section": "5", "claim": "It is.", "score": None, "task": "sst"}
        default |= {"direction": "higher", "margin": None, "published_difference": None}
        spec = {"claims": [default | claim for claim in claims], "titles": {"p": "Title"}}
        spec |= {"seeds": 1, "backbone": "tiny", "data": "real", "selection_split": "dev"}
        spec |= {"overall_tasks": {"p": OVERALL_TASKS}} | about
        build_claims(spec, {"p": scores}, self.files, self.folder)
        with (self.folder / "claims.csv").open(encoding="utf-8", newline="") as handle:
            return list(csv.DictReader(handle))

    def text(self, ending: str) -> str:
        return (self.folder / f"claims.{ending}").read_text(encoding="utf-8")


def against(variant: str, *others: str, **more: Any) -> dict[str, Any]:
    guess = f"{more['score']:g}" if "score" in more else "majority"
    return {"variant": variant, "against": others or (guess,)} | more
