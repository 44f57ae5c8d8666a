"""Grid files: their shape, and a paper's variants with inheritance and expansion undone.

The result is one mapping per stage, checked for its keys and names; `resolve` gives it types.
"""

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from minbert.base.errors import UserError, nearest
from minbert.spec.model import Distinct, Spec
from minbert.spec.parts import FIGURE_KINDS
from minbert.spec.protocol import Rule
from minbert.spec.published import MAJORITY, Claim
from minbert.spec.settings import spelt, unknown_keys, with_setting
from minbert.spec.stage import StageSpec
from minbert.spec.task import Part
from minbert.spec.tune import trials
from minbert.spec.yaml import MAX_DEPTH, load_yaml, merge, nested, validated, without_nulls

CHOICE = ("train", "also_score")
"""Keys of a variant or stage: the tasks that it trains, and those that it carries."""

STRUCTURE = ("extends", "expand", "tune", "stages", *CHOICE)
"""Keys of a variant that say how it is put together."""

ALL = "all"
"""The folder of the figures over all papers."""

TAKEN = {ALL: "the common figures", "index": "the index", "claims": "the table of claims"}
"""What is published under names that are therefore not the names of papers."""

OWN = ("title", "caption", "variants", "stamp")
"""What every figure is given beside its options."""

LONGEST, MAX_EXPANDED = 100, 500
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{,{LONGEST - 1}}}")


class Looks(Spec):
    """How a variant is shown and whether it is scored on test; it changes no stage's key.

    `row` is its row in the paper's table, as `variants.tsv` lists it, `label` its name in tables
    and figures. These are inherited from templates, not from variants. A variant with `best_of`
    trains nothing: it is the variant of those with the best dev score, overall or, with
    `best_by: task`, for each task separately.
    """

    label: str | None = None
    row: str | None = None
    note: str = ""
    test: bool = False
    best_of: Annotated[tuple[str, ...], Distinct] = ()
    best_by: Literal["overall", "task"] = "overall"


class Drawing(Spec):
    """A figure: its kind, and how it looks."""

    kind: Annotated[str, Part("figure")]
    title: str
    caption: str = ""
    options: dict[str, Any] = Field(default_factory=dict)

    @field_validator("options")
    @classmethod
    def _not_its_own(cls, options: dict[str, Any]) -> dict[str, Any]:
        for key in OWN:
            if key in options:
                raise ValueError(f"'{key}' is no option, but the figure's own; take it out")
        return options


class Figure(Drawing):
    """A paper's figure; without `variants` it shows all of the paper that it can."""

    variants: Annotated[tuple[str, ...], Distinct] = ()


class FiguresFile(Spec):
    """workflow/figures.yaml: the figures over all papers."""

    figures: dict[str, Drawing] = Field(default_factory=dict)


class GridFile(Spec):
    """The top level of a grid file. `overall` is the paper's rule for its overall score.

    `single` is the variant that trains each task alone, which others' gain delta_m is over.
    `overall_tasks` are those of the overall score (default: SST, para and STS, or in a paper with
    tasks of one's own all of its tasks). Further files of a paper may leave out its title, rule,
    description, `single` and `overall_tasks`. The table's notes compare the parameter counts of
    each pair of variants in `parameter_ratios`.
    """

    paper: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=LONGEST)]
    title: str = ""
    overall: Rule = "normalised"
    description: str = ""
    single: str = ""
    overall_tasks: Annotated[tuple[str, ...], Distinct] = ()
    templates: dict[str, dict[str, Any]] = Field(default_factory=dict)
    variants: dict[str, dict[str, Any]] = Field(default_factory=dict)
    figures: dict[str, Figure] = Field(default_factory=dict)
    parameter_ratios: tuple[Annotated[tuple[str, str], Distinct], ...] = ()
    claims: tuple[Claim, ...] = ()

    @field_validator("paper")
    @classmethod
    def _own_folder(cls, name: str) -> str:
        if name in TAKEN:
            raise ValueError(f"a paper cannot be called '{name}', the name of {TAKEN[name]}")
        return name


@dataclass(frozen=True)
class RawVariant:
    """A variant with nothing left to inherit; `stages` are (name, keys of a `StageSpec`).

    A tuned variant has no stages, but `tried`: {candidate: its settings in words}. Its candidates
    are variants too, `tuned_for` it.
    """

    path: Path
    looks: Looks
    stages: tuple[tuple[str, dict[str, Any]], ...]
    tried: Mapping[str, str] = field(default_factory=dict)
    tuned_for: str = ""


