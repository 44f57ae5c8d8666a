"""Variants and their stages, and what they refer to: starts, fused stages, candidates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from minbert.common.errors import UserError, nearest
from minbert.grid.spec import StageSpec
from minbert.grid.task_spec import TaskSpec
from minbert.grid.tasks import TASKS

BACKBONE = "backbone"
"""What `start` says for the pretrained weights."""


@dataclass(frozen=True, order=True)
class StageRef:
    """The name of a stage."""

    paper: str
    variant: str
    stage: str

    def __str__(self) -> str:
        return f"{self.variant}/{self.stage}"


@dataclass(frozen=True)
class Stage:
    """A stage, the one whose weights it starts from (None: the backbone), those that it fuses."""

    ref: StageRef
    spec: StageSpec
    start: StageRef | None = None
    fused: tuple[StageRef, ...] = ()


@dataclass(frozen=True)
class Variant:
    """A row of a paper's grid. `test` says whether it is scored on test.

    One that is the best of others names them in `best_of` and has no stages.
    """

    paper: str
    name: str
    label: str
    row: str
    note: str
    test: bool
    stages: tuple[Stage, ...]
    best_of: tuple[str, ...] = ()
    best_by: Literal["overall", "task"] = "overall"

    def stage_for(self, task: str) -> Stage | None:
        """Return the last stage that has `task`, which its score comes from; None if none has."""
        return next((s for s in reversed(self.stages) if task in s.spec.tasks), None)


def linked_stages(
    variant: Variant, variants: Mapping[str, Variant], path: Path
) -> tuple[Stage, ...]:
    """Return the stages of `variant` with `start` and `fuse` found."""
    result = []
    for number, stage in enumerate(variant.stages):
        where = f"{path}: variant '{variant.name}', stage '{stage.ref.stage}'"

        def find(key: str, said: str, number: int = number, where: str = where) -> StageRef:
            return _find(f"{key}: {said}", said, number, variant, variants, where)

        start = stage.spec.start
        target = None if start == BACKBONE else find("start", start)
        fused = tuple(find("fuse", name) for name in stage.spec.fuse or ())
        result.append(replace(stage, start=target, fused=fused))
    return tuple(result)


def _find(
    key: str,
    said: str,
    number: int,
    variant: Variant,
    variants: Mapping[str, Variant],
    where: str,
) -> StageRef:
    """Return the stage that stage `number` of `variant` calls `said`."""
    names = [stage.ref.stage for stage in variant.stages]
    first, slash, rest = said.partition("/")
    own = rest if slash and first == variant.name else said
    if own in names[:number]:
        return variant.stages[names.index(own)].ref
    if own in names or own == variant.name:
        raise UserError(
            f"{where}: '{key}' is this stage or a later one of the same variant; "
            f"a stage starts from '{BACKBONE}', an earlier stage, or another variant"
        )
    return _other(key, said, where, names[:number], variants)


def _other(
    key: str, said: str, where: str, earlier: list[str], variants: Mapping[str, Variant]
) -> StageRef:
    """Return the stage that `VARIANT` (its last) or `VARIANT/STAGE` names."""
    name, slash, stage = said.partition("/")
    if name not in variants:
        known = [BACKBONE, *earlier, *variants]
        raise UserError(
            f"{where}: '{key.partition(':')[0]}' is unknown: '{said}'.{nearest(name, known)} "
            f"Known: {', '.join(known)}, or VARIANT/STAGE"
        )
    refs = {s.ref.stage: s.ref for s in variants[name].stages}
    if not refs:
        raise UserError(
            f"{where}: '{key}': variant '{name}' is the best of others: it has no stage"
        )
    if not slash:
        return list(refs.values())[-1]
    if stage not in refs:
        raise UserError(
            f"{where}: '{key}': variant '{name}' has no stage '{stage}'."
            f"{nearest(stage, refs)} Known: {', '.join(refs)}"
        )
    return refs[stage]


def check_cycle(stage: Stage, stages: Mapping[StageRef, Stage], where: str) -> None:
    """Refuse a stage that comes after itself."""
    waiting: list[tuple[StageRef, ...]] = [(stage.ref,)]
    while waiting:
        chain = waiting.pop()
        at = stages[chain[-1]]
        for before in (*([at.start] if at.start else []), *at.fused):
            if before in chain:
                circle = " -> ".join(str(ref) for ref in (*chain[chain.index(before) :], before))
                raise UserError(f"{where}: 'start' goes round in a circle: {circle}")
            waiting.append((*chain, before))


def check_start(stage: Stage, earlier: Stage, where: str) -> None:
    """Refuse a start whose weights do not cover what this stage needs."""
    if earlier.spec.trainable in {"adapters", "fusion"}:
        raise UserError(
            f"{where}: starts from '{earlier.ref}', which trains {earlier.spec.trainable} and "
            "leaves no encoder of its own; start from a stage with 'trainable: all', or 'fuse' it"
        )
    for name, task in stage.spec.tasks.items():
        if task.head_from is not None and task.head_from not in earlier.spec.tasks:
            raise UserError(
                f"{where}: 'head_from: {task.head_from}': '{earlier.ref}' has no such task; it "
                f"has {', '.join(earlier.spec.ordered_tasks)}"
            )
        if task.head_from is not None and _head(name, task) != _head(
            task.head_from, earlier.spec.tasks[task.head_from]
        ):
            raise UserError(
                f"{where}: 'head_from: {task.head_from}': that head has another shape in "
                f"'{earlier.ref}'; give both tasks the same head, features and number of classes"
            )
    theirs, ours = earlier.spec.shared_layers, stage.spec.shared_layers
    if theirs == "all":
        return
    if theirs != ours:
        raise UserError(
            f"{where}: 'shared_layers: {ours}' cannot start from '{earlier.ref}', which has "
            f"'shared_layers: {theirs}'; give both the same value, or 'all' to the earlier one"
        )
    missing = [task for task in stage.spec.ordered_tasks if task not in earlier.spec.tasks]
    if missing:
        raise UserError(
            f"{where}: starts from '{earlier.ref}', where each task has layers of its own, but "
            f"task '{missing[0]}' has none there; start from a stage that has it"
        )


def check_choice(variant: Variant, variants: Mapping[str, Variant], where: str) -> None:
    """Refuse candidates that are not there, or are themselves the best of others."""
    for name in variant.best_of:
        if name not in variants:
            raise UserError(f"{where}: 'best_of' names unknown '{name}'.{nearest(name, variants)}")
        if variants[name].best_of:
            raise UserError(
                f"{where}: 'best_of' names '{name}', which is itself the best of others; name "
                f"those: {', '.join(variants[name].best_of)}"
            )


def _head(name: str, task: TaskSpec) -> tuple[object, ...]:
    """Return what the shapes of a task's head follow from."""
    head = task.head
    return head.name, head.depth, head.width, len(task.features or ("u",)), TASKS[name].classes
