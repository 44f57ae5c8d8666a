"""From a configuration to its plan: the nodes of what people look at, and what they say."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError, did_you_mean
from minbert.data.identity import checksum
from minbert.plan.parameters import stage_parameters, variant_parameters
from minbert.plan.plan import Plan
from minbert.plan.sources import Sources
from minbert.spec.architecture import shared_parts
from minbert.spec.config import load_config
from minbert.spec.figures import FIGURE_KINDS, TASK_KIND, Curves
from minbert.spec.grid import ALL, Drawing, FiguresFile
from minbert.spec.parts import part_module
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.published import MAJORITY, Claim, read_published
from minbert.spec.resolve import Grid, part_of, resolve
from minbert.spec.task import TASKS, task_facts
from minbert.spec.yaml import load_yaml, validated
from minbert.store.node import Need, Node

FIGURES = Path("workflow/figures.yaml")  # over all papers; a folder without this file has none

PACKAGE = Path(__file__).parents[1]
# In no syntax tree, as the figures' style sheets.
TEMPLATES = ("page.html.j2", "parts.html.j2", "script.js", "style.css")
UNSHOWN = {
    *("results", "device", "precision", "threads", "checkpoint_seconds"),
    *("keep_weights", "tracking", "published", "course", "lmrd", "labels"),
    *("checksums", "tasks"),
}
"""Settings that change no result, and where data lie, so that they change no report either."""

About = dict[str, Any]  # what is said of a paper, or of what is shown of it
Needs = Mapping[str, Need]
Figure = tuple[str, Node]  # with the name that it is published under


def load_plan(
    config: Mapping[str, Any] | Sequence[Path], base: Path, words: Sequence[str] = ()
) -> Plan:
    """Return the plan of config files or of a merged mapping, and of `KEY=VALUE` words."""
    main = (Path("config.yaml"), base / "config.yaml")
    files = () if isinstance(config, Mapping) else [file for file in config if file not in main]
    read = load_config(config, words)
    whole = resolve(read, base)
    every = {s.ref: s for grid in whole for v in grid.variants.values() for s in v.stages}
    published = read_published(base / read.published)
    sources, grids = Sources(read, base), part_of(whole, read.only)
    plan = Plan(read, base, grids, every, published, sources, files, words)
    plan.check_distinct()
    plan.shown.update(shown_nodes(plan))
    plan.checksums.update(sources.checksums)  # without those of finished runs (`cost.Costs.rate`)
    return plan


def shown_nodes(plan: Plan) -> dict[str, Node]:
    """Return the nodes of what people look at, each after those that it is made from.

    They are by the names that they are published under (`store.plans.products`). What they need
    is `scores.PAPER`, the record `run.KEY.SEED` of each run, beside which its other files are, and
    `labels.TASK`; the report also needs `table.PAPER`, `figure.NAME` and so on.
    """
    found: dict[str, Node] = {}
    papers: list[About] = []
    every: dict[str, Need] = {}
    for grid in plan.grids:
        paper, scored = grid.paper, _scored(plan, grid)
        papers.append(about := scored | _about(plan, grid))
        trained = (plan.train(ref) for ref in plan.stages if ref.paper == paper)
        runs = product(trained, plan.config.seeds)
        needs = {f"run.{node.key}.{seed}": Need(node, "run.json", seed) for node, seed in runs}
        needed = needs | plan.sources.labels(grid.tasks, "labels.parquet")
        scores = Node("scores", scored, "minbert.evaluate.score", needs=needed)
        found[f"scores/{paper}"] = scores
        beside = {f"scores.{paper}": Need(scores, "scores.parquet")}
        needs |= beside
        every |= needs
        if any(variant.tried for variant in grid.variants.values()):
            tuning = Node("tuning", about, "minbert.evaluate.choose", needs=needs)
            found[f"tables/{paper}.tuning"] = tuning
            beside[f"tuning.{paper}"] = Need(tuning, "tuning.csv")
        found[f"tables/{paper}"] = Node("table", about, "minbert.evaluate.table", needs=beside)
        found |= _paper_figures(plan, grid, about, needs)
    beside = {name: need for name, need in every.items() if need.node.kind == "scores"}
    found |= _all_figures(plan, sorted(papers, key=lambda about: str(about["paper"])), beside)
    needs = {f"table.{g.paper}": Need(found[f"tables/{g.paper}"], "table.csv") for g in plan.grids}
    # With `only`, the index is of this part's rows.
    rows = [
        row.model_dump()
        for row in plan.published
        if any(row.paper == grid.paper for grid in plan.grids)
        and (not plan.config.only or (row.paper, row.variant) in plan.variants)
    ]
    index = Node("index", {"published": rows}, "minbert.evaluate.index", needs=needs)
    found["tables/index" if rows else "index"] = index
    if any(grid.claims for grid in plan.grids):
        claims = Node("claims", _claims(plan), "minbert.evaluate.claims", needs=every)
        found["tables/claims"] = claims
    return found | {"report": _report(plan, found, every)}


def _scored(plan: Plan, grid: Grid) -> About:
    """Return what decides a paper's scores: its variants, and the trainings of their tasks."""
    labelled = bool(plan.sources.labels(grid.tasks, ""))
    return {
        **grid.model_dump(include={"paper", "single", "overall_tasks"}),
        "rule": grid.overall,
        "facts": {task: task_facts(task) for task in grid.tasks},
        "seeds": plan.config.seeds,
        # A list, as a description sorts the keys of a mapping.
        "variants": [
            {
                "name": variant.name,
                "key": plan.train(variant.stages[-1].ref).key if variant.stages else "",
                "tasks": {t: plan.train(stage.ref).key for t, stage in variant.scored.items()},
                "tuned_for": variant.tuned_for,
                "tried": [*variant.tried],
                "best_of": () if variant.tried else variant.best_of,
                "by": variant.best_by,
                "tested": variant.test or labelled,
            }
            for variant in grid.variants.values()
        ],
    }


