"""From grid files and a configuration to typed stages, each with the stages it starts from.

A variant's keys are defaults of its `stages`. Each is merged over the configuration's `defaults`,
scaled, overridden and typed; then the stages are found that `start` and `fuse` name.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import Field

from minbert.base.errors import UserError, did_you_mean
from minbert.spec.config import Config, Scale
from minbert.spec.figures import FIGURE_KINDS
from minbert.spec.grid import BACKBONE, Adjustments, Display, GridFile, Name, Paper
from minbert.spec.protocol import RULES
from minbert.spec.published import MAJORITY
from minbert.spec.stage import INSERTED, ONE_TASK, StageSpec
from minbert.spec.task import TASKS, Task, TaskSpec, overall_tasks
from minbert.spec.variants import MAIN, Body, bodies_of, candidates_of, flat, refuse_circle
from minbert.spec.yaml import inside, load_yaml, merge, nested, validated, without_nulls


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
    """A stage, the one that it starts from (None: the backbone), and those that it fuses.

    `plain` is what its grid says, without the configuration's `defaults`, `scale` and `override`.
    """

    ref: StageRef
    spec: StageSpec
    plain: StageSpec
    start: StageRef | None = None
    fused: tuple[StageRef, ...] = ()

    @property
    def after(self) -> tuple[StageRef, ...]:
        """All stages whose weights it takes."""
        return (*([self.start] if self.start else []), *self.fused)


class Variant(Display):
    """A row of a paper's grid, of the file `path`. If it is the best of others, it has no stages.

    A tuned variant is the best of its candidates, `tried`: {candidate: its settings in words}.
    These are variants too, `tuned_for` it, and no rows.
    """

    paper: str
    name: Name
    path: Path
    label: str
    row: str
    stages: tuple[Stage, ...] = ()
    tried: dict[str, str] = Field(default_factory=dict)
    tuned_for: str = ""

    @property
    def scored(self) -> dict[str, Stage]:
        """The stage that each task is scored by, the last that has it."""
        found = {task: stage for stage in self.stages for task in stage.spec.tasks}
        return {task: found[task] for task in TASKS if task in found}


class Grid(Paper):
    """A paper with its variants; `path` is its first grid file, `drawn_in` that of each figure.

    `tasks` are all that its variants are scored on, in the order of `TASKS`.
    """

    title: str
    path: Path
    variants: dict[str, Variant] = Field(min_length=1)
    drawn_in: dict[str, Path]
    tasks: tuple[str, ...]

    @property
    def rows(self) -> dict[str, Variant]:
        """The variants that are shown: all but the candidates of tuned ones."""
        return {name: v for name, v in self.variants.items() if not v.tuned_for}


def resolve(config: Config, base: Path) -> list[Grid]:
    """Return the grids that `config` names, relative to the folder `base`.

    A bare name such as `hybrid-bert` means `workflow/grids/hybrid-bert.yaml`. Files of one paper
    become one grid. From here on the tasks of this process are those of `config`. Raises
    `UserError` naming file, variant, stage and key.
    """
    TASKS.use(Task.of(name, entry) for name, entry in config.tasks.items())
    for key in ("defaults", "override"):
        validated(Adjustments, getattr(config, key), f"config: {key}")
    for key in config.allow_duplicates:
        validated(Adjustments, nested(key, None), "config: allow_duplicates")
    papers: dict[str, list[tuple[Path, GridFile]]] = {}
    for name in config.grids:
        bare = not name.endswith((".yaml", ".yml"))
        path = base / (f"workflow/grids/{name}.yaml" if bare else name)
        file = validated(GridFile, load_yaml(path), str(path))
        papers.setdefault(file.paper, []).append((path, file))
    return [_grid(files, config) for files in papers.values()]


def _grid(files: Sequence[tuple[Path, GridFile]], config: Config) -> Grid:
    """Return the grid of a paper's files."""
    head: dict[str, Any] = {}
    bodies: dict[str, Body] = {}
    drawn_in: dict[str, Path] = {}
    for path, file in files:
        with inside(str(path)):
            for name, body in bodies_of(file, path):
                if (other := bodies.setdefault(name, body)) is not body:
                    raise UserError(f"'{name}' is taken in {other.path}; rename one")
            for name in file.figures:
                if drawn_in.setdefault(name, path) is not path:
                    raise UserError(f"figure '{name}' is in {drawn_in[name]} too; rename one")
            for key in file.model_fields_set & Paper.model_fields.keys():
                value = getattr(file, key)
                before = head.get(key, value)
                if isinstance(value, dict):
                    value = before | value
                elif key in ("claims", "parameter_ratios") and key in head:
                    value = before + value
                elif before != value:
                    raise UserError(
                        f"another file says that '{key}' of paper '{file.paper}' is {before!r}; "
                        "leave it out here, or name another paper"
                    )
                head[key] = value
    path = head["path"] = next((path for path, file in files if file.title), files[0][0])
    with inside(str(path)):
        refuse_circle("extends", {n: b.values.get("extends") or () for n, b in bodies.items()})
    head.setdefault("overall", Paper.model_fields["overall"].default)
    variants: dict[str, Variant] = {}
    for name in (name for name, body in bodies.items() if not body.template):
        with inside(f"{bodies[name].path}: variant '{name}'"):
            for variant in _variants(name, bodies, head, config):
                if variants.setdefault(variant.name, variant) is not variant:
                    raise UserError(f"two variants are called '{variant.name}'; rename one")
    variants = _linked(variants, path)
    scored = {task for variant in variants.values() for task in variant.scored}
    tasks = tuple(task for task in TASKS if task in scored)
    head["overall_tasks"] = head.get("overall_tasks") or overall_tasks(tasks)
    found = {"variants": variants, "drawn_in": drawn_in, "tasks": tasks}
    grid = validated(Grid, head | found, str(path))
    _check(grid, files)
    return grid