@dataclass
class RawGrid:
    """One paper's grid files; each claim comes with its file and number.

    `given` is the file of each key of `head`, `drawn_in` that of each figure; `ratios` are the
    files' pairs of `parameter_ratios`.
    """

    head: GridFile
    path: Path
    given: Mapping[str, Path]
    variants: dict[str, RawVariant] = field(default_factory=dict)
    figures: dict[str, Figure] = field(default_factory=dict)
    drawn_in: dict[str, Path] = field(default_factory=dict)
    ratios: list[tuple[Path, tuple[str, str]]] = field(default_factory=list)
    claims: list[tuple[str, Claim]] = field(default_factory=list)


@dataclass(frozen=True)
class _Body:
    """A template or variant as written; `settings` are what its expansion sets."""

    where: str
    path: Path
    template: bool
    values: dict[str, Any]
    settings: tuple[tuple[str, Any], ...] = ()


def load_grids(paths: Iterable[Path]) -> list[RawGrid]:
    """Read grid files; those of one paper become one grid. Errors name file, variant and key."""
    files = [(path, validated(GridFile, load_yaml(path), str(path))) for path in paths]
    papers = dict.fromkeys(file.paper for _, file in files)
    return [_load_paper(p, [entry for entry in files if entry[1].paper == p]) for p in papers]


def _load_paper(paper: str, files: Sequence[tuple[Path, GridFile]]) -> RawGrid:
    grid = _head(paper, files)
    bodies: dict[str, _Body] = {}
    for path, file in files:
        for name, body in _bodies(file, path):
            if bodies.setdefault(name, body) is not body:
                raise UserError(
                    f"{body.where}: the name '{name}' is taken by {bodies[name].where}; "
                    "rename one of the two"
                )
        for name, figure in file.figures.items():
            check_name(name, f"{path}: figure '{name}'")
            if name in grid.figures:
                other = grid.drawn_in[name]
                raise UserError(f"{path}: figure '{name}' is in {other} too; rename one")
            grid.figures[name], grid.drawn_in[name] = figure, path
        grid.ratios += [(path, pair) for pair in file.parameter_ratios]
        grid.claims += [(f"{path}: claim {n}", claim) for n, claim in enumerate(file.claims, 1)]
    done: dict[str, dict[str, Any]] = {}
    for name, body in bodies.items():
        values = _flatten(name, bodies, done)
        if not body.template:
            for made, variant in _variants(name, body, values):
                if made != name and made in bodies:
                    raise UserError(
                        f"{body.where}: 'tune' makes a variant '{made}', a name that is taken by "
                        f"{bodies[made].where}; rename one of the two"
                    )
                grid.variants[made] = variant
    if not grid.variants:
        raise UserError(
            f"{grid.path}: paper '{paper}' has no variant, so there is nothing to train; add "
            "one under 'variants', or take the file out of `grids`"
        )
    for name, figure in grid.figures.items():
        _check_figure(figure, grid.variants, f"{grid.drawn_in[name]}: figure '{name}'")
    return grid


def _head(paper: str, files: Sequence[tuple[Path, GridFile]]) -> RawGrid:
    """Return the grid of what the files say of the whole paper; one that gives a title is first."""
    path, head = next((entry for entry in files if entry[1].title), files[0])
    given = dict.fromkeys(head.model_fields_set, path)
    for other, file in files:
        for key in ("title", "overall", "description", "single", "overall_tasks"):
            if key in file.model_fields_set and key not in given:
                head, given[key] = head.model_copy(update={key: getattr(file, key)}), other
            elif key in file.model_fields_set and getattr(file, key) != getattr(head, key):
                raise UserError(
                    f"{other}: paper '{paper}' has another '{key}' in {given[key]}: "
                    f"{getattr(head, key)!r}; leave it out here, or name another paper"
                )
    if "title" not in given:
        raise UserError(f"{path}: the key 'title' is missing; no file of '{paper}' gives it")
    return RawGrid(head, path, given)


def _bodies(file: GridFile, path: Path) -> Iterator[tuple[str, _Body]]:
    for name, values in file.templates.items():
        where = f"{path}: template '{name}'"
        if "expand" in values:
            raise UserError(f"{where}: 'expand' belongs to variants, not to templates")
        _check_keys(values, where)
        yield name, _Body(where, path, True, values)
    for pattern, values in file.variants.items():
        where = f"{path}: variant '{pattern}'"
        _check_keys(values, where)
        for name, own, settings in _expansions(pattern, values, where):
            body = _Body(f"{path}: variant '{name}'", path, False, own, settings)
            check_name(name, body.where)
            yield name, body


def check_name(name: str, where: str) -> None:
    """Refuse what is no name of a variant, stage or figure: it becomes part of paths."""
    if name in ("backbone", MAJORITY) or not _NAME.fullmatch(name):
        raise UserError(
            f"{where}: a name has letters, digits, '.', '_' and '-', begins with a letter or "
            f"digit, has at most {LONGEST} characters, and is not 'backbone' or '{MAJORITY}'"
        )