def _about(plan: Plan, grid: Grid) -> About:
    """Return what else is said of a paper."""
    shapes = plan.sources.architecture
    variants = grid.variants.values()
    return {
        **grid.model_dump(include={"title", "tasks"}),
        "caption": grid.description,
        **plan.made_from(grid.tasks),
        "labels": {variant.name: variant.label for variant in variants},
        "settings": {name: said for v in variants for name, said in v.tried.items()},
        "stages": {
            variant.name: [
                {
                    "name": stage.ref.stage,
                    "key": plan.train(stage.ref).key,
                    "spec": plan.resolved(stage, stage.spec),
                    "start": str(stage.start) if stage.start else None,
                    "fused": [str(ref) for ref in stage.fused],
                    "parameters": stage_parameters(plan, stage),
                }
                for stage in variant.stages
            ]
            for variant in variants
        },
        "architecture": shapes and shapes.model_dump(),
        "rows": [*_rows(plan, grid)],
        "footnotes": [*_footnotes(plan, grid)],
        "selection_split": plan.selection_split(grid.paper),
    }


def _rows(plan: Plan, grid: Grid) -> Iterator[About]:
    """Yield the rows of a paper's table: its published rows in order, then what else it has."""
    of_paper = (row for row in plan.published if row.paper == grid.paper)
    rows = [row.model_dump() for row in of_paper if row.variant in grid.variants]
    published = [(row["variant"], row["split"]) for row in rows]
    for variant in grid.rows.values():
        # Variants are compared on dev; on test, nothing of a tuned one was chosen.
        splits = ("dev", "test") if variant.tried and variant.test else ("dev",)
        own = ({"variant": variant.name, "split": split} for split in splits)
        rows += [row for row in own if (row["variant"], row["split"]) not in published]
    for row in rows:
        variant = grid.variants[row["variant"]]
        others = [grid.variants[name] for name in variant.best_of]
        tasks = {task for one in others or [variant] for task in one.scored}
        chosen, figures = () if variant.tried else others, row.get("figures", {})
        besides = [task for task in grid.tasks if task in tasks and task not in OVERALL_TASKS]
        known = besides[0] if len(besides) == 1 and "other" in figures else None
        yield {
            "row": row.get("row", variant.label),
            "variant": variant.name,
            "table": row.get("table"),
            "choice": {plan.train(s.ref).key: one.name for one in chosen for s in one.stages},
            "split": row["split"],
            "published": figures,
            "note": "; ".join(filter(None, (row.get("note"), variant.note))),
            "other_task": row.get("other_task") or known,
            "tasks": [task for task in grid.tasks if task in tasks],
            "parameters": variant_parameters(plan, variant),
            "parameters_bert_base": variant_parameters(plan, variant, base_shapes=True),
        }


