"""A results folder as planning and training leave it, written by hand: no model is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from factories import predictions, put_rows

from minbert.base.files import write_json
from minbert.evaluate.reading import SCHEMA
from minbert.store.plans import plan_path, write_plan


class Planned:
    """Stages are added to the plan one by one; some of them are trained."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.rows: list[list[str]] = []
        self.jobs: dict[str, Any] = {}

    def stage(
        self, key: str, tasks: str, variant: str, paper: str = "p", seeds: tuple[int, ...] = (0,)
    ) -> None:
        """Plan a stage of `tasks` (words), and leave the record of training it with `seeds`."""
        words = tasks.split()
        # Only one task is trained: which ones a stage has, its description says.
        self.rows.append([paper, variant, key, words[0], key, "backbone", variant, ""])
        spec = {"stage": {"tasks": {task: {} for task in words}}}
        owner = {"paper": paper, "variant": variant, "stage": "s"}
        described = {"kind": "train", "key": key, "spec": spec, "code": {}, "needs": {}}
        write_json(self.root / "store" / "spec" / f"train-{key}.json", described)
        own = {"title": variant, "owner": owner, "extra": {}, "needs": {}}
        self.jobs[f"train-{key}"] = own
        self.publish(self.rows)
        for seed in seeds:
            write_json(self.folder(key, seed) / "run.json", {})

    def publish(self, rows: list[list[str]], **more: Any) -> None:
        """Publish a plan with these `rows`, the only one."""
        for path in plan_path(self.root, "").parent.glob("*.json"):
            path.unlink()
        self.plan(rows, **more)

    def plan(self, rows: list[list[str]], **more: Any) -> None:
        """Publish a plan with these `rows`; earlier ones stay."""
        papers = {row[0]: {"scores": row[0]} for row in rows}
        record = {"jobs": self.jobs, "papers": papers, "options": "", "variants": rows, **more}
        name = write_plan(self.root, record)
        page = {"plan": name, "stamp": "", "names": []}
        write_json(self.root / record.get("below", "") / "published.json", page)

    def folder(self, key: str, seed: int = 0) -> Path:
        """Return where a run's files lie."""
        return self.root / "store" / "train" / key / f"seed{seed}"

    def predictions(self, key: str, rows: list[tuple[str, str, str, float]], seed: int = 0) -> None:
        """Leave the predictions [(id, task, split, value)] of a run."""
        predictions(self.folder(key, seed) / "predictions.parquet", *((*row, None) for row in rows))

    def scores(self, rows: list[tuple[str, int, str, str]], paper: str = "p") -> None:
        """Leave the rows [(variant, seed, task, key)] of a paper's score table."""
        about = {"paper": paper, "split": "dev", "metric": "accuracy", "value": 0.5}
        table = [
            {**about, "variant": variant, "seed": seed, "task": task, "key": key}
            for variant, seed, task, key in rows
        ]
        put_rows(self.root / "store" / "scores" / paper / "scores.parquet", table, SCHEMA)
