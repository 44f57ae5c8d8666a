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
from minbert.data.labels import read_labels, with_labels
from minbert.data.parquet import read_file
from minbert.evaluate.floors import FloorTest, against_floor
from minbert.evaluate.gain import DELTA_M, delta_m
from minbert.evaluate.metrics import task_metrics
from minbert.evaluate.reading import SCHEMA
from minbert.evaluate.sampling import overall_error, standard_error
from minbert.evaluate.scoring import overall
from minbert.evaluate.tuning import read_tuning
from minbert.spec.protocol import OVERALL_TASKS, RULES
from minbert.spec.task import TASKS, known_task
from minbert.store.job import Job


class Measured(NamedTuple):
    """A task's metrics on one split; of its own metric, the floor and the standard error."""

    metrics: Mapping[str, float]
    floor: FloorTest
    error: float | None


Read = Callable[[Path, str], dict[str, Measured | None]]


class TaskScore(NamedTuple):
    """What was measured of a task on one split, its stage's key, `last` as in `score_runs`."""

    key: str
    measured: Measured
    last: float | None = None


class RunScores(NamedTuple):
    """One run's scores, {split: {task: score}}; `key` is that of its last stage.

    A task is missing from a split in which its labels are not public. Split `selection` has tasks
    only where a half of dev chose the epoch.
    """

    key: str
    splits: Mapping[str, Mapping[str, TaskScore]]

    @property
    def chosen_on(self) -> str:
        """The split that `best_of` compares: dev, or the half of it that chose the epoch too."""
        return "selection" if self.splits.get("selection") else "dev"

    def main(self, split: str) -> dict[str, float]:
        """Return {task: value of the task's own metric}."""
        measured = {task: of.measured.metrics for task, of in self.splits[split].items()}
        return {task: metrics[TASKS[task].metric] for task, metrics in measured.items()}

    def floors(self, split: str) -> dict[str, float]:
        """Return {task: the floor of the task's own metric}."""
        return {task: of.measured.floor.floor for task, of in self.splits[split].items()}

    def last(self, split: str) -> dict[str, float]:
        """Return {task: score after the last epoch} of those tasks where it was measured."""
        return {t: of.last for t, of in self.splits[split].items() if of.last is not None}


Seeds = Mapping[int, RunScores]
"""The runs of one variant by seed: those that have scores."""


def make(job: Job) -> None:
    """Score every run of a paper."""
    runs = []
    tuned = read_tuning(job.need("tuning")) if "tuning" in job.described["needs"] else {}
    for asked in job.spec["runs"]:
        run = asked
        if "tried" in run:
            if not (candidate := tuned[run["variant"]].candidate):
                continue
            run = run | run["tried"][candidate]
        runs.append(run | {"tasks": files_of(job, run.get("tasks", {}), run["seed"])})
    joined = {task: path for task, path in job.needs("labels").items() if path.is_file()}
    labels = {task: read_labels(path) for task, path in joined.items()}
    of = (job.spec["single"], labels, job.spec["overall_tasks"])
    score_runs(runs, job.out / "scores.parquet", *of)


def files_of(job: Job, keys: Mapping[str, str], seed: int) -> dict[str, dict[str, Any]]:
    """Return the `tasks` of a run (`score_runs`) from {task: key of its training}."""
    return {
        task: {"key": key}
        | {file: job.need(f"{file}.{key}.{seed}") for file in ("predictions", "history")}
        for task, key in keys.items()
    }