def _variants(
    name: str, bodies: Mapping[str, Body], head: Mapping[str, Any], config: Config
) -> Iterator[Variant]:
    """Yield a variant, whose stages are not linked yet, and its candidates if it is tuned."""
    values = without_nulls(flat(name, bodies))
    of = {"paper": head["paper"], "path": bodies[name].path}
    shown = {key: values.pop(key) for key in Display.model_fields if key in values}
    row: dict[str, Any] = {**of, "name": name, "label": name, "row": name, **shown}
    candidates = []
    if row.get("best_of"):
        if values:
            raise UserError(f"'best_of' trains nothing, so '{next(iter(values))}' does not apply")
    elif "tune" in values:
        candidates = [*candidates_of(name, values)]
        row["tried"] = {candidate: said for candidate, said, _ in candidates}
        row["best_of"] = tuple(row["tried"])
    else:
        row["stages"] = _stages(name, values, head, config)
    yield validated(Variant, row)
    for candidate, said, keys in candidates:
        with inside(said):
            label, stages = f"{row['label']}, {said}", _stages(candidate, keys, head, config)
            tuned = {"name": candidate, "label": label, "row": candidate, "tuned_for": name}
            yield validated(Variant, {**of, **tuned, "stages": stages})


def _stages(
    variant: str, values: Mapping[str, Any], head: Mapping[str, Any], config: Config
) -> tuple[Stage, ...]:
    """Return a variant's stages; it has one, `main`, if it names none."""
    shared = {key: value for key, value in values.items() if key != "stages"}
    found: dict[str, Stage] = {}
    for keys in values.get("stages") or MAIN:
        own = {**keys}
        name = own.pop("name")
        with inside(f"stage '{name}'"):
            if name in found:
                raise UserError("two stages are called so; rename one")
            chosen = _chosen(without_nulls(merge(shared, own)))
            specs = _specs({"select": head["overall"], **chosen}, config)
            found[name] = Stage(StageRef(head["paper"], variant, name), *specs)
    return tuple(found.values())


def _chosen(keys: dict[str, Any]) -> dict[str, Any]:
    """Return a stage's keys with the tasks that `train` (default: all) and `evaluate_only` name."""
    tasks = {name: task for name, task in keys.pop("tasks", {}).items() if name != "*"}
    train, carried = keys.pop("train", ()), keys.pop("evaluate_only", ())
    if unknown := [name for name in (*train, *carried) if name not in tasks]:
        raise UserError(
            f"'{unknown[0]}' is not among its 'tasks': {', '.join(tasks)}."
            f"{did_you_mean(unknown[0], tasks)}"
        )
    if both := set(train) & set(carried):
        raise UserError(f"task '{min(both)}' is in 'train' and in 'evaluate_only'")
    said = dict.fromkeys(train, True) | dict.fromkeys(carried, False)
    kept = {name: task for name, task in tasks.items() if name in said or not train}
    trained = {name: {"trained": said[name]} for name in said}
    return {**keys, "tasks": {name: task | trained.get(name, {}) for name, task in kept.items()}}


def _specs(keys: Mapping[str, Any], config: Config) -> tuple[StageSpec, StageSpec]:
    """Return what the configuration makes of the spec that a grid's `keys` say, and this itself."""

    def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
        values = without_nulls(merge(base, over))
        # The configuration names tasks that not every stage has; it takes none out.
        return values | {"tasks": {task: values["tasks"].get(task) for task in keys["tasks"]}}

    plain = validated(StageSpec, keys)
    # Merged into nothing first: their `*` is for the tasks that they name too.
    spec = validated(StageSpec, merged(merge({}, config.defaults), keys))
    adjusted = merged(_scaled(spec, config.scale), config.override)
    return validated(StageSpec, adjusted, "after scale and override of the config"), plain


