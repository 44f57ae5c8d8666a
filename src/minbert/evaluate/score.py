"""The score table of all runs of a paper, made from their predictions."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike
from scipy.special import bdtrc, ndtr, stdtr

from minbert.data.labels import with_labels
from minbert.data.parquet import read_file, write_file
from minbert.evaluate.bootstrap import overall_error, standard_error
from minbert.evaluate.reading import DELTA_M, SCHEMA, Score
from minbert.evaluate.scoring import METRICS, f1, overall, paired, score_task, selection_score
from minbert.spec.protocol import RULES
from minbert.spec.task import TASKS
from minbert.store.job import Job

RunScores = dict[tuple[str, str, str], Score]
"""One run's scores by (split, task, metric).

A task is missing from a split in which its labels are not public. Split `selection` has tasks only
where a half of dev chose the epoch.
"""

Runs = dict[str, dict[int, RunScores]]
"""The runs of each variant by seed: those that have scores."""

Candidates = dict[str, dict[int, dict[str, float]]]
"""By variant and seed, the scores by task that it is chosen by."""

REPORTED = {
    "classification": ("accuracy", "macro_f1"),
    "binary": ("accuracy", "f1"),
    "regression": ("pearson", "spearman", "rmse"),
}
"""What a task of each kind is measured by besides its own metric."""


def make(job: Job) -> None:
    """Write `scores.parquet` (`SCHEMA`) of a paper of which the plan says `spec` (`plan.outputs`).

    Dev is always scored; test only of a variant that is `tested`, on the rows that have a label, or
    get one from the job's `labels`. Each task has a row for each of its metrics; a split with all
    tasks of the overall score has two more, task `overall`, with metrics `normalised` and `plain`
    under the variant's own key.

    Column `last` has the dev score after the last epoch, for a task's own metric and the overall
    scores; null if it was not measured, as for tasks that are only carried along. `floor` and
    `error` are those of the same scores, `p_floor` and `constant` (`against_floor`) of a task's own
    metric; null elsewhere.

    A tuned variant has the scores of the best of its settings, under that one's keys; its settings
    have no rows. One that is the best of others has theirs, on test even if they are not tested.

    If the variant `single` has a run with the same seed, `overall` has the metric `delta_m` too, in
    per cent: the gain over that run.
    """
    spec, runs = job.spec, read_runs(job)
    tasks, keys = spec["overall_tasks"], {of["name"]: of["key"] for of in spec["variants"]}
    for of in spec["variants"]:
        name, names = of["name"], of["tried"] or of["best_of"]
        if of["by"] == "task":
            runs[name] = best_of_each_task(runs, names)
        elif best := choose(candidates(runs, names, tasks), spec["rule"]):
            runs[name] = runs[best]
            keys[name] = keys[best] if of["tried"] else ""
    rows: list[dict[str, Any]] = []
    for of in spec["variants"]:
        name, about = of["name"], {"paper": spec["paper"], "variant": of["name"]}
        for seed, run in () if of["tuned_for"] else runs[name].items():
            alone = runs.get(spec["single"], {}).get(seed, {})
            for split in ("dev", "test")[: 1 + of["tested"]]:
                scores = run | _overall(run, split, keys[name], alone, tasks)
                for (where, task, metric), score in scores.items():
                    place = {"seed": seed, "split": where, "task": task, "metric": metric}
                    rows += [about | place | score._asdict()] * (where == split)
    write_file(job.out / "scores.parquet", pa.Table.from_pylist(rows, schema=SCHEMA))


def read_runs(job: Job) -> Runs:
    """Return the scores of the trained runs of each variant; what several share is read once.

    A run that lacks a file is left out whole, as half a run would look like one of fewer tasks.
    """
    labels = job.needs("labels")

    @cache
    def read(task: str, key: str, seed: int) -> RunScores:
        return score_training(task, key, job.need(f"run.{key}.{seed}"), labels.get(task))

    runs: Runs = {}
    for of in job.spec["variants"]:
        found = runs[of["name"]] = {}
        for seed in job.spec["seeds"]:
            parts = [read(task, key, seed) for task, key in of["tasks"].items()]
            if parts and all(parts):
                found[seed] = {place: score for part in parts for place, score in part.items()}
    return runs


def score_training(task: str, key: str, record: Path, labels: Path | None = None) -> RunScores:
    """Return the scores of a training on one of its tasks; none if it lacks a file.

    Rows without a label have one in the file `labels`, by id, or are left out.
    """
    files = [record.with_name(f"{name}.parquet") for name in ("predictions", "history")]
    if not all(path.is_file() for path in files):
        return {}
    columns = ("id", "split", "prediction", "label")
    table = with_labels(read_file(files[0], columns, {"task": task}), labels)
    metric, found = TASKS[task].metric, RunScores()
    for split in ("dev", "selection", "test"):
        rows = table.filter(pc.equal(table["split"], split))
        if rows.num_rows:
            sides = [rows[name].to_numpy() for name in ("prediction", "label")]
            found[split, task, metric] = against_floor(task, *sides)._replace(key=key)
            for name in REPORTED[TASKS[task].kind]:
                found.setdefault((split, task, name), Score(METRICS[name](*sides), key))
    on_dev = {"split": "dev", "task": task, "metric": metric}
    epochs = read_file(files[1], ("epoch", "value"), on_dev).sort_by("epoch")
    for last in epochs["value"].to_pylist()[-1:]:
        found["dev", task, metric] = found["dev", task, metric]._replace(last=last)
    return found


def against_floor(task: str, prediction: ArrayLike, label: ArrayLike) -> Score:
    """Return the score of the predictions [n] of a run, with its floor on the same examples.

    Accuracy: the share of the most frequent label, by McNemar's test in its exact form (sign test)
    over the examples on which one of the two is right. Pearson's r and Spearman's rho: 0, by the t
    test with n - 2 degrees of freedom. F1: always predicting class 1; Matthews' correlation: 0;
    macro-F1: 1 / classes, which guessing as often as each class occurs comes to. These are tested
    by the normal distribution with the standard error over examples. All tests are one-sided.
    """
    predicted, true = paired(prediction, label)
    score, error = score_task(task, predicted, true), standard_error(task, predicted, true)
    metric, n = TASKS[task].metric, len(true)
    classes, counts = np.unique(true, return_counts=True)
    if metric in ("pearson", "spearman"):
        floor = 0.0
        t = score * np.sqrt((n - 2) / max(1 - score**2, 1e-300)) if n > 2 else 0.0
        p = stdtr(max(1, n - 2), -t)
    elif metric == "accuracy":
        right, always = predicted == true, true == classes[counts.argmax()]
        won, lost = np.sum(right & ~always), np.sum(~right & always)
        floor = always.mean()
        # P(at least `won` of all) = P(more than `won` - 1), each with probability 1/2.
        p = bdtrc(won - 1, won + lost, 0.5) if won else 1.0
    else:
        floor = {"f1": f1(np.ones(n), true), "macro_f1": 1 / len(classes)}.get(metric, 0.0)
        p = ndtr((floor - score) / error) if error else score <= floor
    constant = bool(np.all(predicted == predicted[0]))
    return Score(score, "", None, floor, float(p), constant, error)


def of_tasks(run: RunScores, split: str, column: str = "value") -> dict[str, float]:
    """Return {task: what a `column` of the score table has of its own metric}, where known."""
    found = {}
    for task, of in TASKS.items():
        value = getattr(run.get((split, task, of.metric)), column, None)
        if value is not None:
            found[task] = value
    return found


def candidates(runs: Runs, names: Sequence[str], among: Collection[str]) -> Candidates:
    """Return what each run of the variants `names` is chosen by.

    That is its scores on the half of dev that chose its epoch; without such a half, on dev. Test
    decides nothing. Tasks are those `among` these, or if no run has one, all; a run that lacks one
    is left out.
    """
    found = {
        name: {n: of_tasks(of, "selection") or of_tasks(of, "dev") for n, of in runs[name].items()}
        for name in names
    }
    has = {task for of in found.values() for scores in of.values() for task in scores}
    tasks = [task for task in TASKS if task in (has.intersection(among) or has)]
    return {
        name: {n: {t: of[t] for t in tasks} for n, of in seeds.items() if {*tasks} <= of.keys()}
        for name, seeds in found.items()
    }


def choose(found: Candidates, rule: str) -> str:
    """Return which candidate has the highest mean over seeds, by `rule`; "" if none has any.

    Only those with the most seeds are compared: one of whose runs failed would else be judged by
    those that went well. The first wins a tie.
    """
    most = max(map(len, found.values()), default=0)
    means = {
        name: fmean(selection_score(scores, rule) for scores in seeds.values())
        for name, seeds in found.items()
        if len(seeds) == most > 0
    }
    return max(means, key=lambda name: means[name], default="")


def best_of_each_task(runs: Runs, names: Sequence[str]) -> dict[int, RunScores]:
    """Return runs of which each task is from the variant that is best by its own metric."""
    found: dict[int, RunScores] = {}
    for task in TASKS:
        best = choose(candidates(runs, names, [task]), "plain")
        for seed, run in runs.get(best, {}).items():
            found.setdefault(seed, {}).update({of: s for of, s in run.items() if of[1] == task})
    return dict(sorted(found.items()))


def _overall(
    run: RunScores, split: str, key: str, alone: RunScores, tasks: Sequence[str]
) -> RunScores:
    """Return the overall scores of a run in a split, and its gain over the run `alone`."""
    found = RunScores()
    for rule in RULES:
        value, last, floor = (
            overall(of_tasks(run, split, name), rule, tasks) for name in ("value", "last", "floor")
        )
        if value is not None:
            error = overall_error(of_tasks(run, split, "error"), rule, tasks)
            found[split, "overall", rule] = Score(value, key, last, floor, error=error)
    gain, last = (
        delta_m(of_tasks(run, split, name), of_tasks(alone, split, name), tasks)
        for name in ("value", "last")
    )
    if gain is not None:
        found[split, "overall", DELTA_M] = Score(gain, key, last)
    return found


def delta_m(
    scores: Mapping[str, float], single: Mapping[str, float], tasks: Sequence[str]
) -> float | None:
    """Return delta m: the mean over `tasks` of (score - single) / single, in per cent.

    Equation 5 of Maninis et al. (2019), where all scores are better when higher. None if a score
    is missing or a `single` is not above 0, as a gain is then no share of it.
    """
    if not all(task in scores and single.get(task, 0.0) > 0 for task in tasks):
        return None
    return 100 * fmean((scores[task] - single[task]) / single[task] for task in tasks)
