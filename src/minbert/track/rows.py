"""A paper's rows in MLflow: for each a run with what its table says, above the runs of its seeds.

What is published is read without mlflow (`read_rows`); the follower stores it (`store_rows`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from minbert.evaluate.text import markdown, read_csv
from minbert.spec.task import TASKS
from minbert.store.job import node_folder
from minbert.store.plans import stage_rows
from minbert.store.record import sound
from minbert.track.journal import BEST, COST, FLOOR, TEST, Attempt
from minbert.track.store import MODE, ROW, Store, Tag
from minbert.track.writer import StoredRun, milliseconds

if TYPE_CHECKING:
    from mlflow.entities import Run

ROWS = "rows.json"
"""The file in the attempt of a grid's own run that has the rows."""
Trained = Mapping[tuple[str, str], tuple[Attempt, StoredRun]]
"""The newest attempt at each training, by key and seed, and its run."""
_PARTS = {
    "dev": {
        "mean": (BEST, ""),
        "low": (BEST, "/low"),
        "high": (BEST, "/high"),
        "floor": (FLOOR, ""),
    },
    "test": {"mean": (TEST, ""), "low": (TEST, "/low"), "high": (TEST, "/high")},
}
"""{split: {part of a column of the table: begin and end of the metric}}"""


def read_rows(root: Path, listed: Mapping[str, Any], paper: str, table: Path) -> list[Any]:
    """Return the scored rows of a paper's table (csv), one for each variant, as JSON-able data.

    Each has its `variant`, `label`, `metrics` (names to numbers), `tags`, `seeds`, and `stages`: a
    list of (name, key) of its trainings, or of those that its scores are of if it trains nothing.
    `listed` is what is published (`Plan.publication`).
    """
    facts = listed["papers"][paper]
    own: dict[str, list[tuple[str, str]]] = {}
    labels = dict(facts["labels"])
    for stage in stage_rows(listed["variants"]):
        if stage["paper"] == paper:
            own.setdefault(stage["variant"], []).append((stage["stage"], stage["key"]))
            labels.setdefault(stage["variant"], stage["label"])
    found: dict[str, dict[str, Any]] = {}
    for line in read_csv(table):
        if line["seeds"] == "0":
            continue
        variant = line["variant"]
        stages = own.get(variant, [("chosen", key) for key in line["keys"].split()])
        row = {"variant": variant, "label": labels.get(variant, variant), "seeds": facts["seeds"]}
        row |= {"stages": stages, "chosen": variant not in own, "metrics": {}, "tags": {}}
        row = found.setdefault(variant, row)
        row["metrics"] |= _scores(line, facts["rule"])
        if line["split"] == "dev":
            row["tags"] |= _learned(line)
    for row in found.values():
        row["metrics"] |= _costs(root, row)
    return list(found.values())


def _scores(line: Mapping[str, str], rule: str) -> dict[str, float]:
    columns = {"overall": f"overall_{rule}"} | {task: task for task in TASKS}
    found = {"n": float(line["seeds"])}
    for name, column in columns.items():
        for part, (begin, end) in _PARTS[line["split"]].items():
            if value := line.get(f"{column}_{part}"):
                found[f"{begin}/{name}{end}"] = float(value)
    return found


def _learned(line: Mapping[str, str]) -> dict[str, str]:
    """Return the tags on what most of the row's seeds learnt."""
    tags: dict[str, list[str]] = {}
    for task in TASKS:
        if above := line.get(f"{task}_above"):
            most = 2 * int(above) > int(line[f"{task}_n"])
            tags.setdefault("learned" if most else "not_learned", []).append(task)
    return {name: ",".join(tasks) for name, tasks in tags.items()}


def _costs(root: Path, row: Mapping[str, Any]) -> dict[str, float]:
    """Return what a seed of the row takes: all of its stages, by the mean over seeds."""
    if row["chosen"]:
        return {}
    stages = []
    for _, key in row["stages"]:
        folders = [node_folder(root, "train", key, seed) for seed in row["seeds"]]
        if not (ran := [found for f in folders if (found := sound(f / "run.json"))]):
            return {}
        stages.append([costs(record) for record in ran])
    means = [{n: fmean(r[n] for r in ran if n in r) for n in ran[0]} for ran in stages]
    total = {n: sum(of[n] for of in means if n in of) for n in ("seconds", "steps")}
    tokens = [of["seconds"] * of["tokens_per_second"] for of in means if "tokens_per_second" in of]
    if len(tokens) == len(means):
        total["tokens_per_second"] = sum(tokens) / total["seconds"]
    for peak in ("peak_memory_bytes", "peak_device_memory_bytes"):
        if peaks := [of[peak] for ran in stages for of in ran if peak in of]:
            total[peak] = max(peaks)
    return {f"{COST}/{name}": value for name, value in total.items()}


