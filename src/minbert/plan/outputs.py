"""The nodes of what people look at, but figures: scores, tables, index, claims, report."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minbert.data.identity import sha256
from minbert.plan.experiment import Experiment, select_on
from minbert.plan.figures import paper_figure
from minbert.plan.parameters import parameters
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.published import Claim, Published
from minbert.spec.resolve import Grid, StageRef, Variant
from minbert.spec.task import TASKS, shown_tasks, task_facts
from minbert.store.node import Need, Node

PAGE = Path(__file__).parents[1] / "report"
TEMPLATES = ("page.html.j2", "parts.html.j2", "script.js", "style.css")
RUN_FILES = {"run": "run.json", "predictions": "predictions.parquet"}
"""What the report reads of a run."""
UNSHOWN = (
    *("results", "device", "precision", "threads", "checkpoint_seconds"),
    *("keep_weights", "tracking", "published", "course", "lmrd", "labels"),
    *("checksums", "tasks", "verify"),
)
"""Settings that change no result, and where data lie, so that they change no report either."""


@dataclass(frozen=True)
class Outputs:
    """The nodes of a paper's scores, table and figures, and of what its tuned variants tried."""

    scores: Node
    table: Node
    figures: Mapping[str, Node]
    tuning: Node | None


def paper_outputs(exp: Experiment, grid: Grid) -> Outputs:
    """Return the nodes that show what a paper's runs came to."""
    tuning = _tuning(exp, grid)
    chosen = {"tuning": Need(tuning, "tuning.csv")} if tuning else {}
    scores = _scores(exp, grid, chosen)
    needs = {"scores": Need(scores, "scores.parquet")} | chosen
    table = Node("table", _table(exp, grid), "minbert.evaluate.table", needs=needs)
    figures = {
        name: node
        for name, spec in grid.figures.items()
        if (node := paper_figure(exp, grid, scores, name, spec))
    }
    return Outputs(scores, table, figures, tuning)


def _tuning(exp: Experiment, grid: Grid) -> Node | None:
    """Return the node of what a paper's tuned variants tried; None if it has none.

    The score that chooses is over the variant's tasks of the overall score, or if it has none of
    these, over all that it has.
    """
    rows: list[dict[str, Any]] = []
    needs: dict[str, Need] = {}
    for variant in grid.variants.values():
        if not variant.tried:
            continue
        tasks = _tasks(grid, variant)
        tried = []
        for name, said in variant.tried.items():
            keys = [exp.train(stage.ref).key for stage in grid.variants[name].stages]
            one = {"candidate": name, "settings": said, "keys": list(dict.fromkeys(keys))}
            tried.append(one | {"tasks": _run(exp, grid.variants[name], needs)["tasks"]})
        by = [task for task in tasks if task in grid.overall_tasks] or tasks
        rows.append({"variant": variant.name, "label": variant.label, "tasks": by, "tried": tried})
    if not rows:
        return None
    spec: dict[str, Any] = {"paper": grid.paper, "title": grid.title, "rule": grid.overall}
    spec |= {"rows": rows, "seeds": list(exp.config.seeds), **shown_tasks(grid.tasks)}
    return Node("tuning", spec, "minbert.evaluate.choose", needs=needs)


def _run(exp: Experiment, variant: Variant, needs: dict[str, Need]) -> dict[str, Any]:
    """Return the keys that a variant is scored by, and add the files of its runs to `needs`."""
    trained = {task: exp.train(stage.ref) for task, stage in variant.scored.items()}
    for node in trained.values():
        for seed in exp.config.seeds:
            for file in ("predictions", "history"):
                needs[f"{file}.{node.key}.{seed}"] = Need(node, f"{file}.parquet", seed)
    key = exp.train(variant.stages[-1].ref).key
    return {"key": key, "tasks": {task: node.key for task, node in trained.items()}}


def _scores(exp: Experiment, grid: Grid, chosen: Mapping[str, Need]) -> Node:
    runs: list[dict[str, Any]] = []
    needs = dict(chosen) | {
        f"labels.{task}": Need(node, "labels.parquet")
        for task in grid.tasks
        if (node := exp.sources.labels(task))
    }
    public = len(needs) > len(chosen)
    for variant in grid.rows.values():
        tried = {name: _run(exp, grid.variants[name], needs) for name in variant.tried}
        own: dict[str, Any]
        if tried:
            own = {"tried": tried}
        elif variant.best_of:
            own = {"best_of": variant.best_of, "by": variant.best_by}
            own |= {"key": "", "rule": grid.overall}
        else:
            own = _run(exp, variant, needs)
        for seed in exp.config.seeds:
            entry = {"paper": grid.paper, "variant": variant.name, "seed": seed}
            entry["tested"] = variant.test or public
            runs.append(entry | own)
    facts = {task: task_facts(task) for task in grid.tasks}
    spec = {"runs": runs, "tasks": facts, "single": grid.single}
    spec["overall_tasks"] = grid.overall_tasks
    extra = {"paper": grid.paper}
    return Node("scores", spec, "minbert.evaluate.score", needs=needs, extra=extra)


