"""From grid files and a configuration to typed stages, each with the stages it starts from.

A variant's keys are defaults of its `stages`. Each is merged over the configuration's `defaults`,
scaled, overridden and typed; then the stages are found that `start` and `fuse` name.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from itertools import chain, product
from pathlib import Path
from typing import Any

from pydantic import Field

from minbert.base.errors import UserError, did_you_mean
from minbert.spec.config import Config, Scale
from minbert.spec.grid import BACKBONE, Adjustments, Display, GridFile, Name, Paper, Template
from minbert.spec.protocol import RULES
from minbert.spec.published import MAJORITY
from minbert.spec.stage import INSERTED, ONE_TASK, StageSpec
from minbert.spec.task import TASKS, Task, overall_tasks
from minbert.spec.variants import MAIN, variants_of
from minbert.spec.yaml import inside, load_yaml, merge, validated, without_nulls


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
    """A row of a paper's grid. If it is the best of others, it has no stages.

    A tuned variant is the best of its candidates, `tried`: {candidate: its settings in words}.
    These are variants too, `tuned_for` it, and no rows.
    """

    paper: str
    name: Name
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
    """A paper with its variants; `path` is its first grid file.

    `tasks` are all that its variants are scored on, in the order of `TASKS`.
    """

    title: str
    path: Path
    variants: dict[str, Variant] = Field(min_length=1)
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
    papers: dict[str, dict[Path, GridFile]] = {}
    for name in config.grids:
        bare = not name.endswith((".yaml", ".yml"))
        path = base / (f"workflow/grids/{name}.yaml" if bare else name)
        file = validated(GridFile, load_yaml(path), str(path))
        papers.setdefault(file.paper, {})[path] = file
    return [_grid(files, config) for files in papers.values()]


def _grid(files: Mapping[Path, GridFile], config: Config) -> Grid:
    """Return the grid of a paper's files."""
    with inside(", ".join(map(str, files))):
        said = _joined(files.values())
        said.setdefault("overall", Paper.model_fields["overall"].default)
        rows = dict[str, dict[str, Any]]()
        stages = dict[StageRef, Stage]()
        for row, keys in variants_of(said.pop("templates", {}), said.pop("variants", {})):
            if rows.setdefault(row["name"], row) is not row:
                raise UserError(f"two variants are called '{row['name']}'; rename one")
            if not row.get("best_of"):
                with inside(f"variant '{row['name']}'"):
                    stages |= _stages(row["name"], keys, said, config)
        linked = _linked(stages).values()
        said["tasks"] = [task for task in TASKS if any(task in of.spec.tasks for of in linked)]
        said["overall_tasks"] = said.get("overall_tasks") or overall_tasks(said["tasks"])
        said["path"] = next((path for path, file in files.items() if file.title), next(iter(files)))
        for name, row in rows.items():
            own = tuple(stage for stage in linked if stage.ref.variant == name)
            row |= {"paper": said["paper"], "stages": own}
        grid = validated(Grid, {**said, "variants": rows})
        for mistake in _mistakes(grid):
            raise UserError(mistake)
    return grid


def _joined(files: Iterable[GridFile]) -> dict[str, Any]:
    """Return what a paper's files say together."""
    said: dict[str, Any] = {}
    for file in files:
        for key in file.model_fields_set:
            value = getattr(file, key)
            before = said.setdefault(
                key, type(value)() if isinstance(value, dict | tuple) else value
            )
            if isinstance(value, dict):
                if twice := before.keys() & value:
                    raise UserError(f"two files have {key} called '{min(twice)}'; rename one")
                said[key] = before | value
            elif isinstance(value, tuple):
                said[key] = before + value
            elif value != before:
                raise UserError(f"one file has '{key}: {before}', another '{value}'; say it once")
    return said


def _stages(
    variant: str, values: Mapping[str, Any], paper: Mapping[str, Any], config: Config
) -> dict[StageRef, Stage]:
    """Return a variant's stages; it has one, `main`, if it names none."""
    shared = validated(Template, values).model_dump(exclude_unset=True)
    found: dict[StageRef, Stage] = {}
    for own in shared.pop("stages", None) or MAIN:
        with inside(f"stage '{own['name']}'"):
            ref = StageRef(paper["paper"], variant, own["name"])
            if ref in found:
                raise UserError("two stages are called so; rename one")
            keys = _chosen(without_nulls(merge(shared, {**own, "name": None})))
            found[ref] = Stage(ref, *_specs({"select": paper["overall"], **keys}, config))
    return found


