"""The score table of all runs of a paper, made from their predictions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from operator import methodcaller
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from minbert.base.errors import UserError
from minbert.base.files import whole
from minbert.data.labels import read_labels, with_labels
from minbert.data.parquet import read_file
from minbert.evaluate.bootstrap import overall_error, standard_error
from minbert.evaluate.floors import against_floor
from minbert.evaluate.metrics import delta_m, task_metrics
from minbert.evaluate.reading import DELTA_M, SCHEMA, Score
from minbert.evaluate.scoring import overall
from minbert.evaluate.tuning import read_tuning
from minbert.spec.protocol import OVERALL_TASKS, RULES
from minbert.spec.task import TASKS, known_task
from minbert.store.job import Job

Split = Mapping[str, Mapping[str, Score]]
"""One run's scores in a split, {task: {metric: score}}; a task's own metric is the first."""

Splits = Mapping[str, Split]
"""One run's scores, {split: {task: {metric: score}}}.

A task is missing from a split in which its labels are not public. Split `selection` has tasks only
where a half of dev chose the epoch.
"""

Seeds = Mapping[int, Splits]
"""The runs of one variant by seed: those that have scores."""

Read = Callable[..., Split]
"""What `reader` returns."""

SPLITS = ("dev", "selection", "test")


def of_tasks(split: Split, column: str = "value") -> dict[str, float]:
    """Return {task: what a `column` of the score table has of its own metric}, where known."""
    own = {task: getattr(next(iter(of.values())), column) for task, of in split.items()}
    return {task: value for task, value in own.items() if value is not None}


def make(job: Job) -> None:
    """Score every run of a paper."""
    runs = []
    tuned = read_tuning(job.need("tuning")) if "tuning" in job.described["needs"] else {}
    for run in job.spec["runs"]:
        chosen = run
        if "tried" in run:
            if not (candidate := tuned[run["variant"]].candidate):
                continue
            chosen = run | run["tried"][candidate]
        runs.append(chosen | {"tasks": files_of(job, chosen.get("tasks", {}), run["seed"])})
    paths = job.needs("labels").items()
    labels = {task: read_labels(path) for task, path in paths if path.is_file()}
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
    labels: Mapping[str, Mapping[str, float]] = {},
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

    Rows keep the order of `runs`, which are of one paper; a file that several share is read once.
    Raises `UserError` for predictions that are not finite.
    """
    found: dict[str, dict[int, Splits]] = {}
    read = reader(labels)
    for run in runs:
        if "best_of" not in run and (scores := run_scores(run["tasks"], read)):
            found.setdefault(run["variant"], {})[run["seed"]] = scores
    for run in runs:
        if "best_of" in run:
            candidates = {name: found.get(name, {}) for name in run["best_of"]}
            found[run["variant"]] = best_of(candidates, run["by"], run["rule"], overall_tasks)
    alone = found.get(single, {})
    rows: list[dict[str, Any]] = []
    for run in runs:
        variant, seed = run["variant"], run["seed"]
        if not (splits := found.get(variant, {}).get(seed)):
            continue
        beside = [alone[seed]] if seed in alone else list(alone.values())
        for split in ("dev", "test") if run["tested"] else ("dev",):
            of = {"paper": run["paper"], "variant": variant, "seed": seed, "split": split}
            singles = [of_split[split] for of_split in beside]
            for task, metric, score in _scores(splits[split], run["key"], singles, overall_tasks):
                rows.append(of | {"task": task, "metric": metric} | score._asdict())
    with whole(out) as temporary:
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), temporary)


def run_scores(tasks: Mapping[str, Mapping[str, Any]], read: Read) -> Splits | None:
    """Return the scores of a run with `tasks`, as of `score_runs`; None if a file is missing."""
    files = [Path(of[name]) for of in tasks.values() for name in ("predictions", "history")]
    if not all(path.is_file() for path in files):
        return None
    splits: dict[str, dict[str, Mapping[str, Score]]] = {split: {} for split in SPLITS}
    for task, of in tasks.items():
        for split, found in read(task, **of).items():
            splits[split][task] = found
    return splits


