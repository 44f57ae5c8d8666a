"""From grid files and a configuration to typed stages, each with the stages it starts from.

A variant is merged over what it extends; `expand` and `tune` make a variant of each value. Its keys
are defaults of its `stages`, each of which is merged over the configuration's `defaults`, scaled,
overridden and typed. Then the stages are found that `start` and `fuse` name. `only` leaves a part.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import reduce
from graphlib import CycleError, TopologicalSorter
from itertools import chain, product
from pathlib import Path
from typing import Any

from pydantic import Field

from minbert.base.errors import UserError, did_you_mean
from minbert.spec.config import Config, Scale
from minbert.spec.grid import BACKBONE, Adjustments, Display, GridFile, Name, Paper, VariantKeys
from minbert.spec.protocol import RULES
from minbert.spec.published import MAJORITY
from minbert.spec.stage import INSERTED, ONE_TASK, StageSpec
from minbert.spec.task import TASKS, Task, overall_tasks
from minbert.spec.yaml import inside, load_yaml, merge, nested, validated, without_nulls

Values = dict[str, Any]


@dataclass(frozen=True)
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
        return (*filter(None, [self.start]), *self.fused)


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
    """A paper with its variants; `path` is its first file, `tasks` all that these are scored on."""

    title: str
    path: Path
    variants: dict[str, Variant] = Field(min_length=1)
    tasks: tuple[str, ...]

    @property
    def rows(self) -> dict[str, Variant]:
        """The variants that are shown: all but the candidates of tuned ones."""
        return {name: v for name, v in self.variants.items() if not v.tuned_for}

    def mistakes(self) -> Iterator[str]:
        rows, variants = self.rows, self.variants
        trained = {name: of for name, of in variants.items() if of.stages}
        named = [
            *(("single", name, trained) for name in [self.single] if name),
            *(("parameter_ratios", name, rows) for name in chain(*self.parameter_ratios)),
            *((f"claim '{of.text}'", name, rows) for of in self.claims for name in of.variants),
            *((f"'{of.name}': best_of", n, trained) for of in rows.values() for n in of.best_of),
        ]
        for where, name, known in named:
            if name not in known:
                near = did_you_mean(name, [*known, MAJORITY])
                yield f"{where}: there is no variant '{name}' with results.{near}"
        if MAJORITY in variants:
            yield f"a variant is called '{MAJORITY}', as claims call the most frequent class"
        alone = variants[self.single].stages if self.single else ()
        if any(len(stage.spec.trained_tasks) > 1 for stage in alone):
            yield f"single: a stage of '{self.single}' trains several tasks; it trains each alone"
        for claim in self.claims:
            if self.claims.count(claim) > 1:
                yield f"claim '{claim.text}' is there twice; take one out"
            for task, name in product(claim.task, claim.variants):
                of = (name, *rows[name].best_of)
                scored = {task for each in of for task in variants[each].scored}
                wanted = self.overall_tasks if task in ("overall", *RULES) else (task,)
                if missing := {*wanted} - scored:
                    near = did_you_mean(task, scored)
                    yield f"claim '{claim.text}': '{name}' has no task '{min(missing)}'.{near}"
        stages = {stage.ref: stage for of in trained.values() for stage in of.stages}
        for tuned in (stage for ref, stage in stages.items() if variants[ref.variant].tuned_for):
            for ref in (tuned.ref, *tuned.after):
                if stages[ref].spec.selection_split != "half":
                    yield (
                        f"'{tuned.ref}' is tuned: a half of dev chooses its settings and is not "
                        f"reported, so '{ref}' needs 'selection_split: half', too"
                    )


def resolve(config: Config, base: Path) -> list[Grid]:
    """Return the grids that `config` names, relative to the folder `base`.

    A bare name such as `hybrid-bert` means `workflow/grids/hybrid-bert.yaml`. Files of one paper
    become one grid. From here on the tasks of this process are those of `config`. Raises
    `UserError` naming file, variant, stage and key.
    """
    TASKS.use(Task.of(*entry) for entry in config.tasks.items())
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
        rows = dict[str, Values]()
        stages = dict[StageRef, Stage]()
        for row, keys in _variants(said):
            rows[name := row["name"]] = row
            if not row.get("best_of"):
                with inside(f"variant '{name}'"):
                    stages |= _stages(name, keys, said, config)
        linked = _linked(stages).values()
        said["tasks"] = [task for task in TASKS if any(task in of.spec.tasks for of in linked)]
        said["overall_tasks"] = said.get("overall_tasks") or overall_tasks(said["tasks"])
        for name, row in rows.items():
            own = tuple(stage for stage in linked if stage.ref.variant == name)
            row |= {"paper": said["paper"], "stages": own}
        return validated(Grid, {**said, "path": next(iter(files)), "variants": rows})


def _joined(files: Iterable[GridFile]) -> Values:
    """Return what a paper's files say together."""
    said = Values()
    for file in files:
        for key in file.model_fields_set:
            value = getattr(file, key)
            if isinstance(value, str) and said.get(key, value) != value:
                raise UserError(f"two files differ in '{key}': {said[key]!r} and {value!r}")
            if isinstance(value, dict):
                if twice := said.get(key, {}).keys() & value:
                    raise UserError(f"two files have {key} called '{min(twice)}'; rename one")
                value = said.get(key, {}) | value
            said[key] = said.get(key, ()) + value if isinstance(value, tuple) else value
    return said


