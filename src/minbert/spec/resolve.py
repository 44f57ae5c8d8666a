"""From grid files and a configuration to typed stages, each with the stages it starts from.

A variant's keys are defaults of its `stages`. Each is merged over the configuration's `defaults`,
scaled, overridden and typed; then the stages are found that `start` and `fuse` name.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import Field

from minbert.base.errors import UserError, nearest
from minbert.spec.config import Config, Scale
from minbert.spec.grid import (
    BACKBONE,
    GridFile,
    Looks,
    Paper,
    partial,
)
from minbert.spec.parts import FIGURE_KINDS
from minbert.spec.protocol import RULES, Rule
from minbert.spec.published import MAJORITY, Claim
from minbert.spec.stage import ONE_TASK, StageSpec
from minbert.spec.task import TASKS, Task, TaskSpec, overall_tasks
from minbert.spec.variants import Body, bodies_of, variants_of
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


class Variant(Looks):
    """A row of a paper's grid, of the file `path`. If it is the best of others, it has no stages.

    A tuned variant is the best of its candidates, `tried`: {candidate: its settings in words}.
    These are variants too, `tuned_for` it, and no rows.
    """

    paper: str
    name: str
    path: Path
    label: str
    row: str
    stages: tuple[Stage, ...] = ()
    tried: dict[str, str] = Field(default_factory=dict)
    tuned_for: str = ""

    @property
    def where(self) -> str:
        """Its file and name, as errors begin."""
        return f"{self.path}: variant '{self.name}'"

    @property
    def scored(self) -> dict[str, Stage]:
        """The stage that each task is scored by, the last that has it."""
        found = {task: stage for stage in self.stages for task in stage.spec.tasks}
        return {task: found[task] for task in TASKS if task in found}


class Grid(Paper):
    """A paper with its variants; `path` is its first grid file, `drawn_in` that of each figure.

    `tasks` are all that its variants are scored on, in the order of `TASKS`.
    """

    path: Path
    variants: dict[str, Variant]
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
        validated(partial(StageSpec), getattr(config, key), f"config: {key}")
    for key in config.allow_duplicates:
        validated(partial(StageSpec), nested(key, None), "config: allow_duplicates")
    paths: dict[Path, Path] = {}
    for name in config.grids:
        bare = not name.endswith((".yaml", ".yml"))
        path = base / (f"workflow/grids/{name}.yaml" if bare else name)
        if (other := paths.setdefault(path.resolve(), path)) is not path:
            raise UserError(f"config: grids: {other} and {path} are one file; name one")
    files = [(path, validated(GridFile, load_yaml(path), str(path))) for path in paths.values()]
    papers = dict.fromkeys(file.paper for _, file in files)
    return [_grid([each for each in files if each[1].paper == paper], config) for paper in papers]


def _grid(files: Sequence[tuple[Path, GridFile]], config: Config) -> Grid:
    """Return the grid of a paper's files."""
    head: dict[str, Any] = {"figures": {}, "parameter_ratios": (), "claims": ()}
    bodies: dict[str, Body] = {}
    drawn_in: dict[str, Path] = {}
    for path, file in files:
        for key in ("paper", "title", "overall", "description", "single", "overall_tasks"):
            if key in file.model_fields_set:
                value = getattr(file, key)
                if head.setdefault(key, value) != value:
                    raise UserError(
                        f"{path}: another file says that '{key}' of paper '{file.paper}' is "
                        f"{head[key]!r}; leave it out here, or name another paper"
                    )
        for body in bodies_of(file, path):
            if (other := bodies.setdefault(body.name, body)) is not body:
                raise UserError(f"{path}: '{body.name}' is taken in {other.path}; rename one")
        for name in file.figures:
            if drawn_in.setdefault(name, path) is not path:
                raise UserError(f"{path}: figure '{name}' is in {drawn_in[name]} too; rename one")
        head["figures"] |= file.figures
        head["parameter_ratios"] += file.parameter_ratios
        head["claims"] += file.claims
    path = next((path for path, file in files if file.title), files[0][0])
    if "title" not in head:
        raise UserError(
            f"{path}: the key 'title' is missing; no file of '{head['paper']}' gives it"
        )
    rule = head.setdefault("overall", "normalised")
    variants: dict[str, Variant] = {}
    for body in bodies.values():
        for looks, keys in () if body.template else variants_of(body, bodies):
            name = looks["name"]
            with inside(f"{body.path}: variant '{name}'"):
                if name in variants or (name in bodies and bodies[name] is not body):
                    raise UserError("'tune' makes a variant of that name, which is taken")
                variant = Variant(paper=head["paper"], path=body.path, **looks)
                stages = () if variant.best_of else _stages(variant, keys, rule, config)
                variants[name] = variant.model_copy(update={"stages": stages})
    if not variants:
        raise UserError(f"{path}: paper '{head['paper']}' has no variant: nothing to train")
    variants = {name: _linked(variant, variants) for name, variant in variants.items()}
    _check_variants(variants)
    has = {task for variant in variants.values() for task in variant.scored}
    tasks = tuple(task for task in TASKS if task in has)
    for task in head.setdefault("overall_tasks", ()):
        if task not in tasks:
            raise UserError(
                f"{path}: overall_tasks: no variant has the task '{task}'.{nearest(task, tasks)} "
                f"They have {', '.join(tasks)}"
            )
    head["overall_tasks"] = head["overall_tasks"] or overall_tasks(tasks)
    grid = Grid(**head, path=path, variants=variants, drawn_in=drawn_in, tasks=tasks)
    with inside(", ".join(str(path) for path, _ in files)):
        _check_names(grid)
    return grid