def _chosen(keys: dict[str, Any]) -> dict[str, Any]:
    """Return a stage's keys with the tasks that `train` (default: all) and `evaluate_only` name."""
    train, carried = keys.pop("train", ()), keys.pop("evaluate_only", ())
    named = {task: {"trained": True} for task in train}
    named |= {task: {"trained": False} for task in carried}
    tasks = {name: task for name, task in keys.get("tasks", {}).items() if name != "*"}
    if train:
        tasks = {name: task for name, task in tasks.items() if name in named}
    return {**keys, "tasks": merge(tasks, named)}


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
    if heads:
        return values
    if scale.steps.per_epoch:
        steps = max(scale.steps.per_epoch * spec.epochs, scale.steps.min)
        steps *= len(spec.trained_tasks) if spec.sampler.name in ONE_TASK else 1
        values["epochs"] = scale.steps.epochs or values["epochs"]
        values["sampler"]["steps"] = -(-steps // values["epochs"])
    if scale.batch_size.max:
        largest = max(spec.tasks[task].batch_size for task in spec.trained_tasks)
        share = min(1.0, scale.batch_size.max / largest)
        for task in values["tasks"].values():
            size = task["batch_size"]
            task["batch_size"] = max(min(size, scale.batch_size.min), int(size * share + 0.5))
    return values


def _linked(stages: dict[StageRef, Stage]) -> dict[StageRef, Stage]:
    """Return `stages` with those found that `start` and `fuse` name.

    A name means a stage of the same variant, `VARIANT` (its last stage) or `VARIANT/STAGE`.
    Refuses a stage that comes after itself, or after one that does not fit.
    """
    known = {name: ref for ref in stages for name in (str(ref), ref.variant)}
    linked = {}
    for ref, stage in stages.items():
        there = known | {of.stage: of for of in stages if of.variant == ref.variant}
        start, fuse = stage.spec.start, stage.spec.fuse or ()
        for name in (start, *fuse):
            if name not in (BACKBONE, *there):
                raise UserError(
                    f"'{ref}': no stage '{name}' to start from or to fuse."
                    f"{did_you_mean(name, [BACKBONE, *there])} Give '{BACKBONE}', a stage of the "
                    "variant, or VARIANT or VARIANT/STAGE of another that has stages"
                )
        fused = tuple(there[name] for name in fuse)
        linked[ref] = replace(stage, start=there.get(start), fused=fused)
        for mistake in _unfit(linked[ref], stages):
            raise UserError(f"'{ref}' {mistake}")
    try:
        TopologicalSorter({ref: stage.after for ref, stage in linked.items()}).prepare()
    except CycleError as error:
        circle = " -> ".join(map(str, reversed(error.args[1])))
        raise UserError(f"'start' goes round in a circle: {circle}") from None
    return linked


def _unfit(stage: Stage, stages: Mapping[StageRef, Stage]) -> Iterator[str]:
    """Yield why a stage cannot come after those that it starts from and fuses."""
    for ref in stage.fused:
        if stages[ref].spec.trainable != "adapters":
            yield f"fuses '{ref}', which has no adapters"
    if stage.start is None:
        return
    ours, theirs, start = stage.spec, stages[stage.start].spec, f"'{stage.start}'"
    if theirs.trainable in INSERTED:
        yield f"starts from {start}, which trains {theirs.trainable} and leaves no encoder"
    for name, task in ours.tasks.items():
        if other := task.init_head_from:
            of, alike = theirs.tasks.get(other), TASKS[name].classes == TASKS[other].classes
            if not of or not alike or (of.head, of.features) != (task.head, task.features):
                yield f"has 'init_head_from: {other}', but {start} has no such head of that shape"
    apart = theirs.shared_layers != "all"
    sharing = [(of.shared_layers, of.shared_end) for of in (ours, theirs)]
    if apart and (sharing[0] != sharing[1] or ours.tasks.keys() - theirs.tasks.keys()):
        yield (
            f"starts from {start}, where tasks have layers to themselves: give both the same "
            "'shared_layers', 'shared_end' and tasks"
        )


def _mistakes(grid: Grid) -> Iterator[str]:
    """Yield what a paper says of variants and tasks that are not there, or do not fit."""
    stages = {stage.ref: stage for of in grid.variants.values() for stage in of.stages}
    trained = {ref.variant for ref in stages if ref.variant in grid.rows}
    named: list[tuple[str, Iterable[str], Collection[str]]] = [
        ("single", [grid.single] if grid.single else [], trained),
        ("parameter_ratios", chain(*grid.parameter_ratios), grid.variants),
        *((f"claim '{claim.text}'", claim.variants, grid.rows) for claim in grid.claims),
        *(
            (f"variant '{name}': best_of", row.best_of, trained)
            for name, row in grid.rows.items()
            if not row.tried
        ),
    ]
    for where, names, fit in named:
        for name in names:
            if name not in fit:
                lacks = "has no results of its own" if name in grid.variants else "is not there"
                near = did_you_mean(name, [*fit, MAJORITY])
                yield f"{where}: variant '{name}' {lacks}.{near}"
    for claim in grid.claims:
        for task, name in product(claim.task, claim.variants):
            of = (name, *grid.variants[name].best_of)
            scored = {task for each in of for task in grid.variants[each].scored}
            overall = grid.overall_tasks if task in ("overall", *RULES) else (task,)
            if missing := [each for each in overall if each not in scored]:
                yield (
                    f"claim '{claim.text}': '{task}' needs the task '{missing[0]}', but variant "
                    f"'{name}' has {', '.join(sorted(scored))}.{did_you_mean(task, scored)}"
                )
    for stage in stages.values():
        for ref in (stage.ref, *stage.after) if grid.variants[stage.ref.variant].tuned_for else ():
            if stages[ref].spec.selection_split != "half":
                yield (
                    f"'{stage.ref}' is tuned: a half of dev chooses among the settings and is not "
                    f"reported, so it must choose the epochs of '{ref}', too; say "
                    "'selection_split: half' there, and nothing in 'override'"
                )
