"""A paper's rows in MLflow: for each a run with what its table says, above the runs of its seeds.

What is published is read without mlflow (`read_rows`); the follower stores it (`store_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from minbert.base.files import read_json
from minbert.evaluate.scoring import CORRELATIONS
from minbert.evaluate.text import markdown, read_csv
from minbert.spec.task import TASKS
from minbert.store.job import node_folder
from minbert.store.plans import stage_rows
from minbert.store.record import sound
from minbert.track.journal import BEST, COST, FLOOR, TEST, Attempt
from minbert.track.runs import PEAKS, costs
from minbert.track.store import ROW, Store, Tag
from minbert.track.writer import StoredRun, milliseconds

ROWS = "rows.json"
"""The file in the attempt of a grid's own run that has the `rows`, and the `keys` of all stages."""
_PEAKS = {f"{COST}/{name}" for name in PEAKS}
_PARTS = {"mean": "", "low": "/low", "high": "/high"}
"""What a column of the table ends with, and the metric that it is."""
_LEGEND = (
    "Means over `n` seeds with their 95 % interval: `best/` on dev, `test/` on test. `cost/` is "
    "what one seed took. The runs of its stages and seeds are its child runs."
)


def read_rows(root: Path, listed: Mapping[str, Any], paper: str, table: Path) -> list[Any]:
    """Return the scored rows of a paper's table (csv), one for each variant, as JSON-able data.

    Each has its `variant`, `label`, `metrics` (names to numbers), `tags`, `seeds`, and `stages`: a
    list of (name, key) of its trainings, or of those that its scores are of if it trains nothing.
    `listed` is what is published (`Plan.publication`).
    """
    facts = listed["papers"][paper]
    stages = [row for row in stage_rows(listed["variants"]) if row["paper"] == paper]
    labels = {**facts["labels"], **{stage["variant"]: stage["label"] for stage in stages}}
    found: dict[str, dict[str, Any]] = {}
    for line in read_csv(table):
        if line["seeds"] == "0":
            continue
        variant = line["variant"]
        row = found.setdefault(variant, {"variant": variant, "metrics": {}, "tags": {}})
        own = [(each["stage"], each["key"]) for each in stages if each["variant"] == variant]
        row |= {"label": labels.get(variant, variant), "seeds": facts["seeds"], "chosen": not own}
        row["stages"] = own or [("chosen", key) for key in line["keys"].split()]
        row["metrics"] |= _scores(line, facts["rule"])
        if line["split"] == "dev":
            row["tags"] |= _learned(line)
    for row in found.values():
        row["metrics"] |= _costs(root, row)
    return list(found.values())


def _scores(line: Mapping[str, str], rule: str) -> dict[str, float]:
    split = {"dev": BEST, "test": TEST}[line["split"]]
    found = {"n": float(line["seeds"])}
    for name in ("overall", *TASKS):
        column = f"overall_{rule}" if name == "overall" else name
        parts = {f"{column}_{part}": f"{split}/{name}{end}" for part, end in _PARTS.items()}
        if split == BEST:
            parts[f"{column}_floor"] = f"{FLOOR}/{name}"
        # An interval is cut where scores end.
        signed = TASKS[name].metric in CORRELATIONS if name in TASKS else rule == "plain"
        values = {metric: float(line[of]) for of, metric in parts.items() if line.get(of)}
        found |= {metric: min(max(v, -1.0 * signed), 1.0) for metric, v in values.items()}
    return found


def _learned(line: Mapping[str, str]) -> dict[str, str]:
    """Return the tags on what most of the row's seeds learnt."""
    above = {task: int(n) for task in TASKS if (n := line.get(f"{task}_above"))}
    most = {task: 2 * n > int(line[f"{task}_n"]) for task, n in above.items()}
    words = {"learned": True, "not_learned": False}
    return {word: ",".join(t for t in most if most[t] == is_so) for word, is_so in words.items()}


