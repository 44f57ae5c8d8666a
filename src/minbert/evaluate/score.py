"""The score table of all runs of a paper, made from their predictions."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import methodcaller
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from minbert.base.errors import UserError
from minbert.base.files import whole
from minbert.data.parquet import read_file
from minbert.evaluate.gain import DELTA_M, delta_m
from minbert.evaluate.metrics import task_metrics
from minbert.evaluate.reading import SCHEMA
from minbert.evaluate.scoring import overall
from minbert.spec.protocol import RULES
from minbert.spec.task import TASKS, known_task
from minbert.store.job import Job

Metrics = dict[str, float]
Read = Callable[[Path, str], dict[str, Metrics | None]]


class TaskScore(NamedTuple):
    """A task's metrics on one split, the key of its stage, and `last` as in `score_runs`."""

    key: str
    metrics: Mapping[str, float]
    last: float | None = None


class RunScores(NamedTuple):
    """One run's scores, {split: {task: score}}; `key` is that of its last stage.

    A task is missing from a split in which its labels are not public.
    """

    key: str
    splits: Mapping[str, Mapping[str, TaskScore]]

    def main(self, split: str) -> dict[str, float]:
        """Return {task: value of the task's own metric}."""
        return {task: of.metrics[TASKS[task].metric] for task, of in self.splits[split].items()}

    def last(self, split: str) -> dict[str, float]:
        """Return {task: score after the last epoch} of those tasks where it was measured."""
        return {t: of.last for t, of in self.splits[split].items() if of.last is not None}


Seeds = Mapping[int, RunScores]
"""The runs of one variant by seed: those that have scores."""


def make(job: Job) -> None:
    """Score every run of a paper."""
    runs = []
    for run in job.spec["runs"]:
        tasks = {
            task: {"key": key}
            | {f: job.need(f"{f}.{key}.{run['seed']}") for f in ("predictions", "history")}
            for task, key in run.get("tasks", {}).items()
        }
        runs.append(run | {"tasks": tasks})
    score_runs(runs, job.out / "scores.parquet", job.spec["single"])


def score_runs(runs: Sequence[Mapping[str, Any]], out: Path, single: str = "") -> None:
    """Score the predictions of `runs` and write the table to `out` (parquet, `SCHEMA`).

    A run is {paper, variant, seed, key, tested, tasks: {task: {predictions: path, history: path,
    key}}}. Dev is always scored; test only if the run is `tested` and the split has labels. Each
    task has a row for each of its metrics; a split with SST, para and STS has two more, task
    `overall`, with metrics `normalised` and `plain` under the run's own key. A run that lacks one
    of its files is left out whole, as half a run would look like a run of fewer tasks.

    Column `last` has the dev score after the last epoch, for a task's own metric and the overall
    scores; null if it was not measured, as for tasks that are only carried along.

    A run with {best_of: variants of the paper, by, rule} instead of tasks gets the scores of the
    best of them (`best_of`), under the keys of what was chosen. If it is `tested`, it gets their
    test scores too, even if they themselves are not.

    If the variant `single` has scores, `overall` has the metric `delta_m` too (`gain.delta_m`, in
    per cent): the gain over its run with the same seed, or if there is none, over its mean.

    Rows keep the order of `runs`; a file that several runs share is read once. Raises `UserError`
    if the same paper, variant and seed occur twice, or predictions are malformed.
    """
    found: dict[tuple[str, str], dict[int, RunScores]] = {}
    read = cache(_score_file)
    seen: set[tuple[str, str, int]] = set()
    for run in runs:
        name = (run["paper"], run["variant"], run["seed"])
        if name in seen:
            raise UserError(
                f"{name[0]}: variant '{name[1]}', seed {name[2]} is there twice; "
                "a run has one set of scores: drop one or rename its variant"
            )
        seen.add(name)
        if "best_of" not in run and (scores := _run_scores(run, read)) is not None:
            found.setdefault(name[:2], {})[name[2]] = scores
    for run in runs:
        if "best_of" in run:
            candidates = {name: found.get((run["paper"], name), {}) for name in run["best_of"]}
            best = best_of(candidates, run["by"], run["rule"])
            found[run["paper"], run["variant"]] = best
    rows: list[dict[str, Any]] = []
    for run in runs:
        scores = found.get((run["paper"], run["variant"]), {}).get(run["seed"])
        if scores is not None:
            alone = found.get((run["paper"], single), {})
            beside = [alone[run["seed"]]] if run["seed"] in alone else list(alone.values())
            for split in ("dev", "test") if run["tested"] else ("dev",):
                rows.extend(_rows(run, split, scores, beside))
    with whole(out) as temporary:
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), temporary)


def _run_scores(run: Mapping[str, Any], read: Read) -> RunScores | None:
    """Return a run's scores; None if one of its files is missing."""
    tasks: Mapping[str, Mapping[str, Any]] = run["tasks"]
    files = [Path(of[name]) for of in tasks.values() for name in ("predictions", "history")]
    if not all(path.is_file() for path in files):
        return None
    splits: dict[str, dict[str, TaskScore]] = {"dev": {}, "test": {}}
    for task, of in tasks.items():
        for split, metrics in read(Path(of["predictions"]), task).items():
            if metrics is not None:
                last = _last_dev_score(of["history"], task) if split == "dev" else None
                splits[split][task] = TaskScore(of["key"], metrics, last)
    return RunScores(run["key"], splits)


