"""Texts that train has, too: of the same task, and of another task of the same paper."""

from collections.abc import Iterator, Mapping
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

from minbert.data.examples import seen
from minbert.data.parquet import read_file
from minbert.evaluate.predictions import Predicted, read_predicted
from minbert.evaluate.reading import score_title
from minbert.evaluate.scoring import score_task
from minbert.evaluate.statistics import Interval, interval
from minbert.report.material import Material
from minbert.spec.protocol import SPLITS
from minbert.spec.task import TASKS


class Leaked(NamedTuple):
    """What dev examples that are in train, too, add to a paper's dev scores.

    `lines` have a variant's label and, by task, its score on all of dev minus that without them,
    seed by seed; None without such a score.
    """

    heads: list[str]
    lines: list[tuple[str, list[Interval | None]]]


def leaked(material: Material, paper: str) -> Leaked | None:
    """Return what leaked examples add to a paper's scores; None if it has none.

    Whether train has a text is known without the texts, as in bundles.
    """
    in_train = {}
    for task in material.names("rows"):
        if (rows := material.job.need(f"rows/{task}")).is_file():
            wanted = {"split": "dev", "in_train": True}
            in_train[task] = set(read_file(rows, ["id"], wanted)["id"].to_pylist())
    heads: dict[str, str] = {}
    found: dict[str, dict[str, Interval | None]] = {}
    for of, by_seed in material.trained(paper):
        if ids := in_train.get(of.measure):
            one = read_predicted(material.predictions(by_seed), of.measure)
            # Not all of dev if a half of it chose the epochs.
            count = f"{len(ids.intersection(one.ids)):,} of {len(one.ids):,}"
            heads.setdefault(of.measure, f"{score_title(of.measure)} ({count})")
            found.setdefault(of.variant, {})[of.measure] = added(of.measure, one, ids)
    lines = [
        (material.labels[paper, name], [of_tasks.get(task) for task in heads])
        for name, of_tasks in found.items()
    ]
    return Leaked(list(heads.values()), lines) if lines else None


def added(task: str, one: Predicted, ids: set[str]) -> Interval | None:
    """Return what the examples `ids` add to the score; None if there are no others."""
    clean = one.of(set(one.ids) - ids)
    if not clean.ids:
        return None
    pairs = zip(one.prediction, clean.prediction, strict=True)
    scores = [(score_task(task, a, one.label), score_task(task, b, clean.label)) for a, b in pairs]
    return interval([whole - without for whole, without in scores])


Sentences = Mapping[str, set[str]]
"""The different sentences of a task by split, without case and extra space."""


def leaks_between_tasks(material: Material) -> Iterator[str]:
    """Yield how many dev and test sentences of a task are in train of another one of a paper.

    Pairs of tasks without any are left out, and tasks whose texts are not here, as in bundles.
    """
    together: dict[str, set[str]] = {}
    for stage in material.job.spec["stages"]:
        together.setdefault(stage["paper"], set()).update(stage["tasks"])
    paths = {task: material.job.need(f"examples/{task}") for task in material.names("examples")}
    found = {task: sentences(path) for task, path in paths.items() if path.is_file()}
    for one, other in permutations(found, 2):
        if any({one, other} <= tasks for tasks in together.values()):
            yield from leaks(one, other, found)


def sentences(examples: Path) -> Sentences:
    """Read the sentences of an example table."""
    found: dict[str, set[str]] = {split: set() for split in SPLITS}
    columns = read_file(examples, ("split", "sentence1", "sentence2")).to_pydict()
    for split, first, second in zip(*columns.values(), strict=True):
        found[split].update(seen(first, second))
    return found


def leaks(one: str, other: str, found: Mapping[str, Sentences]) -> Iterator[str]:
    """Yield how many sentences of each split of the task `one` train of `other` has, if any."""
    for split in ("dev", "test"):
        if count := len(found[one][split] & found[other]["train"]):
            of = len(found[one][split])
            where = f"{split} sentences of {TASKS[one].title}"
            yield f"{count:,} of {of:,} {where} occur in train of {TASKS[other].title}"
