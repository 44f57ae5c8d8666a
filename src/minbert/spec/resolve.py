"""From grid files and a configuration to typed stages, each with the stages it starts from.

A variant is merged over what it `extends`; `expand` and `tune` make a variant of each value; its
keys are defaults of its `stages`. Each stage is merged over the configuration's `defaults`, scaled,
overridden and typed; then the stages are found that `start` and `fuse` name.
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
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
    StageKeys,
    check_name,
    partial,
)
from minbert.spec.parts import FIGURE_KINDS
from minbert.spec.protocol import RULES, Rule
from minbert.spec.published import MAJORITY, Claim
from minbert.spec.stage import ONE_TASK, StageSpec
from minbert.spec.task import TASKS, Task, TaskSpec, overall_tasks
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
    for key in config.may_vanish:
        validated(partial(StageSpec), nested(key, None), "config: may_vanish")
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
    bodies: dict[str, _Body] = {}
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
        for body in _bodies(file, path):
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
        raise UserError(f"{path}: the key 'title' is missing")
    rule = head.setdefault("overall", "normalised")
    variants: dict[str, Variant] = {}
    for body in bodies.values():
        for looks, keys in () if body.template else _variants(body, bodies):
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


@dataclass(frozen=True)
class _Body:
    """A template or variant as written; `settings` are what its expansion sets, by dotted key."""

    name: str
    path: Path
    values: dict[str, Any]
    template: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


def _bodies(file: GridFile, path: Path) -> Iterator[_Body]:
    """Yield the templates and variants of a file, these with `expand` undone."""
    for name, template in file.templates.items():
        yield _Body(name, path, template.model_dump(exclude_unset=True), template=True)
    for pattern, variant in file.variants.items():
        values = variant.model_dump(exclude_unset=True)
        axes = values.pop("expand", None) or {}
        words = [key.rpartition(".")[2] for key in axes]
        if sorted(words) != sorted({*re.findall(r"\{(.*?)\}", pattern)}):
            wanted = ", ".join(f"{{{word}}}" for word in words) or "no placeholder"
            raise UserError(
                f"{path}: variant '{pattern}': the name must hold {wanted}, one for the last word "
                "of each key of 'expand', and these all different"
            )
        options = [
            [*choices.items()] if isinstance(choices, dict) else [(spelt(c), c) for c in choices]
            for choices in axes.values()
        ]
        for combination in itertools.product(*options):
            said = dict(zip(words, (word for word, _ in combination), strict=True))
            looks = {key: _fill(values[key], said) for key in Looks.model_fields if key in values}
            settings = dict(zip(axes, (value for _, value in combination), strict=True))
            with inside(str(path)):
                name = check_name(_fill(pattern, said))
            yield _Body(name, path, values | looks, settings=settings)


def _fill(value: Any, said: Mapping[str, str]) -> Any:
    for word, text in said.items() if isinstance(value, str) else ():
        value = value.replace(f"{{{word}}}", text)
    return value


def spelt(value: Any) -> str:
    """Return how a value is spelt in a variant's name: 1e-4 and 0.0001 are both `1e-4`."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and math.isfinite(value):
        mantissa, _, exponent = f"{value:e}".partition("e")
        small = f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
        return small if abs(value) < 1e-3 and value else f"{value:g}"
    if isinstance(value, list | tuple):
        return "-".join(map(spelt, value))
    return str(value)


def _flat(name: str, bodies: Mapping[str, _Body], *below: str) -> dict[str, Any]:
    """Return the values of a body over those that it extends; `below` is what extends it."""
    if name in below:
        circle = " -> ".join([*below[below.index(name) :], name])
        raise UserError(f"'extends' goes round in a circle: {circle}")
    values: dict[str, Any] = {}
    for parent in bodies[name].values.get("extends") or ():
        if parent not in bodies:
            raise UserError(f"'{name}' extends unknown '{parent}'.{nearest(parent, bodies)}")
        looks = () if bodies[parent].template else Looks.model_fields
        inherited = _flat(parent, bodies, *below, name)
        values = merge(values, {key: v for key, v in inherited.items() if key not in looks})
    own = bodies[name].values
    values = merge(values, {key: value for key, value in own.items() if key != "extends"})
    for key, value in bodies[name].settings.items():
        values = _with(values, key, value)
    return values