def _variants(said: Values) -> Iterator[tuple[Values, Values]]:
    """Yield how each variant is shown, and its stages' keys, if any; what it tries follows it."""
    templates: dict[str, VariantKeys] = said.pop("templates", {})
    bodies = {name: of.model_dump(exclude_unset=True) for name, of in templates.items()}
    for pattern, variant in said.pop("variants", {}).items():
        body = variant.model_dump(exclude_unset=True)
        for words, values in _combinations(body.pop("expand", None) or {}):
            own = {**body, "name": pattern}
            for key, word in words:
                for shown, text in own.items():
                    own[shown] = text.replace(f"{{{key}}}", word) if isinstance(text, str) else text
            if (name := own.pop("name")) in bodies:
                raise UserError(
                    f"two variants or templates are called '{name}'; rename one, or put the last "
                    "word of each key of 'expand' into the name, in braces, or the whole key if "
                    "two end alike"
                )
            bodies[name] = merge(own, values)
    for name in bodies:
        if name not in templates:
            with inside(f"variant '{name}'"):
                yield from _tuned(name, without_nulls(_flat(name, bodies, templates)))


def _combinations(axes: Values) -> Iterator[tuple[list[tuple[str, str]], Values]]:
    """Yield each combination of axes: last words of its keys and words for its values; its values.

    An axis is a list by dotted key, or a mapping with words for its values. Of keys whose last
    words are alike, the whole key stands for the last word.
    """
    axis, lasts = [], [key.rpartition(".")[2] for key in axes]
    for (key, values), last in zip(axes.items(), lasts, strict=True):
        named = values if isinstance(values, dict) else {_spelt(value): value for value in values}
        said = key if lasts.count(last) > 1 else last
        axis.append([((said, word), nested(key, value)) for word, value in named.items()])
    for settings in product(*axis):
        yield [words for words, _ in settings], reduce(merge, (of for _, of in settings), {})


def _spelt(value: Any) -> str:
    """Return how a value is spelt in a variant's name: 1e-4 and 0.0001 are both `1e-4`."""
    if isinstance(value, list | tuple):
        return "-".join(map(_spelt, value))
    if isinstance(value, float):
        return f"{Decimal(repr(value)):e}" if 0 < abs(value) < 1e-3 else f"{value:g}"
    return value if isinstance(value, str) else str(value).lower()


def _flat(name: str, bodies: dict[str, Values], templates: Collection[str], *below: str) -> Values:
    """Return the values of a variant or template over those of what it extends."""
    if name in below:
        raise UserError(f"'extends' goes round in a circle: {' -> '.join([*below, name])}")
    if name not in bodies:
        raise UserError(
            f"'{below[-1]}' extends '{name}', which no grid of this paper in 'grids' has."
            f"{did_you_mean(name, bodies)}"
        )
    own, values = dict(bodies[name]), Values()
    for parent in own.pop("extends", None) or ():
        found = _flat(parent, bodies, templates, *below, name)
        if parent not in templates:  # which has a label and notes to itself
            found = {key: found[key] for key in found if key not in Display.model_fields}
        values = merge(values, found)
    return merge(values, own)


def _tuned(name: str, keys: Values) -> Iterator[tuple[Values, Values]]:
    """Yield a variant, and what it tries if it is tuned."""
    shown: Values = {"name": name, "label": name, "row": name}
    shown |= {key: keys.pop(key) for key in Display.model_fields if key in keys}
    if shown.get("best_of") and keys:
        raise UserError(f"'best_of' trains nothing, so '{next(iter(keys))}' does not apply")
    if not (tune := keys.pop("tune", None)):
        yield shown, keys
        return
    settings = {}
    for words, values in _combinations(tune):
        each = [f"{key} {word}" for key, word in words]
        settings[f"{name}.{'.'.join(each).replace(' ', '-')}"] = ", ".join(each), values
    tried = {candidate: said for candidate, (said, _) in settings.items()}
    yield {**shown, "tried": tried, "best_of": tuple(tried)}, {}
    for candidate, (said, values) in settings.items():
        label = f"{shown['label']}, {said}"
        own = {"name": candidate, "label": label, "row": candidate, "tuned_for": name}
        # A half of dev chooses among the settings, so it chooses their epochs too.
        yield own, merge({"selection_split": "half", **keys}, values)