def _stages(
    variant: Variant, values: Mapping[str, Any], rule: Rule, config: Config
) -> tuple[Stage, ...]:
    """Return a variant's stages; what they start from is not found yet."""
    shared = {key: value for key, value in values.items() if key != "stages"}
    stages: dict[str, Stage] = {}
    for keys in values.get("stages") or ({"name": "main"},):
        own = {**keys}
        name = own.pop("name")
        if name in stages:
            raise UserError(f"two stages are called '{name}'; rename one")
        with inside(f"stage '{name}'"):
            chosen = _chosen(without_nulls(merge(shared, own)))
        plain, spec = _specs(chosen, rule, config, f"stage '{name}'")
        stages[name] = Stage(StageRef(variant.paper, variant.name, name), spec, plain)
    return tuple(stages.values())


def _chosen(keys: dict[str, Any]) -> dict[str, Any]:
    """Return a stage's keys with the tasks that `train` (default: all) and `evaluate_only` name."""
    tasks = {name: task for name, task in keys.get("tasks", {}).items() if name != "*"}
    train, carried = keys.pop("train", ()), keys.pop("evaluate_only", ())
    for key, names in (("train", train), ("evaluate_only", carried)):
        for name in names:
            if name not in tasks:
                raise UserError(
                    f"'{key}' names '{name}', which is not among its 'tasks': "
                    f"{', '.join(tasks)}.{nearest(name, tasks)}"
                )
    if both := [name for name in carried if name in train]:
        raise UserError(f"task '{both[0]}' is in 'train' and in 'evaluate_only'")
    trained = train or [name for name in tasks if name not in carried]
    kept = {name: {**tasks[name], **({"trained": True} if train else {})} for name in trained}
    kept |= {name: {**tasks[name], "trained": False} for name in carried}
    return {**keys, **({"tasks": kept} if "tasks" in keys else {})}


def _specs(
    keys: Mapping[str, Any], rule: Rule, config: Config, where: str
) -> tuple[StageSpec, StageSpec]:
    """Return the spec that a grid's `keys` say, and what the configuration makes of it."""

    def typed(values: Mapping[str, Any], where: str) -> StageSpec:
        return validated(StageSpec, {"select": rule, **values}, where)

    def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
        values = without_nulls(merge(base, over))
        tasks = values.get("tasks", {})
        if gone := keys["tasks"].keys() - tasks.keys():
            raise UserError(f"{where}: a configuration takes no task out, found null for {gone}")
        # The configuration names tasks that not every stage has.
        return values | {"tasks": {task: tasks[task] for task in keys["tasks"]}}

    plain = typed(keys, where)
    # Merged into nothing first: their `*` is for the tasks that they name too.
    spec = typed(merged(merge({}, config.defaults), keys), where) if config.defaults else plain
    adjusted = merged(_scaled(spec, config.scale), config.override)
    return plain, typed(adjusted, f"{where}, after scale and override of the config")


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