def _with(values: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    """Return `values` with a dotted key set; `stages.NAME.KEY` reaches one stage."""
    first, _, rest = key.partition(".")
    name, _, below = rest.partition(".")
    changed = validated(StageKeys, nested(below if first == "stages" else key, value))
    change = changed.model_dump(exclude_unset=True)
    if first != "stages":
        return merge(values, change)
    stages = values.get("stages") or ({"name": "main"},)
    known = [stage["name"] for stage in stages]
    if name not in known:
        raise UserError(
            f"'{key}': there is no stage '{name}'.{nearest(name, known)} Known: {', '.join(known)}"
        )
    return {**values, "stages": [merge(s, change) if s["name"] == name else s for s in stages]}


def _variants(
    body: _Body, bodies: Mapping[str, _Body]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield what a variant is but for its stages, and the keys of these; then its candidates."""
    name = body.name
    with inside(f"{body.path}: variant '{name}'"):
        values = without_nulls(_flat(name, bodies))
        looks = {key: values.pop(key) for key in Looks.model_fields if key in values}
        looks = {"name": name, "label": name, "row": name, **looks}
        if looks.get("best_of") and values:
            raise UserError(f"'best_of' trains nothing, so '{next(iter(values))}' does not apply")
        tune = values.pop("tune", {})
        tried: dict[str, str] = {}
        candidates = []
        for combination in itertools.product(*tune.values()) if tune else ():
            # A half of dev chooses among the settings, so it chooses their epochs too.
            changed: dict[str, Any] = {"select_on": "half", **values}
            for key, value in zip(tune, combination, strict=True):
                changed = _with(changed, key, value)
            pairs = list(zip(_short([*tune]), map(spelt, combination), strict=True))
            words = [re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(pair)).strip("-.") for pair in pairs]
            candidate = check_name(".".join([name, *words]))
            said = tried[candidate] = ", ".join(map(" ".join, pairs))
            row = {"label": f"{looks['label']}, {said}", "row": candidate}
            candidates.append(({"name": candidate, "tuned_for": name, **row}, changed))
    yield looks | ({"best_of": tuple(tried), "tried": tried} if tried else {}), values
    yield from candidates


def _short(keys: Sequence[str]) -> list[str]:
    """Return the last words of dotted keys, as many as tell them apart."""
    for count in itertools.count(1):
        found = [".".join(key.split(".")[-count:]) for key in keys]
        if len({*found}) == len(found):
            return found
    raise AssertionError


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
        raise UserError(f"'{key}' is unknown: '{said}'.{nearest(first, known)}")
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


def part_of(grids: Sequence[Grid], only: Sequence[str]) -> list[Grid]:
    """Return the grids with the variants that a pattern of `only` matches; without one, all.

    A pattern is a paper, a variant or `PAPER/VARIANT`, with the wildcards `*`, `?` and `[...]`. The
    best of others comes with those others; a setting that a tuned row tries is a row by itself if
    that row is left out. Figures and claims that are about variants which are left out go with
    them. Raises `UserError` for a pattern that matches nothing.
    """
    names = {
        (grid.paper, name): (grid.paper, name, f"{grid.paper}/{name}")
        for grid in grids
        for name in grid.variants
    }
    for pattern in only:
        if not any(fnmatchcase(name, pattern) for each in names.values() for name in each):
            near = nearest(pattern, itertools.chain(*names.values()))
            raise UserError(
                f"config: only: {pattern!r} matches no paper, variant or PAPER/VARIANT of the "
                f"grids {', '.join(grid.paper for grid in grids)}.{near}"
            )
    chosen = {
        at for at, words in names.items() if any(fnmatchcase(w, p) for w in words for p in only)
    }
    parts = (_part(grid, {name for paper, name in chosen if paper == grid.paper}) for grid in grids)
    return [part for part in parts if part.variants] if only else list(grids)


def _part(grid: Grid, chosen: set[str]) -> Grid:
    """Return a grid with the variants that are `chosen`, and what is about those alone."""
    chosen |= {name for best in chosen for name in grid.variants[best].best_of}
    gone = grid.variants.keys() - chosen
    if not gone:
        return grid
    variants = {}
    for name, variant in grid.variants.items():
        if name in chosen and variant.tuned_for in gone:
            variants[name] = variant.model_copy(update={"tuned_for": "", "label": name})
        elif name in chosen:
            variants[name] = variant
    figures = {}
    for name, figure in grid.figures.items():
        left = tuple(variant for variant in figure.variants if variant in chosen)
        # Options may name variants; then the figure needs all that it shows, and all they name.
        named = any(f"'{variant}'" in str(figure.options) for variant in gone)
        if (left == figure.variants and not named) or (left and not figure.options):
            figures[name] = figure.model_copy(update={"variants": left})
    part = {
        "variants": variants,
        "figures": figures,
        "claims": tuple(claim for claim in grid.claims if gone.isdisjoint(claim.variants)),
        "parameter_ratios": tuple(p for p in grid.parameter_ratios if gone.isdisjoint(p)),
        "single": "" if grid.single in gone else grid.single,
    }
    return grid.model_copy(update=part)