def _table(exp: Experiment, grid: Grid) -> dict[str, Any]:
    """Return the spec of a paper's table: its published rows in order, then what else it has.

    Each variant has a row on dev, by which variants are compared; a tuned one that is tested also
    has one on test, which chose nothing.
    """
    rows = []
    published = [row for row in exp.published if row.paper == grid.paper]
    for row in published:
        if row.variant in grid.variants:
            rows.append(_row(exp, grid, grid.variants[row.variant], row))
    named = {(row.variant, row.split) for row in published}
    for name, variant in grid.rows.items():
        for split in ("dev", "test") if variant.tried and variant.test else ("dev",):
            if (name, split) not in named:
                rows.append(_row(exp, grid, variant, None, split))
    return {
        "paper": grid.paper,
        "title": grid.title,
        "caption": grid.description,
        "rule": grid.overall,
        "tasks": grid.tasks,
        "overall_tasks": grid.overall_tasks,
        **shown_tasks(grid.tasks),
        "seeds": list(exp.config.seeds),
        "backbone": exp.sources.encoder,
        "data": exp.data(grid.tasks),
        "rows": rows,
        "footnotes": [*_ratio_notes(exp, grid), *exp.rounded(grid)],
        "single": grid.variants[grid.single].label if grid.single else "",
        "select_on": select_on(stage for v in grid.variants.values() for stage in v.stages),
    }


def _row(
    exp: Experiment, grid: Grid, variant: Variant, row: Published | None, split: str = "dev"
) -> dict[str, Any]:
    return {
        "row": row.row if row else variant.label,
        "variant": variant.name,
        "table": row.table if row else None,
        "choice": {
            exp.train(stage.ref).key: name
            for name in (() if variant.tried else variant.best_of)
            for stage in grid.variants[name].stages
        },
        "split": row.split if row else split,
        "published": row.figures if row else {},
        "note": "; ".join(n for n in (row.note if row else "", variant.note) if n),
        "other_task": (row.other_task or None) if row else None,
        "tasks": _tasks(grid, variant),
        "parameters": parameters(exp, variant),
        "parameters_bert_base": parameters(exp, variant, base_shapes=True),
    }


def _tasks(grid: Grid, variant: Variant) -> list[str]:
    """Return the tasks that a variant is scored on, or those of whom it is the best."""
    chosen = [grid.variants[name] for name in variant.best_of] or [variant]
    found = {task for one in chosen for task in one.scored}
    return [task for task in grid.tasks if task in found]


def _ratio_notes(exp: Experiment, grid: Grid) -> list[str]:
    notes = []
    for pair in grid.parameter_ratios:
        one, other = (grid.variants[name] for name in pair)
        shares = []
        for where, base_shapes in (("this backbone", False), ("BERT-base", True)):
            counts = [parameters(exp, v, base_shapes) for v in (one, other)]
            if counts[0] and counts[1]:
                shares.append(f"{counts[0] / counts[1]:.1%} at {where}")
        if shares:
            notes.append(f"Parameters of {pair[0]} over those of {pair[1]}: {', '.join(shares)}.")
    return notes


def index_node(exp: Experiment, outputs: Mapping[str, Outputs]) -> Node:
    """Return the node of the index of the papers' published rows, or of those of a part."""
    needs = {f"table.{paper}": Need(made.table, "table.csv") for paper, made in outputs.items()}
    rows = [
        row.model_dump()
        for row in exp.published
        if row.paper in outputs
        and (not exp.config.only or (row.paper, row.variant) in exp.variants)
    ]
    return Node("index", {"published": rows}, "minbert.evaluate.index", needs=needs)


def claims_node(exp: Experiment, outputs: Mapping[str, Outputs]) -> Node | None:
    """Return the node of all papers' claims; None if the grids make none."""
    lines = [line for grid in exp.grids for line in _claims(exp, grid)]
    if not lines:
        return None
    needs: dict[str, Need] = {}
    for grid in exp.grids:
        if not grid.claims:
            continue
        needs[f"scores.{grid.paper}"] = Need(outputs[grid.paper].scores, "scores.parquet")
        read = {("predictions", name) for claim in grid.claims for name in claim.variants}
        on_curves = [claim for claim in grid.claims if claim.measure != "score"]
        read |= {("history", name) for claim in on_curves for name in claim.variants}
        for file, name in read:
            for variant in (name, *grid.variants[name].best_of):
                for stage in grid.variants[variant].scored.values():
                    node = exp.train(stage.ref)
                    for seed in exp.config.seeds:
                        at = f"{file}.{node.key}.{seed}"
                        needs[at] = Need(node, f"{file}.parquet", seed)
    titles = {grid.paper: grid.title for grid in exp.grids if grid.claims}
    spec = {
        "claims": lines,
        "titles": titles,
        "seeds": len(exp.config.seeds),
        "backbone": exp.sources.encoder,
        "data": exp.data(task for grid in exp.grids if grid.claims for task in grid.tasks),
        "select_on": select_on(exp.stages.values()),
        "overall_tasks": {grid.paper: grid.overall_tasks for grid in exp.grids if grid.claims},
        **shown_tasks(task for grid in exp.grids for task in grid.tasks),
    }
    ordered = dict(sorted(needs.items()))
    return Node("claims", spec, "minbert.evaluate.claims", needs=ordered)


