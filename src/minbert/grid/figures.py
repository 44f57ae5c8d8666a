"""The nodes of figures: what each is drawn from, by what `figure_reads` says of its kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minbert.common.errors import UserError
from minbert.grid.config import validated
from minbert.grid.figure_reads import READS, Reads
from minbert.grid.links import Stage, Variant
from minbert.grid.node import Need, Node
from minbert.grid.parts import part_module
from minbert.grid.resolve import Grid
from minbert.grid.schema import ALL, Drawing, Figure, FiguresFile
from minbert.grid.yaml_loader import load_yaml

if TYPE_CHECKING:
    from minbert.grid.outputs import Outputs
    from minbert.grid.plan import Plan

FIGURES = Path("workflow/figures.yaml")
"""The figures over all papers; a folder without this file has none."""


def paper_figure(plan: Plan, grid: Grid, made: Outputs, name: str, spec: Figure) -> Node:
    """Return the node of a paper's figure; without named variants it shows all that it can."""
    reads = READS[spec.kind]
    variants = _variants(plan, grid, name, spec, reads)
    needs = {"/".join(words): need for words, need in _run_needs(plan, variants, reads)}
    needs |= _paper_needs({grid.paper: made}, reads)
    if "examples" in reads.papers:
        tasks = dict.fromkeys(task for v in variants for task in _tasks(plan, v, reads))
        needs |= {f"examples/{t}": Need(plan.sources.data(t), "examples.parquet") for t in tasks}
    labels = {"variants": {variant.name: variant.label for variant in variants}}
    return _node(plan, grid.paper, name, spec, needs, _facts(plan, [grid], variants, reads), labels)


def all_figures(plan: Plan, outputs: Mapping[str, Outputs]) -> dict[str, Node]:
    """Return the nodes of the figures over all papers of the plan, by name."""
    path = plan.base / FIGURES
    if not path.exists():
        return {}
    found = {}
    for name, spec in validated(FiguresFile, load_yaml(path), str(path)).figures.items():
        reads = READS[spec.kind]
        if reads.runs or {"examples", "table"} & set(reads.papers):
            raise UserError(
                f"{path}: figure '{name}': kind '{spec.kind}' shows the runs of one paper; put it "
                "into that paper's grid"
            )
        facts = _facts(plan, plan.grids, [], reads)
        found[name] = _node(plan, ALL, name, spec, _paper_needs(outputs, reads), facts, {})
    return found


def _node(
    plan: Plan,
    paper: str,
    name: str,
    spec: Drawing,
    needs: Mapping[str, Need],
    facts: Mapping[str, Any],
    labels: Mapping[str, Any],
) -> Node:
    shown = {
        "kind": spec.kind,
        "paper": paper,
        "name": name,
        "backbone": plan.config.backbone,
        "data": plan.config.data,
        "seeds": len(plan.config.seeds),
        "facts": facts,
        "draw": {"title": spec.title, "caption": spec.caption, **labels, **spec.options},
    }
    return plan.collect(Node("figure", shown, (part_module("figure", spec.kind),), needs))


def _variants(plan: Plan, grid: Grid, name: str, spec: Figure, reads: Reads) -> list[Variant]:
    """Return the variants that a figure shows, and refuse those that have nothing for it."""
    able = []
    for variant in grid.variants.values():
        if not reads.runs or (variant.stages and (not reads.tasks or _tasks(plan, variant, reads))):
            able.append(variant)
    if not spec.variants:
        return able
    for named in spec.variants:
        if grid.variants[named] not in able:
            raise UserError(
                f"{grid.path}: figure '{name}': variant '{named}' is not scored on "
                f"{' or '.join(reads.tasks)}, which is what kind '{spec.kind}' shows; leave it out"
            )
    return [grid.variants[named] for named in spec.variants]


def _tasks(plan: Plan, variant: Variant, reads: Reads) -> list[str]:
    """Return the tasks of a variant that a figure reads."""
    return [task for task in plan.scored(variant) if task in reads.tasks or not reads.tasks]


Words = tuple[str, ...]


def _run_needs(
    plan: Plan, variants: Iterable[Variant], reads: Reads
) -> Iterator[tuple[Words, Need]]:
    """Yield the words of a need's name (no word has a slash) and the need."""
    for variant in variants:
        for kind in reads.runs:
            for words, stage, file in _files(plan, variant, kind, reads):
                for seed in plan.config.seeds:
                    need = Need(plan.train(stage.ref), file, seed)
                    yield (kind, variant.name, *words, str(seed)), need


def _files(
    plan: Plan, variant: Variant, kind: str, reads: Reads
) -> Iterator[tuple[Words, Stage, str]]:
    if kind == "histories":
        yield (), variant.stages[-1], "history.parquet"
    elif kind == "predictions":
        for task in _tasks(plan, variant, reads):
            yield (task,), plan.scored(variant)[task], "predictions.parquet"
    else:
        file = {"stage_histories": "history.parquet", "runs": "run.json"}[kind]
        for stage in variant.stages:
            yield (stage.ref.stage,), stage, file


def _paper_needs(outputs: Mapping[str, Outputs], reads: Reads) -> dict[str, Need]:
    needs = {}
    for paper, made in outputs.items():
        if "scores" in reads.papers:
            needs[f"scores/{paper}"] = Need(made.scores, "scores.parquet")
        if "table" in reads.papers:
            needs[f"table/{paper}"] = Need(made.table, "table.csv")
    return needs


def _facts(
    plan: Plan, grids: Iterable[Grid], variants: Iterable[Variant], reads: Reads
) -> dict[str, Any]:
    """Return the facts that a kind reads, as JSON-able data."""
    rules = {grid.paper: grid.overall for grid in grids}
    shapes = plan.sources.architecture
    make = {
        "rules": lambda: rules,
        "published": lambda: [asdict(row) for row in plan.published if row.paper in rules],
        "architecture": lambda: shapes and shapes.model_dump(),
        "parameters": lambda: {
            v.name: {"here": plan.parameters(v), "bert_base": plan.parameters(v, base_shapes=True)}
            for v in variants
        },
        "stages": lambda: {v.name: [_stage(plan, stage) for stage in v.stages] for v in variants},
    }
    return {name: make[name]() for name in reads.facts}


def _stage(plan: Plan, stage: Stage) -> dict[str, Any]:
    return {
        "name": stage.ref.stage,
        "spec": stage.spec.model_dump(mode="json"),
        "start": str(stage.start) if stage.start else None,
        "fused": [str(ref) for ref in stage.fused],
        "parameters": plan.counts(stage),
    }