def _costs(root: Path, row: Mapping[str, Any]) -> dict[str, float]:
    """Return what a seed of the row takes: all of its stages, by the mean over seeds."""
    if row["chosen"]:
        return {}
    stages: list[dict[str, float]] = []
    for _, key in row["stages"]:
        folders = [node_folder(root, "train", key, seed) for seed in row["seeds"]]
        if not (ran := [costs(record) for f in folders if (record := sound(f / "run.json"))]):
            return {}
        stages.append(_joined(ran, fmean))
    total, rate, seconds = _joined(stages, sum), f"{COST}/tokens_per_second", f"{COST}/seconds"
    if rate in total:
        total[rate] = sum(of[seconds] * of[rate] for of in stages) / total[seconds]
    return total


def _joined(
    several: Sequence[Mapping[str, float]], how: Callable[[list[float]], float]
) -> dict[str, float]:
    """Return what all of several costs have, joined; of memory the most."""
    names = [name for name in several[0] if all(name in of for of in several)]
    return {n: (max if n in _PEAKS else how)([of[n] for of in several]) for n in names}


def store_rows(
    store: Store,
    attempt: Attempt,
    experiment: str,
    grid: str,
    trained: Mapping[tuple[str, str], StoredRun],
) -> None:
    """Store the rows that the newest `attempt` at a grid's own run has; each is one run.

    `grid` tells the grids of several results folders apart, as a server may have more than one. A
    row is found again by it, so this may be repeated. One that the table no longer has is marked
    superseded; so is one with a score that it no longer has, as MLflow cannot take that back, and
    each of `trained`, the runs by key and seed, whose stage no variant has any more.
    """
    from mlflow.entities import Metric, Param, RunTag

    page, ended = read_json(attempt.path / ROWS), milliseconds((attempt.end() or {})["ended"])
    query = f"tags.`{Tag.KIND}` = '{ROW}' AND tags.`{Tag.GRID}` = '{grid}'"
    query += f" AND tags.`{Tag.SUPERSEDED}` IS NULL"
    found = (r for r in store.runs(query, experiment) if r.info.lifecycle_stage == "active")
    old = {run.data.tags[Tag.ROW]: run for run in found}
    rows = {}
    for row in page["rows"]:
        run = old.get(name := row["variant"])
        if run is None or run.data.metrics.keys() - row["metrics"].keys():
            tags = {Tag.KIND: ROW, Tag.ROW: name, Tag.GRID: grid}
            tags |= {"mlflow.source.name": "minbert", "mlflow.source.type": "JOB"}
            started = milliseconds(attempt.run["started"])
            run = store.client.create_run(experiment, started, tags, run_name=name)
        note = f"**{markdown(row['label'])}.** {_LEGEND}"
        run_id = rows[name] = run.info.run_id
        store.client.log_batch(
            run_id,
            metrics=[Metric(of, value, ended, 0) for of, value in row["metrics"].items()],
            params=[Param("variant", name)],
            tags=[RunTag(of, value) for of, value in (row["tags"] | {Tag.NOTE: note}).items()],
        )
        store.client.set_terminated(run_id, "FINISHED", ended)
    for run in old.values():
        if run.info.run_id not in rows.values():
            store.supersede(run.info.run_id, attempt.name)
    above = _parents(page["rows"], rows)
    for which, child in trained.items():
        if child.deleted or child.experiment != experiment:  # MLflow nests within one.
            continue
        if (parent := above.get(which, child.parent)) not in (None, child.parent):
            store.client.set_tag(child.run_id, Tag.PARENT, parent)
            child.parent = parent
        by = None if which[0] in page["keys"] else attempt.name
        if (by is None) != (child.superseded is None):
            store.supersede(child.run_id, by)
            child.superseded = by


def _parents(rows: Sequence[Mapping[str, Any]], ids: Mapping[str, str]) -> dict[Any, str]:
    """Return the id of the row that each training, (key, seed), stands under.

    Of those that share it the first; rows that only choose among the runs of others come last.
    """
    found: dict[Any, str] = {}
    for row in sorted(rows, key=lambda row: row["chosen"]):
        for which in product((key for _, key in row["stages"]), map(str, row["seeds"])):
            found.setdefault(which, ids[row["variant"]])
    return found
