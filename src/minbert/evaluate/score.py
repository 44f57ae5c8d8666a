"""The score table of all runs of a paper, made from their predictions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
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
from minbert.evaluate.bootstrap import overall_error, standard_error
from minbert.evaluate.floors import against_floor
from minbert.evaluate.metrics import delta_m, task_metrics
from minbert.evaluate.reading import DELTA_M, SCHEMA, Score
from minbert.evaluate.scoring import overall, selection_score
from minbert.spec.protocol import OVERALL_TASKS, RULES
from minbert.spec.task import TASKS
from minbert.store.job import Job

Scored = Mapping[tuple[str, str, str], Score]
"""One run's scores by (split, task, metric).

A task is missing from a split in which its labels are not public. Split `selection` has tasks only
where a half of dev chose the epoch.
"""

Seeds = Mapping[int, Scored]
"""The runs of one variant by seed: those that have scores."""

Read = Callable[..., Scored]
"""What `reader` returns."""

SPLITS = ("dev", "selection", "test")


def of_tasks(run: Scored, split: str, column: str = "value") -> dict[str, float]:
    """Return {task: what a `column` of the score table has of its own metric}, where known."""
    found = {}
    for (where, task, metric), score in run.items():
        value = getattr(score, column)
        if (where, metric) == (split, TASKS[task].metric) and value is not None:
            found[task] = value
    return found


def make(job: Job) -> None:
    """Score every run of a paper."""
    spec, read = job.spec, reader()
    variants = {of["name"]: of for of in spec["variants"]}
    runs: list[dict[str, Any]] = []
    for name, of in variants.items():
        chosen = choose(try_all(job, of, read)) if of["tried"] else name
        if of["tuned_for"] or not chosen:
            continue
        run = {"paper": spec["paper"], "variant": name, "tested": of["tested"]}
        run |= {"key": variants[chosen]["key"]}
        if of["best_of"]:
            run |= {"best_of": of["best_of"], "by": of["by"], "rule": spec["rule"]}
        keys = variants[chosen]["tasks"]
        runs += [run | {"seed": n, "tasks": files_of(job, keys, n)} for n in spec["seeds"]]
    paths = job.needs("labels").items()
    labels = {task: read_labels(path) for task, path in paths if path.is_file()}
    score_runs(runs, job.out / "scores.parquet", spec["single"], labels, spec["overall_tasks"])


def files_of(job: Job, keys: Mapping[str, str], seed: int) -> dict[str, dict[str, Any]]:
    """Return the `tasks` of a run (`score_runs`) from {task: key of its training}."""
    folders = {task: job.need(f"run.{key}.{seed}").parent for task, key in keys.items()}
    return {
        task: {"key": keys[task]}
        | {file: at / f"{file}.parquet" for file in ("predictions", "history")}
        for task, at in folders.items()
    }


class Tried(NamedTuple):
    """What a candidate scored on the choosing half: {seed: score}, and {task: mean}."""

    scores: Mapping[int, float]
    tasks: Mapping[str, float]


def try_all(job: Job, variant: Mapping[str, Any], read: Read) -> dict[str, Tried]:
    """Return what the candidates of a tuned variant scored; seeds that lack a file are left out.

    The score that chooses is over the variant's tasks of the overall score, or if it has none of
    these, over all that it has.
    """
    spec = job.spec
    keys = {of["name"]: of["tasks"] for of in spec["variants"] if of["name"] in variant["tried"]}
    found = {}
    for name in variant["tried"]:
        tasks = [task for task in TASKS if task in keys[name]]
        tasks = [task for task in tasks if task in spec["overall_tasks"]] or tasks
        runs = {seed: run_scores(files_of(job, keys[name], seed), read) for seed in spec["seeds"]}
        half = {seed: of_tasks(run, "selection") for seed, run in runs.items() if run}
        scores = {
            seed: selection_score({task: of[task] for task in tasks}, spec["rule"])
            for seed, of in half.items()
        }
        means = {task: fmean(of[task] for of in half.values()) for task in tasks if half}
        found[name] = Tried(scores, means)
    return found


def choose(tried: Mapping[str, Tried]) -> str:
    """Return the candidate with the highest mean score over seeds; "" if none has a score.

    Only those with the most seeds are compared: one of whose runs failed would else be judged by
    those that went well. The first wins a tie.
    """
    most = max((len(of.scores) for of in tried.values()), default=0)
    whole = {n: fmean(of.scores.values()) for n, of in tried.items() if len(of.scores) == most > 0}
    return max(whole, key=lambda name: whole[name], default="")


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
    and `error` (`bootstrap.standard_error`) are those of the same scores, `p_floor` and `constant`
    (`floors.against_floor`) of a task's own metric; null elsewhere.

    A run with {best_of: variants of the paper, by, rule} instead of tasks gets the scores of the
    best of them (`best_of`), under the keys of what was chosen. If it is `tested`, it gets their
    test scores too, even if they themselves are not.

    If the variant `single` has scores, `overall` has the metric `delta_m` too, in per cent
    (`metrics.delta_m`): the gain over its run with the same seed or, without one, over its mean.

    Rows keep the order of `runs`, which are of one paper; a file that several share is read once.
    Raises `UserError` for predictions that are not finite.
    """
    found: dict[str, Seeds] = {}
    read = reader(labels)
    for run in runs:
        if "best_of" not in run and (scores := run_scores(run["tasks"], read)):
            found[run["variant"]] = {**found.get(run["variant"], {}), run["seed"]: scores}
    for run in runs:
        if "best_of" in run:
            candidates = {name: found.get(name, {}) for name in run["best_of"]}
            found[run["variant"]] = best_of(candidates, run["by"], run["rule"], overall_tasks)
    alone = found.get(single, {})
    rows: list[dict[str, Any]] = []
    for run in runs:
        about = {name: run[name] for name in ("paper", "variant", "seed")}
        seed, scores = run["seed"], found.get(run["variant"], {}).get(run["seed"], {})
        beside = [alone[seed]] if seed in alone else list(alone.values())
        for split in ("dev", "test") if run["tested"] else ("dev",):
            overall = _overall(scores, split, run["key"], beside, overall_tasks)
            for (where, task, metric), score in [*scores.items(), *overall]:
                if where == split:
                    of = {"split": split, "task": task, "metric": metric}
                    rows.append(about | of | score._asdict())
    with whole(out) as temporary:
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), temporary)