def _scaled(spec: StageSpec, scale: Scale) -> dict[str, Any]:
    """Return the values of `spec`, of which a small machine can train fewer steps."""
    values: dict[str, Any] = spec.model_dump()
    heads = spec.trainable == "heads"
    factors = scale.heads if heads else scale
    # Twelve digits, so that 3 x 1e-5 is the same stage as 3e-5.
    values["optimiser"]["lr"] = float(f"{spec.optimiser.lr * factors.learning_rate:.12g}")
    values["epochs"] = max(1, int(spec.epochs * factors.epochs + 0.5))
    if scale.steps.per_epoch and not heads:
        steps = max(scale.steps.per_epoch * spec.epochs, scale.steps.min)
        steps *= len(spec.trained_tasks) if spec.sampler.name in ONE_TASK else 1
        values["epochs"] = scale.steps.epochs or values["epochs"]
        values["sampler"]["steps"] = -(-steps // values["epochs"])
    if scale.batch_size.max and not heads:
        largest = max(spec.tasks[task].batch_size for task in spec.trained_tasks)
        share = min(1.0, scale.batch_size.max / largest)
        for task in values["tasks"].values():
            size = task["batch_size"]
            task["batch_size"] = max(min(size, scale.batch_size.min), int(size * share + 0.5))
    return values


def _linked(variants: Mapping[str, Variant], path: Path) -> dict[str, Variant]:
    """Return `variants` with the stages found that `start` and `fuse` name.

    A name means an earlier stage of the same variant, `VARIANT` (its last stage), `VARIANT/STAGE`.
    Refuses a stage that comes after itself, or after one that does not fit.
    """

    def at(ref: StageRef) -> AbstractContextManager[None]:
        return inside(f"{variants[ref.variant].path}: variant '{ref.variant}': stage '{ref.stage}'")

    stages = {stage.ref: stage for variant in variants.values() for stage in variant.stages}
    known = {name: ref for ref in stages for name in (str(ref), ref.variant)}
    for ref, stage in stages.items():
        own = [other for other in stages if other.variant == ref.variant]
        there = {name: other for name, other in known.items() if other not in own}
        for earlier in own[: own.index(ref)]:
            there |= {str(earlier): earlier, earlier.stage: earlier}
        starts = [stage.spec.start] if stage.spec.start != BACKBONE else []
        names = [*starts, *(stage.spec.fuse or ())]
        with at(ref):
            if unknown := [name for name in names if name not in there]:
                raise UserError(
                    f"no stage '{unknown[0]}' to start from or to fuse."
                    f"{did_you_mean(unknown[0], [BACKBONE, *there])} Give '{BACKBONE}', "
                    "an earlier stage of the variant, or VARIANT or VARIANT/STAGE of another; "
                    "the best of others has no stages"
                )
            found = [there[name] for name in names]
            start = found.pop(0) if starts else None
            stages[ref] = replace(stage, start=start, fused=tuple(found))
            _check_start(stages[ref], stages)
    with inside(str(path)):
        refuse_circle("start", {ref: stage.after for ref, stage in stages.items()})
    for ref, stage in stages.items():
        with at(ref):
            if variants[ref.variant].tuned_for:
                _check_half(stage, stages)
    return {
        name: variant.model_copy(update={"stages": tuple(stages[s.ref] for s in variant.stages)})
        for name, variant in variants.items()
    }


def _check_half(stage: Stage, stages: Mapping[StageRef, Stage]) -> None:
    """Refuse a tuned stage if all of dev chose its epoch, or that of a stage it comes after."""
    if stage.spec.selection_split != "half":
        raise UserError(
            f"'{stage.ref}' has 'selection_split: {stage.spec.selection_split}' and is tuned, or "
            "comes before what is: a half of dev chooses among the settings and is not reported, "
            "so it must choose the epochs too; say 'selection_split: half' there, and nothing in "
            "'override'"
        )
    for ref in stage.after:
        _check_half(stages[ref], stages)


def _check_start(stage: Stage, stages: Mapping[StageRef, Stage]) -> None:
    """Refuse stages before a stage whose weights do not cover what it needs."""
    for ref in stage.fused:
        if (trains := stages[ref].spec.trainable) != "adapters":
            raise UserError(f"'fuse' names '{ref}', which trains {trains}, expected adapters")
    if stage.start is None:
        return
    ours, theirs, start = stage.spec, stages[stage.start].spec, f"'{stage.start}'"
    if theirs.trainable in INSERTED:
        raise UserError(
            f"starts from {start}, which trains {theirs.trainable} and leaves no encoder; start "
            "from a stage with 'trainable: all', or 'fuse' it"
        )
    for name, task in ours.tasks.items():
        other = task.init_head_from
        if other is not None and other not in theirs.tasks:
            had = ", ".join(theirs.ordered_tasks)
            raise UserError(f"'init_head_from: {other}': {start} has no such task; it has {had}")
        if other is not None and _head(name, task) != _head(other, theirs.tasks[other]):
            raise UserError(
                f"'init_head_from: {other}': that head has another shape in {start}; give both "
                "tasks the same head, features and number of classes"
            )
    if theirs.shared_layers == "all":
        return
    sharing, earlier = ((of.shared_layers, of.shared_end) for of in (ours, theirs))
    if sharing != earlier:
        raise UserError(
            f"has shared_layers and shared_end {sharing}, and starts from {start}, which has "
            f"{earlier}; give both the same values, or share all in the earlier one"
        )
    if missing := [task for task in ours.ordered_tasks if task not in theirs.tasks]:
        raise UserError(
            f"starts from {start}, where each task has layers to itself, but task '{missing[0]}' "
            "has none there; start from a stage that has it"
        )


def _head(name: str, task: TaskSpec) -> tuple[object, ...]:
    """Return what decides the shape of a task's head."""
    head = task.head
    return head.name, head.depth, head.width, len(task.features or ("u",)), TASKS[name].classes


def _check(grid: Grid, files: Sequence[tuple[Path, GridFile]]) -> None:
    """Refuse what a paper's files say of variants and tasks that are not there, or do not fit."""

    def known(*names: str, trains: bool = False, scored: bool = True) -> None:
        for name in names:
            if name not in grid.variants:
                near = did_you_mean(name, [*grid.variants, MAJORITY])
                raise UserError(f"no variant '{name}'.{near}")
            variant = grid.variants[name]
            if trains and variant.best_of:
                raise UserError(
                    f"variant '{name}' is the best of others and trains nothing itself; name one "
                    f"of those: {', '.join(variant.best_of)}"
                )
            if scored and variant.tuned_for:
                raise UserError(
                    f"variant '{name}' is one of the settings that '{variant.tuned_for}' tries, "
                    f"which have no scores; name '{variant.tuned_for}'"
                )

    for variant in grid.rows.values():
        with inside(f"{variant.path}: variant '{variant.name}'"):
            if len({tuple(grid.variants[name].scored) for name in variant.tried}) > 1:
                raise UserError("'tune' compares settings that have different tasks")
            if not variant.tried:
                with inside("best_of"):
                    known(*variant.best_of, trains=True)
    for path, file in files:
        with inside(f"{path}: overall_tasks"):
            if missing := [task for task in file.overall_tasks if task not in grid.tasks]:
                raise UserError(
                    f"no variant has the task '{missing[0]}'.{did_you_mean(missing[0], grid.tasks)}"
                    f" They have {', '.join(grid.tasks)}"
                )
        with inside(f"{path}: parameter_ratios"):
            known(*itertools.chain(*file.parameter_ratios), scored=False)
        with inside(f"{path}: single"):
            for task in grid.overall_tasks if file.single else ():
                known(file.single, trains=True)
                stage = grid.variants[file.single].scored.get(task)
                if stage is None or stage.spec.trained_tasks != (task,):
                    raise UserError(
                        f"'{file.single}' needs a stage that trains '{task}' alone and is the last "
                        "that scores it"
                    )
        for name, figure in file.figures.items():
            reads = FIGURE_KINDS[figure.kind].reading(figure.options)
            with inside(f"{path}: figure '{name}'"):
                known(*figure.variants, trains=reads.of_stages, scored="scores" in reads.papers)
        for claim in file.claims:
            with inside(f"{path}: claim '{claim.text}'"):
                if grid.claims.count(claim) > 1:
                    raise UserError("is there twice; keep one of them")
                known(*claim.variants)
                for task, name in itertools.product(claim.task, claim.variants):
                    of = (name, *grid.variants[name].best_of)
                    scored = {task for each in of for task in grid.variants[each].scored}
                    overall = grid.overall_tasks if task in ("overall", *RULES) else (task,)
                    if missing := [each for each in overall if each not in scored]:
                        raise UserError(
                            f"'{task}' needs the task '{missing[0]}', which variant '{name}' does "
                            f"not have; it has {', '.join(sorted(scored))}."
                            f"{did_you_mean(task, scored)}"
                        )