def _stages(variant: str, values: Values, paper: Values, config: Config) -> dict[StageRef, Stage]:
    """Return a variant's stages; it has one, `main`, if it names none."""
    shared = validated(VariantKeys, values).model_dump(exclude_unset=True)
    found: dict[StageRef, Stage] = {}
    for own in shared.pop("stages", None) or ({"name": "main"},):
        with inside(f"stage '{own['name']}'"):
            ref = StageRef(paper["paper"], variant, own["name"])
            if ref in found:
                raise UserError("two stages have this name; rename one")
            keys = without_nulls(merge(shared, {**own, "name": None}))
            train, carried = keys.pop("train", ()), keys.pop("evaluate_only", ())
            named = {task: {"trained": task in train} for task in (*train, *carried)}
            # Without `train`, all tasks but `*` are trained.
            tasks, known = keys.get("tasks", {}), named if train else TASKS
            keys["tasks"] = merge({name: tasks[name] for name in tasks if name in known}, named)
            found[ref] = Stage(ref, *_specs(keys, paper.get("overall", "normalised"), config))
    return found


def _specs(keys: Values, rule: str, config: Config) -> tuple[StageSpec, StageSpec]:
    """Return what the configuration makes of the spec that a grid's `keys` say, and this itself.

    Epochs are selected by the `rule` of the paper, unless it is said otherwise.
    """

    def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> Values:
        values = without_nulls(merge(base, over))
        # The configuration names tasks that not every stage has; it takes none out.
        tasks = (values if "tasks" in values else base)["tasks"]
        return values | {"tasks": {task: tasks.get(task) for task in keys["tasks"]}}

    plain = validated(StageSpec, {"select": rule, **keys})
    # Merged into nothing first: their `*` is for the tasks that they name too.
    spec = validated(StageSpec, merged(merge({"select": rule}, config.defaults), keys))
    adjusted = merged(_scaled(spec, config.scale), config.override)
    return validated(StageSpec, adjusted, "after scale and override of the config"), plain


def _scaled(spec: StageSpec, scale: Scale) -> Values:
    """Return the values of `spec`, of which a small machine can train fewer steps."""
    values: Values = spec.model_dump()
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
    """Return `stages` with those found that `start` and `fuse` name; refuse what does not fit."""
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
            of = theirs.tasks.get(other)
            alike = of and TASKS[name].classes == TASKS[other].classes
            if not of or not alike or (of.head, of.features) != (task.head, task.features):
                yield f"has 'init_head_from: {other}', but {start} has no such head of that shape"
    alike = (ours.shared_layers, ours.shared_end) == (theirs.shared_layers, theirs.shared_end)
    alike &= ours.tasks.keys() <= theirs.tasks.keys()
    if theirs.shared_layers != "all" and not alike:
        yield (
            f"starts from {start}, where tasks have layers to themselves: give both the same "
            "'shared_layers', 'shared_end' and tasks"
        )


def part_of(grids: Sequence[Grid], only: Sequence[str]) -> list[Grid]:
    """Return the grids with the variants that a pattern of `only` matches; without one, all.

    A pattern is a paper, a variant or `PAPER/VARIANT`, with the wildcards `*`, `?` and `[...]`. The
    best of others comes with those others, a tuned row with all that it tries. Claims that are
    about variants which are left out go with them. Raises `UserError` for a pattern that matches
    nothing.
    """
    names = [f"{grid.paper}/{name}" for grid in grids for name in grid.rows]
    chosen = set[str]()
    for pattern in only or ("*",):
        found = [n for n in names if any(fnmatchcase(w, pattern) for w in (n, *n.split("/")))]
        if not found:
            raise UserError(
                f"config: only: {pattern!r} matches no paper, variant or PAPER/VARIANT of the "
                f"grids.{did_you_mean(pattern, [*names, *(n.split('/')[1] for n in names)])}"
            )
        chosen.update(found)
    parts = []
    for grid in grids:
        if named := {name for name in grid.rows if f"{grid.paper}/{name}" in chosen}:
            left = named.union(*(grid.variants[name].best_of for name in named))
            gone = grid.variants.keys() - left
            part = {
                "variants": {name: v for name, v in grid.variants.items() if name in left},
                "claims": tuple(claim for claim in grid.claims if gone.isdisjoint(claim.variants)),
                "parameter_ratios": tuple(p for p in grid.parameter_ratios if gone.isdisjoint(p)),
                "single": "" if grid.single in gone else grid.single,
            }
            parts.append(grid.model_copy(update=part))
    return parts