def best_of(
    candidates: Mapping[str, Seeds], by: Literal["overall", "task"], rule: str
) -> dict[int, RunScores]:
    """Return the runs of the best of `candidates`, by seed; none if no candidate has scores.

    By `overall`: the candidate with the highest mean dev score under `rule`, over those of its
    seeds that have scores. By `task`: the same for each task by its own metric; the tasks of one
    run may then come from several candidates, and no stage is its last (key ""). The first
    candidate wins a tie. Test scores come along and decide nothing.
    """
    if by == "overall":
        return dict(_highest(candidates, lambda main: overall(main, rule)))
    chosen = {task: _highest(candidates, methodcaller("get", task)) for task in TASKS}
    found = {}
    for seed in sorted({seed for seeds in chosen.values() for seed in seeds}):
        runs = {task: seeds[seed].splits for task, seeds in chosen.items() if seed in seeds}
        splits = {
            split: {task: of[split][task] for task, of in runs.items() if task in of[split]}
            for split in ("dev", "test")
        }
        found[seed] = RunScores("", splits)
    return found


def _highest(
    candidates: Mapping[str, Seeds], score: Callable[[dict[str, float]], float | None]
) -> Seeds:
    """Return the runs of the candidate with the highest mean `score` of its dev scores over seeds.

    The first of a tie; none if no candidate has a score. Means are exact sums over counts, so that
    the same values in another order tie.
    """
    means = {}
    for name, seeds in candidates.items():
        values = [v for run in seeds.values() if (v := score(run.main("dev"))) is not None]
        if values:
            means[name] = fmean(values)
    return candidates[max(means, key=lambda name: means[name])] if means else {}


def _rows(
    run: Mapping[str, Any], split: str, scores: RunScores, beside: Sequence[RunScores]
) -> list[dict[str, Any]]:
    """Return a run's rows; `beside` are the runs whose mean its gain is over."""
    values = [
        (task, metric, value, score.key, score.last if metric == TASKS[task].metric else None)
        for task, score in scores.splits[split].items()
        for metric, value in score.metrics.items()
    ]
    main, last = scores.main(split), scores.last(split)
    whole: dict[str, tuple[float | None, float | None]]
    whole = {rule: (overall(main, rule), overall(last, rule)) for rule in RULES}
    singles = (_means([of.main(split) for of in beside]), _means([of.last(split) for of in beside]))
    whole[DELTA_M] = (delta_m(main, singles[0]), delta_m(last, singles[1]))
    values += [
        ("overall", metric, value, scores.key, at_end)
        for metric, (value, at_end) in whole.items()
        if value is not None
    ]
    about = {name: run[name] for name in ("paper", "variant", "seed")} | {"split": split}
    names = ("task", "metric", "value", "key", "last")
    return [about | dict(zip(names, each, strict=True)) for each in values]


def _means(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean over runs of each task that all of them have; nothing without a run."""
    common = [task for task in TASKS if scores and all(task in of for of in scores)]
    return {task: fmean(of[task] for of in scores) for task in common}


def _last_dev_score(history: Path, task: str) -> float | None:
    """Return the dev score of `task` after the last epoch of a run; None if it was not measured."""
    wanted = [("split", "=", "dev"), ("task", "=", task), ("metric", "=", TASKS[task].metric)]
    columns = ("epoch", "split", "task", "metric", "value")
    rows = read_file(history, columns, wanted).to_pylist()
    return max(rows, key=lambda row: row["epoch"])["value"] if rows else None


def _score_file(path: Path, task: str) -> dict[str, Metrics | None]:
    """Return {split: metrics} of `task` in the file at `path`; None for a split without labels."""
    columns = ("id", "task", "split", "prediction", "label")
    table = read_file(path, columns, [("task", "=", known_task(task).name)])
    if table.num_rows == 0:
        raise UserError(f"{path}: no predictions of task '{task}'; train the run again")
    dev = _score_split(path, task, table, "dev")
    if dev is None:
        raise UserError(f"{path}: task '{task}' has no labelled dev rows; dev is always scored")
    return {"dev": dev, "test": _score_split(path, task, table, "test")}


def _score_split(path: Path, task: str, table: pa.Table, split: str) -> Metrics | None:
    part = table.filter(pc.equal(table["split"], split))
    where = f"{path}: task '{task}', {split}"
    ids = part["id"].to_pylist()
    if len(set(ids)) < len(ids):
        twice = next(one for one in ids if ids.count(one) > 1)
        raise UserError(f"{where}: id '{twice}' is predicted more than once; train the run again")
    label = _floats(part["label"], f"{where}, column 'label'")
    absent = int(np.isnan(label).sum())
    if absent == len(label):
        return None
    if absent:
        raise UserError(
            f"{where}: {absent} of {len(label)} rows have no label; a split is labelled or is not"
        )
    prediction = _floats(part["prediction"], f"{where}, column 'prediction'")
    broken = ~np.isfinite(prediction)
    if broken.any():
        raise UserError(
            f"{where}: {int(broken.sum())} of {len(label)} predictions are not finite numbers, the "
            f"first of id '{ids[int(broken.argmax())]}'; train with a lower learning rate"
        )
    return task_metrics(task, prediction, label)


def _floats(column: pa.ChunkedArray, where: str) -> np.ndarray:
    """Return `column` as float64 [n], null as nan."""
    try:
        return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=float)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UserError(f"{where}: expected numbers, found {column.type}") from error
