"""Texts of a task that another task of the same paper trains on."""

from collections.abc import Iterator, Mapping
from itertools import permutations
from pathlib import Path

from minbert.data.examples import seen
from minbert.data.parquet import read_file
from minbert.report.material import Material
from minbert.spec.protocol import SPLITS
from minbert.spec.task import TASKS

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