def _linked(variant: Variant, variants: Mapping[str, Variant]) -> Variant:
    """Return `variant` with the stages found that `start` and `fuse` name."""
    linked: list[Stage] = []
    for stage in variant.stages:
        earlier = [before.ref.stage for before in linked]
        with inside(f"{variant.where}: stage '{stage.ref.stage}'"):
            start, fuse = stage.spec.start, stage.spec.fuse or ()
            first = None if start == BACKBONE else _find("start", start, variant, earlier, variants)
            fused = tuple(_find("fuse", name, variant, earlier, variants) for name in fuse)
        linked.append(replace(stage, start=first, fused=fused))
    return variant.model_copy(update={"stages": tuple(linked)})


def _find(
    key: str, said: str, variant: Variant, earlier: list[str], variants: Mapping[str, Variant]
) -> StageRef:
    """Return the stage that `key` means: an `earlier` one, `VARIANT` or `VARIANT/STAGE`."""
    first, slash, stage = said.partition("/")
    own = stage if slash and first == variant.name else said
    if own in earlier:
        return StageRef(variant.paper, variant.name, own)
    if first == variant.name or own in [each.ref.stage for each in variant.stages]:
        raise UserError(
            f"'{key}: {said}' is this stage or a later one of the same variant; a stage starts "
            f"from '{BACKBONE}', an earlier stage, or another variant"
        )
    if first not in variants:
        known = [BACKBONE, *earlier, *variants]
        raise UserError(
            f"'{key}' is unknown: '{said}'.{nearest(first, known)} Known: {', '.join(known)}, or "
            "VARIANT/STAGE"
        )
    with inside(f"'{key}: {said}'"):
        found = {each.ref.stage: each.ref for each in _named(first, variants, stages=True).stages}
        if slash and stage not in found:
            raise UserError(
                f"variant '{first}' has no stage '{stage}'.{nearest(stage, found)} "
                f"Known: {', '.join(found)}"
            )
    return found[stage] if slash else [*found.values()][-1]


def _named(
    name: str, variants: Mapping[str, Variant], *, stages: bool = False, scores: bool = False
) -> Variant:
    """Return the variant called `name`; refuse one without the stages or scores that are needed."""
    if name not in variants:
        raise UserError(f"no variant '{name}'.{nearest(name, [*variants, MAJORITY])}")
    variant = variants[name]
    if stages and variant.best_of:
        raise UserError(
            f"variant '{name}' is the best of others and trains nothing itself; name one of "
            f"those: {', '.join(variant.best_of)}"
        )
    if scores and variant.tuned_for:
        raise UserError(
            f"variant '{name}' is one of the settings that '{variant.tuned_for}' tries, which "
            f"have no scores; name '{variant.tuned_for}', or make it a variant of its own"
        )
    return variant


def _check_variants(variants: Mapping[str, Variant]) -> None:
    """Refuse a stage that comes after what does not fit, and a choice among what has no score."""
    stages = {stage.ref: stage for variant in variants.values() for stage in variant.stages}
    for ref, stage in stages.items():
        variant = variants[ref.variant]
        with inside(f"{variant.where}: stage '{ref.stage}'"):
            chain = [ref]
            while (before := stages[chain[-1]].start) and before not in chain[1:]:
                chain.append(before)
                if before == ref:
                    circle = " -> ".join(map(str, chain))
                    raise UserError(f"'start' goes round in a circle: {circle}")
            if stage.start:
                _check_start(stage, stages[stage.start])
            for other in stage.fused:
                if (trains := stages[other].spec.trainable) != "adapters":
                    raise UserError(
                        f"'fuse' names '{other}', which trains no adapters ('trainable: {trains}')"
                    )
            if variant.tuned_for:
                _check_half(stage, stages)
    for variant in variants.values():
        if len({tuple(variants[name].scored) for name in variant.tried}) > 1:
            raise UserError(f"{variant.where}: 'tune' compares settings that have different tasks")
        for name in () if variant.tried else variant.best_of:
            with inside(f"{variant.where}: 'best_of'"):
                if others := _named(name, variants, scores=True).best_of:
                    raise UserError(
                        f"'{name}' is itself the best of others; name those: {', '.join(others)}"
                    )