def best_of(
    candidates: Mapping[str, Seeds],
    by: Literal["overall", "task"],
    rule: str,
    overall_tasks: Sequence[str] = OVERALL_TASKS,
) -> dict[int, Splits]:
    """Return the runs of the best of `candidates`, by seed; none if no candidate has scores.

    By `overall`: the candidate with the highest mean dev score under `rule`, over those of its
    seeds that have scores. By `task`: the same for each task by its own metric; the tasks of one
    run may then come from several candidates. The first candidate wins a tie. Test scores come
    along and decide nothing. Where a half of dev chose the epochs, its scores choose here too.
    """
    if by == "overall":
        return dict(_highest(candidates, lambda scores: overall(scores, rule, overall_tasks)))
    chosen = {task: _highest(candidates, methodcaller("get", task)) for task in TASKS}
    found: dict[int, Splits] = {}
    for seed in sorted({seed for seeds in chosen.values() for seed in seeds}):
        runs = {task: seeds[seed] for task, seeds in chosen.items() if seed in seeds}
        found[seed] = {
            split: {task: of[split][task] for task, of in runs.items() if task in of[split]}
            for split in SPLITS
        }
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
        chose = [of_tasks(run["selection"] or run["dev"]) for run in seeds.values()]
        values = [value for scores in chose if (value := score(scores)) is not None]
        if values:
            means[name] = fmean(values)
    return candidates[max(means, key=lambda name: means[name])] if means else {}


def _scores(
    found: Split,
    key: str,
    beside: Sequence[Split],
    overall_tasks: Sequence[str],
) -> Iterator[tuple[str, str, Score]]:
    """Yield (task, metric, score) of all that a run has in a split, then the overall scores.

    `beside` are the runs whose mean its gain is over.
    """
    for task, of_metrics in found.items():
        for metric, score in of_metrics.items():
            yield task, metric, score
    columns = {name: of_tasks(found, name) for name in ("value", "last", "floor", "error")}
    for rule in RULES:
        value, last, floor = (
            overall(columns[name], rule, overall_tasks) for name in ("value", "last", "floor")
        )
        if value is not None:
            error = overall_error(columns["error"], rule, overall_tasks)
            yield "overall", rule, Score(value, key, last, floor, error=error)
    gain, last = (
        delta_m(columns[name], _means([of_tasks(of, name) for of in beside]), overall_tasks)
        for name in ("value", "last")
    )
    if gain is not None:
        yield "overall", DELTA_M, Score(gain, key, last)


def _means(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean over runs of each task that all of them have; nothing without a run."""
    common = [task for task in TASKS if scores and all(task in of for of in scores)]
    return {task: fmean(of[task] for of in scores) for task in common}


def reader(labels: Mapping[str, Mapping[str, float]] = {}) -> Read:
    """Return a function that scores a training's files; those of several runs are read once.

    It takes a task, and as `score_runs` the `key`, `predictions` and `history` of its training, and
    returns {split: {metric: score}} of the splits that have labels. `labels` are those of test rows
    that have none in the file, {task: {id: label}}.
    """

    @cache
    def read(task: str, key: str, predictions: Path, history: Path) -> Split:
        columns = ("id", "split", "prediction", "label")
        table = read_file(predictions, columns, {"task": known_task(task).name})
        found = {}
        for split in SPLITS:
            rows = table.filter(pc.equal(table["split"], split))
            rows = with_labels(rows, labels.get(task, {}) if split == "test" else {})
            if rows.num_rows:
                last = _last_dev_score(history, task) if split == "dev" else None
                where = f"{predictions}: task '{task}', {split}"
                found[split] = _measured(rows, task, Score(0.0, key, last), where)
        return found

    return read


def _measured(rows: pa.Table, task: str, own: Score, where: str) -> dict[str, Score]:
    """Return the scores of predictions by metric, that of the task's own with all else known."""
    label, prediction = (rows[name].to_numpy() for name in ("label", "prediction"))
    broken = ~np.isfinite(prediction)
    if broken.any():
        raise UserError(
            f"{where}: {int(broken.sum())} of {len(label)} predictions are not finite numbers, the "
            f"first of id '{rows['id'][int(broken.argmax())]}'; train with a lower learning rate"
        )
    values = task_metrics(task, prediction, label)
    found = {metric: Score(value, own.key, None) for metric, value in values.items()}
    score, *test = against_floor(task, prediction, label)
    error = standard_error(task, prediction, label)
    found[TASKS[task].metric] = Score(score, own.key, own.last, *test, error)
    return found


def _last_dev_score(history: Path, task: str) -> float | None:
    """Return the dev score of `task` after the last epoch of a run; None if it was not measured."""
    wanted = {"split": "dev", "task": task, "metric": TASKS[task].metric}
    rows = read_file(history, ("epoch", "value"), wanted).to_pylist()
    return max(rows, key=lambda row: row["epoch"])["value"] if rows else None