def score_runs(
    runs: Sequence[Mapping[str, Any]],
    out: Path,
    single: str = "",
    labels: Mapping[str, Mapping[str, float]] | None = None,
    overall_tasks: Sequence[str] = OVERALL_TASKS,
) -> None:
    """Score the predictions of `runs` and write the table to `out` (parquet, `SCHEMA`).

    A run is {paper, variant, seed, key, tested, tasks: {task: {predictions: path, history: path,
    key}}}. Dev is always scored; test only if the run is `tested` and the split has labels, or
    gets some from `labels`, {task: {id: label}}: then the rows that have one are scored. Each
    task has a row for each of its metrics; a split with all `overall_tasks` has two more, task
    `overall`, with metrics `normalised` and `plain` under the run's own key. A run that lacks one
    of its files is left out whole, as half a run would look like a run of fewer tasks.

    Column `last` has the dev score after the last epoch, for a task's own metric and the overall
    scores; null if it was not measured, as for tasks that are only carried along. `floor`
    and `error` (`sampling.standard_error`) are those of the same scores, `p_floor` and `constant`
    (`floors.against_floor`) of a task's own metric; null elsewhere.

    A run with {best_of: variants of the paper, by, rule} instead of tasks gets the scores of the
    best of them (`best_of`), under the keys of what was chosen. If it is `tested`, it gets their
    test scores too, even if they themselves are not.

    If the variant `single` has scores, `overall` has the metric `delta_m` too (`gain.delta_m`, in
    per cent): the gain over its run with the same seed, or if there is none, over its mean.

    Rows keep the order of `runs`; a file that several runs share is read once. Raises `UserError`
    if the same paper, variant and seed occur twice, or predictions are malformed.
    """
    found: dict[tuple[str, str], dict[int, RunScores]] = {}

    @cache
    def read(path: Path, task: str) -> dict[str, Measured | None]:
        return score_file(path, task, labels.get(task) if labels else None)

    seen: set[tuple[str, str, int]] = set()
    for run in runs:
        name = (run["paper"], run["variant"], run["seed"])
        if name in seen:
            raise UserError(
                f"{name[0]}: variant '{name[1]}', seed {name[2]} is there twice; "
                "a run has one set of scores: drop one or rename its variant"
            )
        seen.add(name)
        if "best_of" not in run and (scores := run_scores(run, read)) is not None:
            found.setdefault(name[:2], {})[name[2]] = scores
    for run in runs:
        if "best_of" in run:
            candidates = {name: found.get((run["paper"], name), {}) for name in run["best_of"]}
            best = best_of(candidates, run["by"], run["rule"], overall_tasks)
            found[run["paper"], run["variant"]] = best
    rows: list[dict[str, Any]] = []
    for run in runs:
        scores = found.get((run["paper"], run["variant"]), {}).get(run["seed"])
        if scores is not None:
            alone = found.get((run["paper"], single), {})
            beside = [alone[run["seed"]]] if run["seed"] in alone else list(alone.values())
            for split in ("dev", "test") if run["tested"] else ("dev",):
                rows.extend(_rows(run, split, scores, beside, overall_tasks))
    with whole(out) as temporary:
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), temporary)


def run_scores(run: Mapping[str, Any], read: Read) -> RunScores | None:
    """Return the scores of a run, {key, tasks} as of `score_runs`; None if a file is missing.

    `read` is `score_file`, which need not read a file twice.
    """
    tasks: Mapping[str, Mapping[str, Any]] = run["tasks"]
    files = [Path(of[name]) for of in tasks.values() for name in ("predictions", "history")]
    if not all(path.is_file() for path in files):
        return None
    splits: dict[str, dict[str, TaskScore]] = {"dev": {}, "selection": {}, "test": {}}
    for task, of in tasks.items():
        for split, measured in read(Path(of["predictions"]), task).items():
            if measured is not None:
                last = _last_dev_score(of["history"], task) if split == "dev" else None
                splits[split][task] = TaskScore(of["key"], measured, last)
    return RunScores(run["key"], splits)