def _footnotes(plan: Plan, grid: Grid) -> Iterator[str]:
    """Yield ratios of parameters, and what fractions became that are no whole number of layers."""
    for pair in grid.parameter_ratios:
        shares = []
        for where, base_shapes in (("this backbone", False), ("BERT-base", True)):
            one, other = (
                variant_parameters(plan, grid.variants[name], base_shapes) for name in pair
            )
            if one and other:
                shares.append(f"{one / other:.1%} at {where}")
        if shares:
            yield f"Parameters of {pair[0]} over those of {pair[1]}: {', '.join(shares)}."
    layers = plan.sources.architecture.layers if plan.sources.architecture else 0
    for ref, stage in plan.stages.items():
        share = stage.spec.shared_layers
        if layers and ref.paper == grid.paper and isinstance(share, float):
            depth = len(shared_parts(share, "bottom", layers).layers)
            if abs(share - depth / layers) > 0.01:  # 0.33 is a third.
                yield f"{ref}: 'shared_layers: {share}' of {layers} layers became {depth}."


def _claims(plan: Plan) -> About:
    """Return all papers' claims, one line a task, by the columns of their table.

    A claim `against` a number has it as its `score`, too.
    """
    grids = [grid for grid in plan.grids if grid.claims]
    lines = []
    for grid, claim in ((of, claim) for of in grids for claim in of.claims):
        guess = MAJORITY if claim.score is None else f"{claim.score:g}"
        for task in claim.task:
            line = {
                "paper": grid.paper,
                "section": claim.section,
                "claim": claim.text,
                "variant": claim.variant,
                "against": claim.others or (guess,),
                "score": claim.score,
                "task": grid.overall if task == "overall" else task,
                "direction": claim.direction,
                "margin": None if claim.direction in ("higher", "lower") else claim.margin,
                "published_difference": _published_difference(plan, grid, claim, task),
            }
            # Tables of scores alone have no column for the measure.
            lines.append(line | ({} if claim.measure == "score" else {"measure": claim.measure}))
    return {
        "claims": lines,
        "titles": {grid.paper: grid.title for grid in grids},
        "seeds": len(plan.config.seeds),
        "selection_split": plan.selection_split(),
        "overall_tasks": {grid.paper: grid.overall_tasks for grid in grids},
        **plan.made_from(task for grid in plan.grids for task in grid.tasks),
    }


def _published_difference(plan: Plan, grid: Grid, claim: Claim, task: str) -> float | None:
    """Return the published difference; with several others, the one most against the claim."""
    of, at = "overall" if task == grid.overall else task, (grid.paper, "dev")
    rows = [row for row in plan.published if (row.paper, row.split) == at]
    found = {r.variant: f for r in reversed(rows) if (f := r.figure(of)) is not None}
    if claim.measure != "score" or claim.variant not in found:
        return None
    theirs = [claim.score, *map(found.get, claim.others)]
    differences = [round(found[claim.variant] - f, 6) for f in theirs if f is not None]
    if claim.direction == "same":
        return max(differences, key=abs, default=None)
    return (max if claim.direction in ("lower", "not higher") else min)(differences, default=None)


def _report(plan: Plan, found: Mapping[str, Node], runs: Needs) -> Node:
    """Return the node of the report of all that was `found`; what it says is in their specs."""
    tasks = dict.fromkeys(t for stage in plan.stages.values() for t in stage.spec.ordered_tasks)
    needs = {**runs, **plan.sources.labels(tasks, "labels.json")}
    for name, node in found.items():
        if node.kind == "figure":
            needs[f"figure.{name}"] = Need(node, "figure.png")
        elif node.kind != "scores":
            paper = node.spec.get("paper")
            needs[f"{node.kind}.{paper}" if paper else node.kind] = Need(node, node.outputs[0])
    for task in tasks:
        examples = Need(data := plan.sources.data(task), "examples.parquet")
        of, extra = {"examples": examples}, {"task": task}
        rows = Node("rows", {}, "minbert.data.examples", needs=of, extra=extra)
        needs |= {f"data.{task}": Need(data, "report.json"), f"examples.{task}": examples}
        needs[f"rows.{task}"] = Need(rows, "rows.parquet")
    spec = {
        **plan.made_from(tasks),
        "papers": [grid.paper for grid in plan.grids],
        "figures": [name for name, node in found.items() if node.kind == "figure"],
        "seeds": plan.config.seeds,
        "config": plan.config.model_dump(mode="json", exclude_defaults=True, exclude=UNSHOWN),
        "selection_split": plan.selection_split(),
        "templates": {name: checksum(PACKAGE / "report" / name, "sha256:") for name in TEMPLATES},
    }
    return Node("report", spec, "minbert.report.make", needs=needs)