def _claims(exp: Experiment, grid: Grid) -> Iterator[dict[str, Any]]:
    """Yield each claim of a paper, one line a task, with the difference that was published."""
    for claim in grid.claims:
        for task in claim.tasks:
            yield {
                "paper": grid.paper,
                "section": claim.section,
                "text": claim.text,
                "variant": claim.variant,
                "others": claim.others,
                "score": claim.score,
                "task": grid.overall if task == "overall" else task,
                "direction": claim.direction,
                "margin": claim.margin,
                "published": _published_difference(exp, grid, claim, task),
                # Left out for scores, so that the keys of such claims stay as they are.
                **({} if claim.measure == "score" else {"measure": claim.measure}),
            }


def _published_difference(exp: Experiment, grid: Grid, claim: Claim, task: str) -> float | None:
    """Return the published difference; with several others, the one most against the claim.

    Of curves, none is published.
    """
    if claim.measure != "score":
        return None
    ours = _published(exp, grid, claim.variant, task)
    found = [_published(exp, grid, name, task) for name in claim.others]
    theirs = [figure for figure in (claim.score, *found) if figure is not None]
    if ours is None or not theirs:
        return None
    differences = [round(ours - figure, 6) for figure in theirs]
    if claim.direction == "same":
        return max(differences, key=abs)
    return min(differences) if claim.direction in ("higher", "not lower") else max(differences)


def _published(exp: Experiment, grid: Grid, variant: str, task: str) -> float | None:
    """Return the figure that the paper gives of a variant on dev; None if it gives none."""
    for row in exp.published:
        if (row.paper, row.variant, row.split) != (grid.paper, variant, "dev"):
            continue
        if task in ("overall", grid.overall):
            figure = row.figures["overall"]
        elif task in OVERALL_TASKS:
            figure = row.figures[task]
        elif task in TASKS and row.other_task in ("", task):
            figure = row.figures["other"]
        else:
            figure = None
        if figure is not None:
            return figure
    return None


def report_node(
    exp: Experiment,
    outputs: Mapping[str, Outputs],
    index: Node,
    claims: Node | None,
    figures: Mapping[str, Node],
) -> Node:
    """Return the node of the report; `figures` are by the names that they are published under.

    Needs are named by what they are: `table/PAPER`, `tuning/PAPER`, `scores/PAPER`, `figure/NAME`,
    `run/KEY/SEED`, `predictions/KEY/SEED`, `data/TASK`, `examples/TASK`, `index` and `claims`.
    What tables and figures are called is in their own specs.
    """
    needs = {"index": Need(index, "index.csv")}
    if claims:
        needs["claims"] = Need(claims, "claims.csv")
    for paper, made in outputs.items():
        needs[f"table/{paper}"] = Need(made.table, "table.csv")
        if made.tuning:
            needs[f"tuning/{paper}"] = Need(made.tuning, "tuning.csv")
        needs[f"scores/{paper}"] = Need(made.scores, "scores.parquet")
    for name, node in figures.items():
        needs[f"figure/{name}"] = Need(node, "figure.png")
    for ref in exp.owners.values():
        node = exp.train(ref)
        for seed in exp.config.seeds:
            for name, file in RUN_FILES.items():
                needs[f"{name}/{node.key}/{seed}"] = Need(node, file, seed)
    tasks = dict.fromkeys(t for stage in exp.stages.values() for t in stage.spec.ordered_tasks)
    needs |= {f"data/{task}": Need(exp.sources.data(task), "report.json") for task in tasks}
    needs |= {
        f"examples/{task}": Need(exp.sources.data(task), "examples.parquet") for task in tasks
    }
    for task in tasks:
        if node_of := exp.sources.labels(task):
            needs[f"labels/{task}"] = Need(node_of, "labels.json")
    config = exp.config.model_dump(mode="json", exclude_defaults=True, exclude=set(UNSHOWN))
    spec = {
        "backbone": exp.sources.encoder,
        "data": exp.data(tasks),
        "seeds": list(exp.config.seeds),
        "config": config,
        "stages": [_stage(exp, ref) for ref in exp.stages],
        "select_on": select_on(exp.stages.values()),
        **shown_tasks(tasks),
        "templates": {name: sha256(PAGE / name) for name in TEMPLATES},  # in no syntax tree
    }
    return Node("report", spec, "minbert.report.make", needs=needs)


def _stage(exp: Experiment, ref: StageRef) -> dict[str, Any]:
    """Return what the report says of a stage; `row` is the variant whose scores it is for."""
    variant = exp.variant(ref)
    row = exp.variants[ref.paper, variant.tuned_for or ref.variant]
    return {
        "paper": ref.paper,
        "variant": ref.variant,
        "stage": ref.stage,
        "row": row.name,
        "label": row.label,
        "tasks": list(exp.stages[ref].spec.trained_tasks),
        "key": exp.train(ref).key,
    }