def best_of(
    candidates: Mapping[str, Seeds],
    by: Literal["overall", "task"],
    rule: str,
    overall_tasks: Sequence[str] = OVERALL_TASKS,
) -> dict[int, RunScores]:
    """Return the runs of the best of `candidates`, by seed; none if no candidate has scores.

    By `overall`: the candidate with the highest mean dev score under `rule`, over those of its
    seeds that have scores. By `task`: the same for each task by its own metric; the tasks of one
    run may then come from several candidates. Its key is "", as it trains nothing. The first
    candidate wins a tie. Test scores come along and decide nothing. Where a half of dev chose the
    epochs, its scores choose here too.
    """
    if by == "overall":
        chosen_runs = _highest(candidates, lambda main: overall(main, rule, overall_tasks))
        return {seed: run._replace(key="") for seed, run in chosen_runs.items()}
    chosen = {task: _highest(candidates, methodcaller("get", task)) for task in TASKS}
    found = {}
    for seed in sorted({seed for seeds in chosen.values() for seed in seeds}):
        runs = {task: seeds[seed].splits for task, seeds in chosen.items() if seed in seeds}
        splits = {
            split: {t: of[split][t] for t, of in runs.items() if t in of.get(split, ())}
            for split in ("dev", "selection", "test")
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
        values = [v for run in seeds.values() if (v := score(run.main(run.chosen_on))) is not None]
        if values:
            means[name] = fmean(values)
    return candidates[max(means, key=lambda name: means[name])] if means else {}


def _rows(
    run: Mapping[str, Any],
    split: str,
    scores: RunScores,
    beside: Sequence[RunScores],
    overall_tasks: Sequence[str],
) -> list[dict[str, Any]]:
    """Return a run's rows; `beside` are the runs whose mean its gain is over."""
    found: list[dict[str, Any]] = []
    for task, score in scores.splits[split].items():
        for metric, value in score.measured.metrics.items():
            row: dict[str, Any]
            row = {"task": task, "metric": metric, "value": value, "key": score.key}
            if metric == TASKS[task].metric:
                _, test, error = score.measured
                row |= {"last": score.last, "floor": test.floor, "error": error}
                row |= {"p_floor": test.p, "constant": test.constant}
            found.append(row)
    of_tasks = (scores.main(split), scores.last(split), scores.floors(split))
    errors = {task: of.measured.error for task, of in scores.splits[split].items()}
    for rule in RULES:
        whole, last, floor = (overall(of, rule, overall_tasks) for of in of_tasks)
        row = {"task": "overall", "metric": rule, "value": whole, "key": scores.key}
        row["error"] = overall_error(errors, rule, overall_tasks)
        found.append(row | {"last": last, "floor": floor})
    singles = (_means([of.main(split) for of in beside]), _means([of.last(split) for of in beside]))
    gains = (delta_m(*pair, overall_tasks) for pair in zip(of_tasks[:2], singles, strict=True))
    row = {"task": "overall", "metric": DELTA_M, "key": scores.key}
    found.append(row | dict(zip(("value", "last"), gains, strict=True)))
    found = [row for row in found if row["value"] is not None]
    about = {name: run[name] for name in ("paper", "variant", "seed")} | {"split": split}
    return [about | row for row in found]


def _means(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean over runs of each task that all of them have; nothing without a run."""
    common = [task for task in TASKS if scores and all(task in of for of in scores)]
    return {task: fmean(of[task] for of in scores) for task in common}


def _last_dev_score(history: Path, task: str) -> float | None:
    """Return the dev score of `task` after the last epoch of a run; None if it was not measured."""
    wanted = {"split": "dev", "task": task, "metric": TASKS[task].metric}
    columns = ("epoch", "split", "task", "metric", "value")
    rows = read_file(history, columns, wanted).to_pylist()
    return max(rows, key=lambda row: row["epoch"])["value"] if rows else None


def score_file(
    path: Path, task: str, labels: Mapping[str, float] | None = None
) -> dict[str, Measured | None]:
    """Return {split: what was measured} of `task` in the file at `path`; None without labels.

    `labels` are those of test rows that have none in the file.
    """
    columns = ("id", "task", "split", "prediction", "label")
    table = read_file(path, columns, {"task": known_task(task).name})
    if table.num_rows == 0:
        raise UserError(f"{path}: no predictions of task '{task}'; train the run again")
    dev = _score_split(path, task, table, "dev")
    if dev is None:
        raise UserError(f"{path}: task '{task}' has no labelled dev rows; dev is always scored")
    test = table.filter(pc.equal(table["split"], "test"))
    test = test if labels is None else with_labels(test, labels)
    others = {"selection": table, "test": test}
    found = {split: _score_split(path, task, of, split) for split, of in others.items()}
    return {"dev": dev, **found}


def _score_split(path: Path, task: str, table: pa.Table, split: str) -> Measured | None:
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
    return Measured(
        task_metrics(task, prediction, label),
        against_floor(task, prediction, label),
        standard_error(task, prediction, label),
    )


def _floats(column: pa.ChunkedArray, where: str) -> np.ndarray:
    """Return `column` as float64 [n], null as nan."""
    try:
        return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=float)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UserError(f"{where}: expected numbers, found {column.type}") from error