def run_scores(tasks: Mapping[str, Mapping[str, Any]], read: Read) -> Scored:
    """Return the scores of a run with `tasks`, as of `score_runs`; none if a file is missing."""
    files = [Path(of[name]) for of in tasks.values() for name in ("predictions", "history")]
    if not all(path.is_file() for path in files):
        return {}
    return dict(chain.from_iterable(read(task, **of).items() for task, of in tasks.items()))


def best_of(
    candidates: Mapping[str, Seeds],
    by: Literal["overall", "task"],
    rule: str,
    overall_tasks: Sequence[str] = OVERALL_TASKS,
) -> Seeds:
    """Return the runs of the best of `candidates`, by seed; none if no candidate has scores.

    By `overall`: the candidate with the highest mean dev score under `rule`, over those of its
    seeds that have scores. By `task`: the same for each task by its own metric; the tasks of one
    run may then come from several candidates. The first candidate wins a tie. Test scores come
    along and decide nothing. Where a half of dev chose the epochs, its scores choose here too.
    """
    if by == "overall":
        return _highest(candidates, lambda scores: overall(scores, rule, overall_tasks))
    found: dict[int, dict[tuple[str, str, str], Score]] = {}
    for task in TASKS:
        for seed, run in _highest(candidates, methodcaller("get", task)).items():
            found.setdefault(seed, {}).update({of: s for of, s in run.items() if of[1] == task})
    return dict(sorted(found.items()))


def _highest(
    candidates: Mapping[str, Seeds], score: Callable[[dict[str, float]], float | None]
) -> Seeds:
    """Return the runs of the candidate with the highest mean `score` of its dev scores over seeds.

    The first of a tie; none if no candidate has a score. Means are exact sums over counts, so that
    the same values in another order tie.
    """
    means = {}
    for name, seeds in candidates.items():
        chose = [of_tasks(run, "selection") or of_tasks(run, "dev") for run in seeds.values()]
        values = [value for scores in chose if (value := score(scores)) is not None]
        if values:
            means[name] = fmean(values)
    return candidates[max(means, key=lambda name: means[name])] if means else {}


def _overall(
    run: Scored, split: str, key: str, beside: Sequence[Scored], tasks: Sequence[str]
) -> Iterator[tuple[tuple[str, str, str], Score]]:
    """Yield the overall scores of a run in a split, and its gain over the mean of runs `beside`."""
    of = {name: of_tasks(run, split, name) for name in ("value", "last", "floor", "error")}
    for rule in RULES:
        if (value := overall(of["value"], rule, tasks)) is not None:
            last, floor = (overall(of[name], rule, tasks) for name in ("last", "floor"))
            error = overall_error(of["error"], rule, tasks)
            yield (split, "overall", rule), Score(value, key, last, floor, error=error)
    gain, last = (
        delta_m(of[name], _means([of_tasks(single, split, name) for single in beside]), tasks)
        for name in ("value", "last")
    )
    if gain is not None:
        yield (split, "overall", DELTA_M), Score(gain, key, last)


def _means(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean over runs of each task that all of them have; nothing without a run."""
    common = [task for task in TASKS if scores and all(task in of for of in scores)]
    return {task: fmean(of[task] for of in scores) for task in common}


def reader(labels: Mapping[str, Mapping[str, float]] = {}) -> Read:
    """Return a function that scores a training's files; those of several runs are read once.

    It takes a task, and as `score_runs` the `key`, `predictions` and `history` of its training.
    `labels` are those of test rows that have none in the file, {task: {id: label}}.
    """

    @cache
    def read(task: str, key: str, predictions: Path, history: Path) -> Scored:
        columns = ("id", "split", "prediction", "label")
        table = read_file(predictions, columns, {"task": TASKS[task].name})
        found: dict[tuple[str, str, str], Score] = {}
        for split in SPLITS:
            rows = table.filter(pc.equal(table["split"], split))
            rows = with_labels(rows, labels.get(task, {}) if split == "test" else {})
            if rows.num_rows:
                last = _last_dev_score(history, task) if split == "dev" else None
                where = f"{predictions}: task '{task}', {split}"
                scores = _measured(rows, task, Score(0.0, key, last), where)
                found |= {(split, task, metric): score for metric, score in scores.items()}
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
    test, error = against_floor(task, prediction, label), standard_error(task, prediction, label)
    own = own._replace(value=test.score, floor=test.floor, p_floor=test.p, constant=test.constant)
    found[TASKS[task].metric] = own._replace(error=error)
    return found


def _last_dev_score(history: Path, task: str) -> float | None:
    """Return the dev score of `task` after the last epoch of a run; None if it was not measured."""
    wanted = {"split": "dev", "task": task, "metric": TASKS[task].metric}
    rows = read_file(history, ("epoch", "value"), wanted).to_pylist()
    return max(rows, key=lambda row: row["epoch"])["value"] if rows else None
