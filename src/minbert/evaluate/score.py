"""The score table of all runs of a paper, made from their predictions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike

from minbert.base.errors import UserError
from minbert.data.labels import read_labels, with_labels
from minbert.data.parquet import read_file, write_file
from minbert.evaluate.bootstrap import overall_error
from minbert.evaluate.floors import against_floor
from minbert.evaluate.reading import DELTA_M, SCHEMA, Score
from minbert.evaluate.scoring import METRICS, overall, paired
from minbert.spec.protocol import RULES
from minbert.spec.task import TASKS
from minbert.store.job import Job

Run = Mapping[tuple[str, str, str], Score]
"""One run's scores by (split, task, metric).

A task is missing from a split in which its labels are not public. Split `selection` has tasks only
where a half of dev chose the epoch.
"""

Seeds = Mapping[int, Run]
"""The runs of one variant by seed: those that have scores."""

Need = Callable[[str], Path]
"""Where a file is that is needed by this name (`Job.need`): `run.KEY.SEED` of each training."""

Labels = Mapping[str, Mapping[str, float]]
"""Labels of test rows that have none in the file: {task: {id: label}}."""

REPORTED = {
    "classification": ("accuracy", "macro_f1"),
    "binary": ("accuracy", "f1"),
    "regression": ("pearson", "spearman", "rmse"),
}
"""What a task of each kind is measured by besides its own metric."""


def make(job: Job) -> None:
    """Score every run of a paper."""
    paths = job.needs("labels").items()
    labels = {task: read_labels(path) for task, path in paths if path.is_file()}
    write_file(job.out / "scores.parquet", score_paper(job.spec, job.need, labels))


def score_paper(spec: Mapping[str, Any], need: Need, labels: Labels) -> pa.Table:
    """Return the score table (`SCHEMA`) of a paper of which the plan says `spec` (`plan.outputs`).

    Dev is always scored; test only of a variant that is `tested`, on the rows that have a label, or
    get one from `labels`. Each task has a row for each of its metrics; a split with all tasks of
    the overall score has two more, task `overall`, with metrics `normalised` and `plain` under the
    variant's own key.

    Column `last` has the dev score after the last epoch, for a task's own metric and the overall
    scores; null if it was not measured, as for tasks that are only carried along. `floor`
    and `error` (`bootstrap.standard_error`) are those of the same scores, `p_floor` and `constant`
    (`floors.against_floor`) of a task's own metric; null elsewhere.

    A tuned variant has the scores of the best of its settings, under that one's keys; its settings
    have no rows. One that is the best of others has theirs (`best_of`), on test even if they are
    not tested.

    If the variant `single` has scores, `overall` has the metric `delta_m` too, in per cent: the
    gain over its run with the same seed or, without one, over its mean.
    """
    runs: dict[str, Seeds] = read_runs(spec, need, labels)
    rule, tasks = spec["rule"], spec["overall_tasks"]
    keys = {of["name"]: of["key"] for of in spec["variants"]}
    for of in spec["variants"]:
        if best := choose(runs, of["tried"], rule, choosing_tasks(spec, of["tried"])):
            runs[of["name"]], keys[of["name"]] = runs[best], keys[best]
    for of in spec["variants"]:
        if of["best_of"]:
            runs[of["name"]] = best_of(runs, of["best_of"], of["by"], rule, tasks)
    alone = runs.get(spec["single"], {})
    rows: list[dict[str, Any]] = []
    for of in (of for of in spec["variants"] if not of["tuned_for"]):
        for seed, run in runs[of["name"]].items():
            about = {"paper": spec["paper"], "variant": of["name"], "seed": seed}
            beside = [alone[seed]] if seed in alone else list(alone.values())
            for split in ("dev", "test") if of["tested"] else ("dev",):
                whole = _overall(run, split, keys[of["name"]], beside, tasks)
                for (where, task, metric), score in [*run.items(), *whole]:
                    if where == split:
                        place = {"split": split, "task": task, "metric": metric}
                        rows.append(about | place | score._asdict())
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def read_runs(spec: Mapping[str, Any], need: Need, labels: Labels) -> dict[str, Seeds]:
    """Return the scores of the trained runs of each variant; what several share is read once.

    A run that lacks a file is left out whole, as half a run would look like one of fewer tasks.
    """

    @cache
    def read(task: str, key: str, seed: int) -> Run:
        at = need(f"run.{key}.{seed}").parent
        if not all((at / f"{name}.parquet").is_file() for name in ("predictions", "history")):
            return {}
        return _score_training(task, key, at, labels.get(task, {}))

    runs: dict[str, Seeds] = {}
    for of in spec["variants"]:
        found = runs[of["name"]] = {}
        for seed in spec["seeds"] if of["tasks"] else ():
            parts = [read(task, key, seed) for task, key in of["tasks"].items()]
            if all(parts):
                found[seed] = {place: score for part in parts for place, score in part.items()}
    return runs


def _score_training(task: str, key: str, folder: Path, labels: Mapping[str, float]) -> Run:
    """Return the scores of a training on one of its tasks; `UserError` if one is not finite."""
    path, metric = folder / "predictions.parquet", TASKS[task].metric
    table = read_file(path, ("id", "split", "prediction", "label"), {"task": task})
    on_dev = {"split": "dev", "task": task, "metric": metric}
    measured = read_file(folder / "history.parquet", ("epoch", "value"), on_dev).sort_by("epoch")
    found: dict[tuple[str, str, str], Score] = {}
    for split in ("dev", "selection", "test"):
        rows = table.filter(pc.equal(table["split"], split))
        rows = with_labels(rows, labels if split == "test" else {})
        if not rows.num_rows:
            continue
        label, prediction = (rows[name].to_numpy() for name in ("label", "prediction"))
        if (broken := ~np.isfinite(prediction)).any():
            raise UserError(
                f"{path}: task '{task}', {split}: {broken.sum()} of {len(label)} predictions are "
                f"not finite numbers, the first of id '{rows['id'][int(broken.argmax())]}'; train "
                "with a lower learning rate"
            )
        for name, value in task_metrics(task, prediction, label).items():
            found[split, task, name] = Score(value, key)
        last = measured["value"].to_pylist()[-1:] if split == "dev" else []
        own = against_floor(task, prediction, label, key)
        found[split, task, metric] = own._replace(last=last[0] if last else None)
    return found


def task_metrics(task: str, prediction: ArrayLike, label: ArrayLike) -> dict[str, float]:
    """Return {metric: value} of `task` for predictions [n] and labels [n], its own metric first."""
    names = dict.fromkeys((TASKS[task].metric, *REPORTED[TASKS[task].kind]))
    return {name: (METRICS | {"rmse": rmse})[name](prediction, label) for name in names}


def rmse(prediction: ArrayLike, label: ArrayLike) -> float:
    """Return the root of the mean squared error, in the label's unit (STS: points of 0 to 5)."""
    predicted, true = paired(prediction, label)
    return float(np.sqrt(np.mean((predicted - true) ** 2)))