def _check_half(stage: Stage, stages: Mapping[StageRef, Stage]) -> None:
    """Refuse a tuned stage if all of dev chose its epoch, or that of a stage it comes after."""
    if stage.spec.select_on != "half":
        raise UserError(
            f"'{stage.ref}' has 'select_on: {stage.spec.select_on}' and is tuned, or comes before "
            "what is: a half of dev chooses among the settings and is not reported, so it must "
            "choose the epochs too; say 'select_on: half' there, and nothing in 'override'"
        )
    for ref in (*([stage.start] if stage.start else []), *stage.fused):
        _check_half(stages[ref], stages)


def _check_start(stage: Stage, earlier: Stage) -> None:
    """Refuse a start whose weights do not cover what this stage needs."""
    ours, theirs, ref = stage.spec, earlier.spec, earlier.ref
    if theirs.trainable in {"adapters", "lora", "fusion"}:
        raise UserError(
            f"starts from '{ref}', which trains {theirs.trainable} and leaves no encoder of its "
            "own; start from a stage with 'trainable: all', or 'fuse' it"
        )
    for name, task in ours.tasks.items():
        if (other := task.head_from) is None:
            continue
        if other not in theirs.tasks:
            raise UserError(
                f"'head_from: {other}': '{ref}' has no such task; it has "
                f"{', '.join(theirs.ordered_tasks)}"
            )
        if _head_shape(name, task) != _head_shape(other, theirs.tasks[other]):
            raise UserError(
                f"'head_from: {other}': that head has another shape in '{ref}'; give both tasks "
                "the same head, features and number of classes"
            )
    if theirs.shared_layers == "all":
        return
    for key in ("shared_layers", "shared_end"):
        if (had := getattr(theirs, key)) != (has := getattr(ours, key)):
            raise UserError(
                f"'{key}: {has}' cannot start from '{ref}', which has '{key}: {had}'; give both "
                "the same value, or share all in the earlier one"
            )
    if missing := [task for task in ours.ordered_tasks if task not in theirs.tasks]:
        raise UserError(
            f"starts from '{ref}', where each task has layers of its own, but task "
            f"'{missing[0]}' has none there; start from a stage that has it"
        )


def _head_shape(name: str, task: TaskSpec) -> tuple[object, ...]:
    head = task.head
    return head.name, head.depth, head.width, len(task.features or ("u",)), TASKS[name].classes


def _check_names(grid: Grid) -> None:
    """Refuse what a paper's files say of variants and tasks that are not there, or do not fit."""
    variants = grid.variants
    for name in itertools.chain(*grid.parameter_ratios):
        with inside("parameter_ratios"):
            _named(name, variants)
    if grid.single:
        with inside("single"):
            scored = _named(grid.single, variants, stages=True, scores=True).scored
            for task in grid.overall_tasks:
                if task not in scored or scored[task].spec.trained_tasks != (task,):
                    raise UserError(
                        f"variant '{grid.single}' needs a stage that trains '{task}' alone and is "
                        "the last that scores it"
                    )
    for name, figure in grid.figures.items():
        reads = FIGURE_KINDS[figure.kind]
        for shown in figure.variants:
            with inside(f"figure '{name}'"):
                _named(shown, variants, stages=reads.of_stages, scores="scores" in reads.papers)
    for claim in grid.claims:
        with inside(f"claim '{claim.text}'"):
            if grid.claims.count(claim) > 1:
                raise UserError("is there twice; take one of them out")
            for name in claim.variants:
                _named(name, variants, scores=True)
            _check_scored(claim, grid)


def _check_scored(claim: Claim, grid: Grid) -> None:
    """Refuse a claim of a task that one of its variants is not scored on."""
    overall = ("overall", *RULES)
    known = [*TASKS, *overall]
    for task in claim.tasks:
        if task not in known:
            raise UserError(
                f"unknown task '{task}'.{nearest(task, known)} Known: {', '.join(known)}"
            )
        for name in claim.variants:
            variant = grid.variants[name]
            scored = {t for each in (name, *variant.best_of) for t in grid.variants[each].scored}
            for each in grid.overall_tasks if task in overall else (task,):
                if each not in scored:
                    raise UserError(
                        f"'{task}' needs the task '{each}', which variant '{name}' does not have; "
                        "name another task or variant"
                    )