def costs(record: Mapping[str, Any]) -> dict[str, float]:
    """Return what a run took, by its record: seconds, steps, tokens a second, bytes of memory."""
    names = ("seconds", "steps", "tokens_per_second")
    peaks = ("peak_memory_bytes", "peak_device_memory_bytes")
    told = {name: record["outcome"].get(name) for name in names}
    told |= {name: record.get(name) for name in peaks}
    return {name: float(value) for name, value in told.items() if value is not None}


def store_rows(store: Store, attempt: Attempt, grid: str, trained: Trained) -> None:
    """Store the rows that the newest `attempt` at a grid's own run has; each is one run.

    `grid` tells the grids of several results folders apart, as a server may have more than one. A
    row is found again by it, so this may be repeated. One that the table no longer has is marked
    superseded; so is one with a score that it no longer has, as MLflow cannot take that back.
    """
    rows, end = attempt.recall(ROWS).get("rows", []), attempt.end()
    if end is None:
        return
    identity = store.experiment(attempt.run["experiment"])
    query = f"tags.`{Tag.KIND}` = '{ROW}' AND tags.`{Tag.GRID}` = '{grid}'"
    query += f" AND tags.`{Tag.SUPERSEDED}` IS NULL"
    found = (run for run in store.runs(identity, query) if run.info.lifecycle_stage == "active")
    old = {run.data.tags[Tag.ROW]: run for run in found}
    ids = {}
    for row in rows:
        run = old.pop(name := row["variant"], None)
        if run is not None and run.data.metrics.keys() - row["metrics"].keys():
            store.client.set_tag(run.info.run_id, Tag.SUPERSEDED, attempt.name)
            run = None
        if run is None:
            tags = {Tag.KIND: ROW, Tag.ROW: name, Tag.GRID: grid}
            tags |= {"mlflow.source.name": "minbert", "mlflow.source.type": "JOB"}
            started = milliseconds(attempt.run["started"])
            run = store.client.create_run(identity, started, tags, run_name=name)
        ids[name] = run.info.run_id
        _fill(store, run, row, end["ended"], trained)
    for run in old.values():
        store.client.set_tag(run.info.run_id, Tag.SUPERSEDED, attempt.name)
    for stored, parent in _children(rows, ids, trained, attempt.run["experiment"]):
        if stored.parent != parent and not stored.deleted:
            store.client.set_tag(stored.run_id, Tag.PARENT, parent)
            stored.parent = parent


def _fill(store: Store, run: Run, row: Mapping[str, Any], ended: float, trained: Trained) -> None:
    from mlflow.entities import Metric, Param, RunTag

    run_id, at = run.info.run_id, milliseconds(ended)
    tags = row["tags"] | {Tag.NOTE: _note(store, row, trained)}
    for name in ({"learned", "not_learned"} & run.data.tags.keys()) - tags.keys():
        store.client.delete_tag(run_id, name)
    store.client.log_batch(
        run_id,
        metrics=[Metric(name, value, at, 0) for name, value in row["metrics"].items()],
        params=[Param("variant", row["variant"])],
        tags=[RunTag(name, value) for name, value in tags.items()],
    )
    store.client.set_terminated(run_id, "FINISHED", at)


def _children(
    rows: Sequence[Mapping[str, Any]], ids: Mapping[str, str], trained: Trained, paper: str
) -> Iterator[tuple[StoredRun, str]]:
    """Yield each run and the row that it stands under: of those that share it the first.

    Rows that only choose among the runs of others come last. MLflow nests within an experiment.
    """
    taken = set()
    for row in sorted(rows, key=lambda row: row["chosen"]):
        for _, key in row["stages"]:
            for which in ((key, str(seed)) for seed in row["seeds"]):
                if which in trained and which not in taken:
                    taken.add(which)
                    attempt, stored = trained[which]
                    if attempt.run["experiment"] == paper:
                        yield stored, ids[row["variant"]]


def _note(store: Store, row: Mapping[str, Any], trained: Trained) -> str:
    """Return a row's description, Markdown, with links to the curves of its seeds."""
    lines = ""
    for stage, key in row["stages"]:
        links = []
        for seed in row["seeds"]:
            if found := trained.get((key, str(seed))):
                attempt, stored = found
                place = store.experiment(attempt.run["experiment"])
                page = f"#/experiments/{place}/runs/{stored.run_id}/model-metrics{MODE}"
                links.append(f"[{markdown(attempt.run['name'])}]({page})")
        lines += f"- {stage}: {', '.join(links) or 'no run is stored'}\n"
    return f"""**{markdown(row["label"])}.** Means over `n` seeds with their 95 % interval: \
`best/` on dev, `test/` on test. `cost/` is what one seed took.

Curves of its runs:

{lines}"""