def _check_keys(values: dict[str, Any], where: str) -> None:
    own = (*Looks.model_fields, *STRUCTURE)
    known = [*own, *StageSpec.model_fields]
    problems: list[str] = []
    for key, value in values.items():
        if key in StageSpec.model_fields:
            problems += unknown_keys({key: value})
        elif key not in own:
            problems.append(f"unknown key '{key}'.{nearest(key, known)} Known: {', '.join(known)}")
    stages = values.get("stages")
    if stages is not None and not isinstance(stages, list):
        problems.append("'stages' is a list of stages, each with a name")
    elif stages and len(stages) > MAX_DEPTH:
        problems.append(f"'stages' has {len(stages):,}; at most {MAX_DEPTH}")
    for number, stage in enumerate(stages if isinstance(stages, list) else [], 1):
        if not isinstance(stage, Mapping) or not isinstance(stage.get("name"), str):
            problems.append(f"stage {number}: expected a mapping with a 'name', found {stage!r}")
            continue
        check_name(stage["name"], f"{where}, stage '{stage['name']}'")
        rest = {key: value for key, value in stage.items() if key not in ("name", *CHOICE)}
        problems += unknown_keys(rest, f"stages.{stage['name']}.")
    if problems:
        raise UserError("\n".join(f"{where}: {problem}" for problem in problems))


def _expansions(
    pattern: str, values: dict[str, Any], where: str
) -> Iterator[tuple[str, dict[str, Any], tuple[tuple[str, Any], ...]]]:
    """Yield (name, own keys, settings) for each combination of the values of `expand`."""
    own = {key: value for key, value in values.items() if key != "expand"}
    axes = values.get("expand") or {}
    if not isinstance(axes, Mapping):
        raise UserError(f"{where}: 'expand' is a mapping of keys to values, found {axes!r}")
    words = [path.rpartition(".")[2] for path in axes]
    found = re.findall(r"\{(.*?)\}", pattern)
    if sorted(words) != sorted(set(found)):
        wanted = ", ".join(f"{{{word}}}" for word in words) or "no placeholder"
        raise UserError(
            f"{where}: the name must hold {wanted}, one for the last word of each key of 'expand' "
            f"(all different), found {', '.join(found) or 'none'}"
        )
    options: list[list[tuple[str, Any]]] = []
    for path, choices in axes.items():
        if not isinstance(choices, list | Mapping) or not choices:
            raise UserError(
                f"{where}: 'expand.{path}' is {choices!r}; expected a list of values, or a "
                "mapping of words for the name to values"
            )
        mapped = choices.items() if isinstance(choices, Mapping) else None
        options.append(list(mapped or ((spelt(choice), choice) for choice in choices)))
        if path not in CHOICE and not path.startswith("stages."):
            for _, choice in options[-1]:
                for problem in unknown_keys(nested(path, choice)):
                    raise UserError(f"{where}: 'expand': {problem}")
    if (count := math.prod(map(len, options))) > MAX_EXPANDED:
        raise UserError(f"{where}: 'expand' makes {count:,} variants; at most {MAX_EXPANDED}")
    for combination in itertools.product(*options):
        chosen = dict(zip(words, (word for word, _ in combination), strict=True))
        looks = {k: _fill(v, chosen) for k, v in own.items() if k in Looks.model_fields}
        settings = zip(axes, (value for _, value in combination), strict=True)
        yield _fill(pattern, chosen), own | looks, tuple(settings)


