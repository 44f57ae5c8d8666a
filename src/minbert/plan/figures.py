"""The nodes of figures: what each is made from, by what its kind reads."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError, did_you_mean
from minbert.plan.experiment import Experiment
from minbert.plan.parameters import counts, parameters
from minbert.spec.figures import FIGURE_KINDS, Options, Reads
from minbert.spec.grid import ALL, Drawing, Figure, FiguresFile
from minbert.spec.parts import part_module
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.resolve import Grid, Stage, Variant
from minbert.spec.task import TASKS
from minbert.spec.yaml import load_yaml, validated
from minbert.store.node import Need, Node

FIGURES = Path("workflow/figures.yaml")
"""The figures over all papers; a folder without this file has none."""


def paper_figures(exp: Experiment, grid: Grid, scores: Node) -> dict[str, Node]:
    """Return the nodes of a paper's figures, by the names that they are published under.

    Without named variants a figure shows all that it can. One to which `only` leaves nothing, or
    too little, to show is left out.
    """
    found = {}
    for name, spec in grid.figures.items():
        where = f"paper '{grid.paper}': figure '{name}'"
        options = _options(spec, where)
        reads = _of_task(grid, options.reading, spec, where)
        variants = _variants(grid, spec, reads, where)
        count = len(variants)
        if exp.config.only and count < reads.least:
            continue
        if not reads.least <= count <= (reads.most or count):
            raise UserError(
                f"{where}: kind '{spec.kind}' shows {reads.least} to {reads.most or 'all'} variants"
                f"{_scored_on(reads)}, found {count}; name others under 'variants', or take the "
                "figure out"
            )
        for named in options.named():
            if named not in (names := [v.name for v in variants]):
                raise UserError(
                    f"{where}: its options name '{named}', which is not among its variants."
                    f"{did_you_mean(named, names)}"
                )
        given = options.model_dump(mode="json") | ({"task": reads.tasks[0]} if reads.of else {})
        # A list, as a description sorts the keys of a mapping.
        drawn = {"options": given, "variants": [(v.name, v.label) for v in variants]}
        needs = _run_needs(exp, grid, variants, reads) | _score_needs({grid.paper: scores}, reads)
        node = _node(exp, [grid], name, spec, needs, _facts(exp, [grid], variants, reads), drawn)
        found[f"figures/{grid.paper}/{name}"] = node
    return found


def all_figures(exp: Experiment, scores: Mapping[str, Node]) -> dict[str, Node]:
    """Return the nodes of the figures over all papers, by the names that they are published under.

    `scores` are by paper. A part of the grids has no such figures, and papers without published
    rows none that shows such rows.
    """
    path, found = exp.base / FIGURES, {}
    drawings = FiguresFile()
    if path.exists() and not exp.config.only:
        drawings = validated(FiguresFile, load_yaml(path), str(path))
    for name, spec in drawings.figures.items():
        options = _options(spec, where := f"{path}: figure '{name}'")
        if not options.reads.over_all:
            raise UserError(
                f"{where}: kind '{spec.kind}' shows variants of one paper; put it into that "
                "paper's grid"
            )
        facts = _facts(exp, exp.grids, [], options.reads)
        if not options.of_published or facts.get("published"):
            drawn = {"options": options.model_dump(mode="json")}
            needs = _score_needs(scores, options.reads)
            found[f"figures/{ALL}/{name}"] = _node(exp, exp.grids, name, spec, needs, facts, drawn)
    return found


def _node(
    exp: Experiment,
    grids: Sequence[Grid],
    name: str,
    spec: Drawing,
    needs: Mapping[str, Need],
    facts: Mapping[str, Any],
    drawn: Mapping[str, Any],
) -> Node:
    shown = {
        **exp.made_from(task for grid in grids for task in grid.tasks),
        "kind": spec.kind,
        "paper": grids[0].paper if "variants" in drawn else ALL,
        "name": name,
        "seeds": len(exp.config.seeds),
        "facts": facts,
        "draw": {"title": spec.title, "caption": spec.caption, **drawn},
    }
    parts = [part_module("figure", spec.kind)]
    if shapes := facts.get("architecture"):
        parts.append(part_module("architecture", shapes["family"]))
    return Node("figure", shown, "minbert.figures.make", tuple(parts), needs)


def _options(spec: Drawing, where: str) -> Options:
    return validated(FIGURE_KINDS[spec.kind], spec.options, f"{where}, options")


def _of_task(grid: Grid, reads: Reads, spec: Figure, where: str) -> Reads:
    """Return what a figure of one task reads, of the task that it shows (`Reads.of`)."""
    fit = [task for task in grid.tasks if TASKS[task].kind == reads.of]
    first = next((task for task in (*reads.tasks, *fit) if task in fit), None)
    asked = (reads.of and spec.options.get("task")) or first
    if asked is None:
        return reads
    if asked not in fit:
        raise UserError(
            f"{where}: kind '{spec.kind}' shows one task of kind {reads.of}; found task '{asked}', "
            f"expected one of {', '.join(fit) or 'none'}.{did_you_mean(asked, fit)}"
        )
    return replace(reads, tasks=(asked,))


def _variants(grid: Grid, spec: Figure, reads: Reads, where: str) -> list[Variant]:
    """Return the variants that a figure shows, and refuse those that have nothing for it."""
    able = {v.name: v for v in grid.variants.values() if not reads.of_stages or _read(v, reads)}
    rows = {name: v for name, v in able.items() if not v.tuned_for}
    # A setting that a tuned variant tries has runs, and no scores.
    able = rows if "scores" in reads.papers else able
    for name in spec.variants:
        if name not in able:
            raise UserError(
                f"{where}: no variant '{name}'{_scored_on(reads) or ' with results'}, which is "
                f"what kind '{spec.kind}' shows.{did_you_mean(name, able)}"
            )
    return [able[name] for name in spec.variants] or [*rows.values()]


def _scored_on(reads: Reads) -> str:
    return f" scored on {' or '.join(reads.tasks)}" if reads.tasks else ""


def _read(variant: Variant, reads: Reads) -> dict[str, Stage]:
    """Return the tasks of a variant that a figure reads, and the stage that each is scored by."""
    return {t: stage for t, stage in variant.scored.items() if t in reads.tasks or not reads.tasks}


def _run_needs(
    exp: Experiment, grid: Grid, variants: Iterable[Variant], reads: Reads
) -> dict[str, Need]:
    """Return the files of runs and data, by names of words none of which has a slash."""
    needs = {}
    for variant in variants if reads.runs else ():  # else some have no stages
        below = {
            "predictions": _read(variant, reads),
            "histories": {stage.ref.stage: stage for stage in variant.stages},
        }
        for kind in reads.runs:
            file = "predictions.parquet" if kind == "predictions" else "history.parquet"
            for word, stage in below[kind].items():
                for seed in exp.config.seeds:
                    need = Need(exp.train(stage.ref), file, seed)
                    needs[f"{kind}/{variant.name}/{word}/{seed}"] = need
    # A tuned variant is scored on the tasks of its candidates.
    for name in (name for v in variants for name in (v.name, *v.best_of) if "rows" in reads.papers):
        for task in _read(grid.variants[name], reads):
            needs[f"rows/{task}"] = Need(exp.sources.rows(task), "rows.parquet")
    return needs


def _score_needs(scores: Mapping[str, Node], reads: Reads) -> dict[str, Need]:
    if "scores" not in reads.papers:
        return {}
    return {f"scores/{paper}": Need(node, "scores.parquet") for paper, node in scores.items()}


def _facts(
    exp: Experiment, grids: Sequence[Grid], variants: Iterable[Variant], reads: Reads
) -> dict[str, Any]:
    """Return the facts that a kind reads, as JSON-able data."""
    rules = {grid.paper: grid.overall for grid in grids}
    shapes = exp.sources.architecture
    make = {
        "rules": lambda: rules,
        "published": lambda: [row.model_dump() for row in exp.published if row.paper in rules],
        "architecture": lambda: shapes and shapes.model_dump(),
        "parameters": lambda: {
            v.name: {"here": parameters(exp, v), "bert_base": parameters(exp, v, True)}
            for v in variants
        },
        "stages": lambda: {v.name: [_stage(exp, stage) for stage in v.stages] for v in variants},
    }
    found: dict[str, Any] = {name: make[name]() for name in reads.facts}
    if "scores" in reads.papers:
        other = {g.paper: g.overall_tasks for g in grids if g.overall_tasks != OVERALL_TASKS}
        found |= {"overall_tasks": other} if other else {}
    if "rows" in reads.papers:
        chosen = exp.selection_split(*grids)
        found |= {"selection_split": chosen} if chosen != "dev" else {}
    return found


def _stage(exp: Experiment, stage: Stage) -> dict[str, Any]:
    return {
        "name": stage.ref.stage,
        "spec": exp.resolved(stage, stage.spec),
        "start": str(stage.start) if stage.start else None,
        "fused": [str(ref) for ref in stage.fused],
        "parameters": counts(exp, stage),
    }