def of_tasks(run: Run, split: str, column: str = "value") -> dict[str, float]:
    """Return {task: what a `column` of the score table has of its own metric}, where known."""
    found = {}
    for task, of in TASKS.items():
        value = getattr(run.get((split, task, of.metric)), column, None)
        if value is not None:
            found[task] = value
    return found


def choosing_tasks(spec: Mapping[str, Any], tried: Sequence[str]) -> list[str]:
    """Return the tasks by which a tuned variant's settings are compared, in the order of all tasks.

    They are its tasks of the overall score, or if it has none of these, all that it has.
    """
    has = {task for of in spec["variants"] if of["name"] in tried for task in of["tasks"]}
    chosen = has.intersection(spec["overall_tasks"]) or has
    return [task for task in TASKS if task in chosen]


def choose(runs: Mapping[str, Seeds], names: Sequence[str], rule: str, tasks: Sequence[str]) -> str:
    """Return which of the variants `names` has the highest mean over seeds; "" if none has any.

    A run's score is that of `tasks` by `rule`, on the half of dev that chose its epoch, or on dev.
    Test decides nothing. Only those with the most seeds are compared: one of whose runs failed
    would else be judged by those that went well. The first wins a tie.
    """
    values = {}
    for name in names:
        chose = [of_tasks(run, "selection") or of_tasks(run, "dev") for run in runs[name].values()]
        values[name] = [v for of in chose if (v := overall(of, rule, tasks)) is not None]
    most = max(map(len, values.values()), default=0)
    means = {name: fmean(of) for name, of in values.items() if len(of) == most > 0}
    return max(means, key=lambda name: means[name], default="")


def best_of(
    runs: Mapping[str, Seeds], names: Sequence[str], by: str, rule: str, tasks: Sequence[str]
) -> Seeds:
    """Return the runs of the best of the variants `names` (`choose`).

    By `overall`: by the overall score of `tasks`. By `task`: the same for each task by its own
    metric; the tasks of one run may then come from several variants.
    """
    if by == "overall":
        return runs.get(choose(runs, names, rule, tasks), {})
    found: dict[int, dict[tuple[str, str, str], Score]] = {}
    for task in TASKS:
        for seed, run in runs.get(choose(runs, names, "plain", [task]), {}).items():
            found.setdefault(seed, {}).update({of: s for of, s in run.items() if of[1] == task})
    return dict(sorted(found.items()))


def _overall(
    run: Run, split: str, key: str, beside: Sequence[Run], tasks: Sequence[str]
) -> Iterator[tuple[tuple[str, str, str], Score]]:
    """Yield the overall scores of a run in a split, and its gain over the mean of runs `beside`."""
    of = {name: of_tasks(run, split, name) for name in ("value", "last", "floor", "error")}
    for rule in RULES:
        value, last, floor = (overall(of[name], rule, tasks) for name in ("value", "last", "floor"))
        if value is not None:
            error = overall_error(of["error"], rule, tasks)
            yield (split, "overall", rule), Score(value, key, last, floor, error=error)
    gain, last = (
        delta_m(of[name], [of_tasks(one, split, name) for one in beside], tasks)
        for name in ("value", "last")
    )
    if gain is not None:
        yield (split, "overall", DELTA_M), Score(gain, key, last)


def delta_m(
    scores: Mapping[str, float], beside: Sequence[Mapping[str, float]], tasks: Sequence[str]
) -> float | None:
    """Return delta m: the mean over `tasks` of (score - single) / single, in per cent.

    Equation 5 of Maninis et al. (2019), where all scores are better when higher; `single` is the
    mean of runs `beside`. None if a score is missing or a `single` is not above 0, as a gain is
    then no share of it.
    """
    if not beside or not all(task in of for of in (scores, *beside) for task in tasks):
        return None
    single = {task: fmean(of[task] for of in beside) for task in tasks}
    if min(single.values()) <= 0:
        return None
    return 100 * fmean((scores[task] - single[task]) / single[task] for task in tasks)