def _fill(value: Any, spelt: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for word, text in spelt.items():
            value = value.replace(f"{{{word}}}", text)
    return value


def _variants(name: str, body: _Body, values: dict[str, Any]) -> Iterator[tuple[str, RawVariant]]:
    """Yield a variant, and after it the candidates that it is tuned by, if it is."""
    values = without_nulls(values)
    looks = {key: values.pop(key) for key in Looks.model_fields if key in values}
    shown = validated(Looks, looks, body.where)
    if shown.best_of and values:
        raise UserError(
            f"{body.where}: 'best_of' trains nothing, so '{next(iter(values))}' does not apply"
        )
    if "tune" not in values:
        stages = () if shown.best_of else _stages(values, body.where)
        yield name, RawVariant(body.path, shown, stages)
        return
    found = {f"{name}.{trial.word}": trial for trial in trials(values, body.where)}
    tried = {candidate: trial.said for candidate, trial in found.items()}
    chosen = shown.model_copy(update={"best_of": tuple(tried)})
    yield name, RawVariant(body.path, chosen, (), tried)
    for candidate, trial in found.items():
        where = f"{body.path}: variant '{candidate}'"
        check_name(candidate, where)
        own = Looks(label=f"{shown.label or name}, {trial.said}")
        yield candidate, RawVariant(body.path, own, _stages(trial.values, where), tuned_for=name)


def _check_figure(figure: Figure, variants: Mapping[str, RawVariant], where: str) -> None:
    reads = FIGURE_KINDS[figure.kind]
    for name in figure.variants:
        if name not in variants:
            raise UserError(f"{where}: unknown variant '{name}'.{nearest(name, variants)}")
        variant = variants[name]
        if variant.looks.best_of and reads.of_stages:
            raise UserError(
                f"{where}: variant '{name}' is the best of others and trains nothing that could "
                f"be shown; name one of those: {', '.join(variant.looks.best_of)}"
            )
        if variant.tuned_for and "scores" in reads.papers:
            raise UserError(
                f"{where}: variant '{name}' is one of the settings that '{variant.tuned_for}' "
                f"tries, which have no scores of their own; name '{variant.tuned_for}'"
            )


def _flatten(
    name: str, bodies: Mapping[str, _Body], done: dict[str, dict[str, Any]], *below: str
) -> dict[str, Any]:
    """Return the values of a body with all that it extends; `below` is what extends it."""
    body = bodies[name]
    if name in below:
        cycle = " -> ".join([*below[below.index(name) :], name])
        raise UserError(f"{body.where}: 'extends' goes round in a circle: {cycle}")
    if len(below) == MAX_DEPTH:
        raise UserError(f"{body.where}: 'extends' goes over more than {MAX_DEPTH} levels")
    if name not in done:
        parents = body.values.get("extends") or []
        parents = [parents] if isinstance(parents, str) else parents
        if not isinstance(parents, list) or not all(isinstance(name, str) for name in parents):
            raise UserError(f"{body.where}: 'extends' is a name or a list of names: {parents!r}")
        values: dict[str, Any] = {}
        for parent in parents:
            if parent not in bodies:
                raise UserError(
                    f"{body.where}: extends unknown '{parent}'.{nearest(str(parent), bodies)} "
                    f"Known: {', '.join(other for other in bodies if other != name)}"
                )
            inherited = _flatten(parent, bodies, done, *below, name)
            looks = () if bodies[parent].template else Looks.model_fields
            values = merge(values, {k: v for k, v in inherited.items() if k not in looks})
        values = merge(values, {k: v for k, v in body.values.items() if k != "extends"})
        for path, value in body.settings:
            values = with_setting(values, path, value, f"{body.where}: 'expand")
        done[name] = values
    return dict(done[name])


def _stages(values: dict[str, Any], where: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    """Return each stage's name and keys, for which the variant's own keys are defaults."""
    listed: Sequence[dict[str, Any]] = values.pop("stages", None) or [{"name": "main"}]
    result: dict[str, dict[str, Any]] = {}
    for stage in listed:
        name = stage["name"]
        if name in result:
            raise UserError(f"{where}: two stages are called '{name}'; rename one")
        own = {key: value for key, value in stage.items() if key != "name"}
        keys = without_nulls(merge(values, own))
        chosen = {key: keys.pop(key) for key in CHOICE if key in keys}
        if isinstance(tasks := keys.get("tasks"), dict):
            tasks = {task: spec for task, spec in tasks.items() if task != "*"}
            keys["tasks"] = _chosen(tasks, chosen, f"{where}, stage '{name}'")
        result[name] = keys
    return tuple(result.items())


def _chosen(tasks: dict[str, Any], chosen: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the tasks that `train` names (default: all) and those that `also_score` carries."""
    if not chosen:
        return tasks
    named = {key: [value] if isinstance(value, str) else value for key, value in chosen.items()}
    for key, names in named.items():
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise UserError(f"{where}: '{key}' is a task or a list of tasks, found {names!r}")
        if key == "train" and not names:
            raise UserError(f"{where}: 'train' is an empty list; name a task, or leave it out: all")
        for name in names:
            if names.count(name) > 1:
                raise UserError(f"{where}: '{key}' names '{name}' twice; name each task once")
            if name not in tasks:
                raise UserError(
                    f"{where}: '{key}' names '{name}', which is not among its 'tasks': "
                    f"{', '.join(tasks)}.{nearest(name, tasks)}"
                )
    carried = named.get("also_score", [])
    trained = named.get("train") or [task for task in tasks if task not in carried]
    if both := [task for task in carried if task in trained]:
        raise UserError(f"{where}: task '{both[0]}' is in 'train' and in 'also_score'")
    forced = {"trained": True} if "train" in named else {}
    kept = {task: merge(tasks[task], forced) for task in trained}
    return kept | {task: merge(tasks[task], {"trained": False}) for task in carried}
