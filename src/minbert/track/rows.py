"""A paper's rows for MLflow: what its published table says of each, left for the follower to store.

Nothing here imports mlflow.
"""

import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError
from minbert.base.files import read_json, write_json
from minbert.evaluate.scoring import CORRELATIONS
from minbert.evaluate.text import read_csv
from minbert.spec.grid import ALL
from minbert.spec.task import TASKS
from minbert.store.plans import products, stage_rows
from minbert.track.journal import BEST, TEST, TRACKING

ROW, GRID = "row", "grid"
"""The kinds of runs that are no training: a row of a paper's table; the paper's tables, figures."""
_ENDS = {"mean": "", "low": "/low", "high": "/high"}
"""What a column of the table ends with, and the metric that it is."""


def record_grids(root: Path, listed: Mapping[str, Any]) -> None:
    """Write `tracking/PAPER.json` for each paper of the published plan `listed`.

    It has the paper's `rows` (variant, metrics, tags), the `keys` of its trainings, which row each
    stands below (`parents`), and the names of its published `files`. `id` stays the same.
    """
    every = stage_rows(listed["variants"])
    names = [name for name in products(root, listed) if (root / name).is_file()]
    for paper, facts in listed["papers"].items():
        path, table = root / TRACKING / f"{paper}.json", root / "tables" / f"{paper}.csv"
        rows: dict[str, dict[str, Any]] = {}
        parents: dict[str, str] = {}
        stages = [row for row in every if row["paper"] == paper]
        lines = [line for line in read_csv(table) if line["seeds"] != "0"] if table.exists() else []
        # Rows that only choose among the runs of others come last.
        for line in sorted(lines, key=lambda line: not _keys(stages, line)):
            variant, own = line["variant"], _keys(stages, line)
            row = rows.setdefault(variant, {"variant": variant, "metrics": {}, "tags": {}})
            row["metrics"] |= _scores(line, facts["rule"])
            row["tags"] |= _learned(line) if line["split"] == "dev" else {}
            for key in own or line["keys"].split():
                parents.setdefault(key, variant)
        try:
            identity = read_json(path)["id"]
        except (FileNotFoundError, UserError, KeyError):
            identity = uuid.uuid4().hex
        own_files = (f"tables/{paper}.", f"figures/{paper}/", "tables/claims.", f"figures/{ALL}/")
        page = {
            "id": identity,
            "written": time.time(),
            "rows": list(rows.values()),
            "keys": sorted({stage["key"] for stage in stages}),
            "parents": parents,
            "files": [name for name in names if name.startswith(own_files)],
        }
        write_json(path, page)


def _keys(stages: Sequence[Mapping[str, str]], line: Mapping[str, str]) -> list[str]:
    """Return the keys of a row's trainings; none if it chooses among those of others."""
    return [stage["key"] for stage in stages if stage["variant"] == line["variant"]]


def _scores(line: Mapping[str, str], rule: str) -> dict[str, float]:
    """Return the row's means and intervals, which are cut where scores end."""
    split = {"dev": BEST, "test": TEST}[line["split"]]
    found = {"n": float(line["seeds"])}
    for name in ("overall", *TASKS):
        column = f"overall_{rule}" if name == "overall" else name
        signed = TASKS[name].metric in CORRELATIONS if name in TASKS else rule == "plain"
        for part, end in _ENDS.items():
            if text := line.get(f"{column}_{part}"):
                found[f"{split}/{name}{end}"] = min(max(float(text), -1.0 * signed), 1.0)
    return found


def _learned(line: Mapping[str, str]) -> dict[str, str]:
    """Return the tags on what most of the row's seeds learnt."""
    above = {task: int(n) for task in TASKS if (n := line.get(f"{task}_above"))}
    most = {task: 2 * n > int(line[f"{task}_n"]) for task, n in above.items()}
    words = {"learned": True, "not_learned": False}
    return {word: ",".join(t for t in most if most[t] == is_so) for word, is_so in words.items()}