def _paper_figures(plan: Plan, grid: Grid, about: About, needs: Needs) -> Iterator[Figure]:
    """Yield a paper's figures; one to which `only` leaves too little to show is left out."""
    for name, spec in grid.figures.items():
        where = f"paper '{grid.paper}': figure '{name}'"
        options = validated(FIGURE_KINDS[spec.kind], spec.options, f"{where}, options")
        given, on, of = options.model_dump(mode="json"), "", [*grid.variants.values()]
        if shown := TASK_KIND.get(spec.kind):
            fit = [task for task in grid.tasks if TASKS[task].kind == shown]
            given["task"] = task = given["task"] or next(iter(fit), "none")
            on = f" scored on {task} ({shown})"
            of = [v for v in of if task in v.scored and task in fit]
        # A setting that a tuned variant tries has runs, and is no row.
        able = {v.name: v for v in of if (v.stages if options.trained else not v.tuned_for)}
        # Without named variants a figure shows all that it can.
        names = [*(spec.variants or (name for name, v in able.items() if not v.tuned_for))]
        named = [*options.named()]
        if plan.config.only:
            names = [name for name in names if name in grid.variants]
            if len(names) < options.least or not grid.variants.keys() >= {*named}:
                continue
        for variant, known in (dict.fromkeys(named, names) | dict.fromkeys(names, able)).items():
            if variant not in known:
                raise UserError(
                    f"{where}: '{variant}' is not one of its variants{on or ' with results'}."
                    f"{did_you_mean(variant, known)}"
                )
        if len(names) < options.least:
            raise UserError(
                f"{where}: kind '{spec.kind}' shows {options.least} or more variants{on}, found "
                f"{len(names)}; name others under 'variants', or take the figure out"
            )
        for table in options.tables if isinstance(options, Curves) else ():
            stages = grid.variants[table.variant].stages
            trained = {stage.ref.stage: stage.spec.trained_tasks for stage in stages}
            if table.task not in trained.get(table.stage, ()):
                raise UserError(
                    f"{where}, '{table.title}': '{table.variant}' has no stage '{table.stage}' "
                    f"that trains {table.task}; found {', '.join(trained) or 'none'}"
                )
        yield _figure(grid.paper, name, spec, {"options": given, "variants": names}, [about], needs)


def _all_figures(plan: Plan, papers: Sequence[About], needs: Needs) -> Iterator[Figure]:
    """Yield the figures over all `papers`, if these have published rows; a part has none."""
    path = plan.base / FIGURES
    if plan.config.only or not path.exists():
        return
    for name, spec in validated(FiguresFile, load_yaml(path), str(path)).figures.items():
        options = spec.options
        if options.against == "dev" or any(row["table"] for of in papers for row in of["rows"]):
            draw = {"options": options.model_dump(), "variants": []}
            yield _figure(ALL, name, spec, draw, papers, needs)


def _figure(
    paper: str, name: str, spec: Drawing, draw: About, papers: Sequence[About], needs: Needs
) -> Figure:
    about = {
        "paper": paper,
        "name": name,
        "kind": spec.kind,
        "draw": spec.model_dump(include={"title", "caption"}) | draw,
        "papers": papers,
        "style": {p.name: checksum(p, "sha256:") for p in PACKAGE.glob("figures/*.mplstyle")},
    }
    parts = [part_module("figure", spec.kind)]
    if shapes := papers[0]["architecture"]:
        parts.append(part_module("architecture", shapes["family"]))
    node = Node("figure", about, "minbert.figures.make", tuple(parts), needs)
    return f"figures/{paper}/{name}", node
