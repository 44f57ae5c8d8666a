"""The score table of all runs of a paper, made from their predictions."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from minbert.data.labels import read_labels, with_labels
from minbert.data.parquet import read_file, write_file
from minbert.evaluate.bootstrap import overall_error
from minbert.evaluate.floors import against_floor
from minbert.evaluate.reading import DELTA_M, SCHEMA, Score
from minbert.evaluate.scoring import METRICS, overall
from minbert.evaluate.text import Line
from minbert.spec.protocol import RULES
from minbert.spec.task import TASKS
from minbert.store.job import Job

Run = dict[tuple[str, str, str], Score]
"""One run's scores by (split, task, metric).

A task is missing from a split in which its labels are not public. Split `selection` has tasks only
where a half of dev chose the epoch.
"""

Runs = dict[str, dict[int, Run]]
"""The runs of each variant by seed: those that have scores."""

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


def score_paper(spec: Line, need: Need, labels: Labels) -> pa.Table:
    """Return the score table (`SCHEMA`) of a paper of which the plan says `spec` (`plan.outputs`).

    Dev is always scored; test only of a variant that is `tested`, on the rows that have a label, or
    get one from `labels`. Each task has a row for each of its metrics; a split with all tasks of
    the overall score has two more, task `overall`, with metrics `normalised` and `plain` under the
    variant's own key.

    Column `last` has the dev score after the last epoch, for a task's own metric and the overall
    scores; null if it was not measured, as for tasks that are only carried along. `floor` and
    `error` are those of the same scores, `p_floor` and `constant` (`floors.against_floor`) of a
    task's own metric; null elsewhere.

    A tuned variant has the scores of the best of its settings, under that one's keys; its settings
    have no rows. One that is the best of others has theirs, on test even if they are not tested.

    If the variant `single` has a run with the same seed, `overall` has the metric `delta_m` too, in
    per cent: the gain over that run.
    """
    runs, tasks = read_runs(spec, need, labels), spec["overall_tasks"]
    keys = {of["name"]: of["key"] for of in spec["variants"]}
    # Tuned ones first, as others may be the best of these.
    for of in sorted(spec["variants"], key=lambda of: not of["tried"]):
        name, names = of["name"], of["tried"] or of["best_of"]
        if of["by"] == "task":
            runs[name] = best_of_each_task(runs, names)
        elif best := choose(runs, names, spec["rule"], tasks):
            runs[name] = runs[best]
            keys[name] = keys[best] if of["tried"] else ""
    rows: list[dict[str, Any]] = []
    for of in (of for of in spec["variants"] if not of["tuned_for"]):
        name, about = of["name"], {"paper": spec["paper"], "variant": of["name"]}
        for seed, run in runs[name].items():
            alone = runs.get(spec["single"], {}).get(seed, {})
            for split in ("dev", "test")[: 1 + of["tested"]]:
                scores = run | _overall(run, split, keys[name], alone, tasks)
                for (where, task, metric), score in scores.items():
                    place = {"seed": seed, "split": where, "task": task, "metric": metric}
                    rows += [about | place | score._asdict()] * (where == split)
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def read_runs(spec: Line, need: Need, labels: Labels) -> Runs:
    """Return the scores of the trained runs of each variant; what several share is read once.

    A run that lacks a file is left out whole, as half a run would look like one of fewer tasks.
    """

    @cache
    def read(task: str, key: str, seed: int) -> Run:
        return score_training(task, key, need(f"run.{key}.{seed}"), labels.get(task, {}))

    runs: Runs = {}
    for of in spec["variants"]:
        found = runs[of["name"]] = {}
        for seed in spec["seeds"]:
            parts = [read(task, key, seed) for task, key in of["tasks"].items()]
            if parts and all(parts):
                found[seed] = {place: score for part in parts for place, score in part.items()}
    return runs


def score_training(task: str, key: str, record: Path, labels: Mapping[str, float]) -> Run:
    """Return the scores of a training on one of its tasks; none if it lacks a file."""
    files = [record.with_name(f"{name}.parquet") for name in ("predictions", "history")]
    if not all(path.is_file() for path in files):
        return {}
    table = read_file(files[0], ("id", "split", "prediction", "label"), {"task": task})
    metric, found = TASKS[task].metric, Run()
    for split in ("dev", "selection", "test"):
        rows = table.filter(pc.equal(table["split"], split))
        rows = with_labels(rows, labels if split == "test" else {})
        if rows.num_rows:
            sides = [rows[name].to_numpy() for name in ("prediction", "label")]
            for name in (metric, *REPORTED[TASKS[task].kind]):
                found[split, task, name] = Score(METRICS[name](*sides), key)
            found[split, task, metric] = against_floor(task, *sides)._replace(key=key)
    on_dev = {"split": "dev", "task": task, "metric": metric}
    epochs = read_file(files[1], ("epoch", "value"), on_dev).sort_by("epoch")
    for last in epochs["value"].to_pylist()[-1:]:
        found["dev", task, metric] = found["dev", task, metric]._replace(last=last)
    return found


def of_tasks(run: Run, split: str, column: str = "value") -> dict[str, float]:
    """Return {task: what a `column` of the score table has of its own metric}, where known."""
    found = {}
    for task, of in TASKS.items():
        value = getattr(run.get((split, task, of.metric)), column, None)
        if value is not None:
            found[task] = value
    return found


def choose(runs: Runs, names: Sequence[str], rule: str, among: Collection[str]) -> str:
    """Return which of the variants `names` has the highest mean over seeds; "" if none has any.

    A run's score is by `rule`, over the tasks of `choosing_tasks`. Only those with the most seeds
    are compared: one of whose runs failed would else be judged by those that went well. The first
    wins a tie.
    """
    tasks, values = choosing_tasks(runs, names, among), {}
    for name in names:
        scores = (overall(choosing(run), rule, tasks) for run in runs[name].values())
        values[name] = [score for score in scores if score is not None]
    most = max(map(len, values.values()), default=0)
    means = {name: fmean(of) for name, of in values.items() if len(of) == most > 0}
    return max(means, key=lambda name: means[name], default="")


def choosing(run: Run) -> dict[str, float]:
    """Return the scores by task that a run is chosen by: of the half of dev that chose its epoch.

    Without such a half, of dev. Test decides nothing.
    """
    return of_tasks(run, "selection") or of_tasks(run, "dev")


def choosing_tasks(runs: Runs, names: Sequence[str], among: Collection[str]) -> list[str]:
    """Return those tasks of the variants that are `among` these, or if none is, all of them."""
    has = {task for name in names for run in runs[name].values() for task in choosing(run)}
    return [task for task in TASKS if task in (has.intersection(among) or has)]


def best_of_each_task(runs: Runs, names: Sequence[str]) -> dict[int, Run]:
    """Return runs of which each task is from the variant that is best by its own metric."""
    found: dict[int, Run] = {}
    for task in TASKS:
        for seed, run in runs.get(choose(runs, names, "plain", [task]), {}).items():
            found.setdefault(seed, {}).update({of: s for of, s in run.items() if of[1] == task})
    return dict(sorted(found.items()))


def _overall(run: Run, split: str, key: str, alone: Run, tasks: Sequence[str]) -> Run:
    """Return the overall scores of a run in a split, and its gain over the run `alone`."""
    found = Run()
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
