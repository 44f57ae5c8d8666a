"""The nodes of what people look at, but figures: scores, tables, index, claims, report."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minbert.data.identity import sha256
from minbert.plan.experiment import Experiment, selection_split
from minbert.plan.figures import paper_figure
from minbert.plan.parameters import parameters
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.published import Claim, Published
from minbert.spec.resolve import Grid, StageRef, Variant
from minbert.spec.task import TASKS, shown_tasks, task_facts
from minbert.store.node import Need, Node

PAGE = Path(__file__).parents[1] / "report"
TEMPLATES = ("page.html.j2", "parts.html.j2", "script.js", "style.css")
RUN_FILES = {
    "run": "run.json",
    "predictions": "predictions.parquet",
    "history": "history.parquet",
}
"""What is read of a run."""
UNSHOWN = {
    *("results", "device", "precision", "threads", "checkpoint_seconds"),
    *("keep_weights", "tracking", "published", "course", "lmrd", "labels"),
    *("checksums", "tasks", "verify"),
}
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
    drawn = ((name, paper_figure(exp, grid, scores, name)) for name in grid.figures)
    return Outputs(scores, table, {name: node for name, node in drawn if node}, tuning)


def _tuning(exp: Experiment, grid: Grid) -> Node | None:
    """Return the node of what a paper's tuned variants tried; None if it has none.

    The score that chooses is over the variant's tasks of the overall score, or if it has none of
    these, over all that it has.
    """
    rows: list[dict[str, Any]] = []
    needs: dict[str, Need] = {}
    for variant in (variant for variant in grid.variants.values() if variant.tried):
        tried = []
        for name, said in variant.tried.items():
            keys = dict.fromkeys(exp.train(stage.ref).key for stage in grid.variants[name].stages)
            run = _run(exp, grid.variants[name], needs)
            one = {"candidate": name, "settings": said, "keys": list(keys), "tasks": run["tasks"]}
            tried.append(one)
        tasks = _tasks(grid, variant)
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
    needs |= _files(exp, trained.values(), "predictions", "history")
    key = exp.train(variant.stages[-1].ref).key
    return {"key": key, "tasks": {task: node.key for task, node in trained.items()}}


def _files(
    exp: Experiment, trained: Iterable[Node], *files: str, separator: str = "."
) -> dict[str, Need]:
    """Return files of all seeds of trainings, called `FILE.KEY.SEED`."""
    return {
        separator.join((file, node.key, str(seed))): Need(node, RUN_FILES[file], seed)
        for node in trained
        for seed in exp.config.seeds
        for file in files
    }


def _scores(exp: Experiment, grid: Grid, chosen: Mapping[str, Need]) -> Node:
    labels = {task: node for task in grid.tasks if (node := exp.sources.labels(task))}
    needs = dict(chosen) | {f"labels.{t}": Need(n, "labels.parquet") for t, n in labels.items()}
    runs: list[dict[str, Any]] = []
    for variant in grid.rows.values():
        own: dict[str, Any]
        if variant.tried:
            tried = {name: _run(exp, grid.variants[name], needs) for name in variant.tried}
            own = {"tried": tried}
        elif variant.best_of:
            own = {"best_of": variant.best_of, "by": variant.best_by}
            own |= {"key": "", "rule": grid.overall}
        else:
            own = _run(exp, variant, needs)
        own |= {"paper": grid.paper, "variant": variant.name}
        own["tested"] = variant.test or bool(labels)
        runs += [own | {"seed": seed} for seed in exp.config.seeds]
    spec = {
        "runs": runs,
        "tasks": {task: task_facts(task) for task in grid.tasks},
        "single": grid.single,
        "overall_tasks": grid.overall_tasks,
    }
    extra = {"paper": grid.paper}
    return Node("scores", spec, "minbert.evaluate.score", needs=needs, extra=extra)


def _table(exp: Experiment, grid: Grid) -> dict[str, Any]:
    """Return the spec of a paper's table: its published rows in order, then what else it has.

    Each variant has a row on dev, by which variants are compared; a tuned one that is tested also
    has one on test, which chose nothing.
    """
    published = [row for row in exp.published if row.paper == grid.paper]
    rows = [
        _row(exp, grid, grid.variants[row.variant], row.split, row)
        for row in published
        if row.variant in grid.variants
    ]
    named = {(row.variant, row.split) for row in published}
    for name, variant in grid.rows.items():
        for split in ("dev", "test") if variant.tried and variant.test else ("dev",):
            if (name, split) not in named:
                rows.append(_row(exp, grid, variant, split))
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
        "selection_split": selection_split(
            stage for v in grid.variants.values() for stage in v.stages
        ),
    }


def _row(
    exp: Experiment, grid: Grid, variant: Variant, split: str, row: Published | None = None
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
        "split": split,
        "published": row.figures if row else {},
        "note": "; ".join(filter(None, (row.note if row else "", variant.note))),
        "other_task": (row and row.other_task) or None,
        "tasks": _tasks(grid, variant),
        "parameters": parameters(exp, variant),
        "parameters_bert_base": parameters(exp, variant, base_shapes=True),
    }


def _tasks(grid: Grid, variant: Variant) -> list[str]:
    """Return the tasks that a variant is scored on, or those of whom it is the best."""
    chosen = [grid.variants[name] for name in variant.best_of] or [variant]
    found = {task for one in chosen for task in one.scored}
    return [task for task in grid.tasks if task in found]


def _ratio_notes(exp: Experiment, grid: Grid) -> Iterator[str]:
    for pair in grid.parameter_ratios:
        shares = []
        for where, base_shapes in (("this backbone", False), ("BERT-base", True)):
            one, other = (parameters(exp, grid.variants[name], base_shapes) for name in pair)
            if one and other:
                shares.append(f"{one / other:.1%} at {where}")
        if shares:
            yield f"Parameters of {pair[0]} over those of {pair[1]}: {', '.join(shares)}."


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
    grids = [grid for grid in exp.grids if grid.claims]
    if not grids:
        return None
    needs = {f"scores.{g.paper}": Need(outputs[g.paper].scores, "scores.parquet") for g in grids}
    read: dict[str, dict[str, Node]] = {"predictions": {}, "history": {}}
    for grid in grids:
        for claim in grid.claims:
            others = (name for of in claim.variants for name in (of, *grid.variants[of].best_of))
            stages = [stage for name in others for stage in grid.variants[name].scored.values()]
            trained = {node.key: node for node in (exp.train(stage.ref) for stage in stages)}
            read["predictions"] |= trained
            read["history"] |= trained if claim.measure != "score" else {}
    for file, trained in read.items():
        needs |= _files(exp, trained.values(), file)
    spec = {
        "claims": [line for grid in grids for line in _claims(exp, grid)],
        "titles": {grid.paper: grid.title for grid in grids},
        "seeds": len(exp.config.seeds),
        "backbone": exp.sources.encoder,
        "data": exp.data(task for grid in grids for task in grid.tasks),
        "selection_split": selection_split(exp.stages.values()),
        "overall_tasks": {grid.paper: grid.overall_tasks for grid in grids},
        **shown_tasks(task for grid in exp.grids for task in grid.tasks),
    }
    return Node("claims", spec, "minbert.evaluate.claims", needs=needs)


def _claims(exp: Experiment, grid: Grid) -> Iterator[dict[str, Any]]:
    """Yield each claim of a paper, one line a task, with the difference that was published."""
    for claim in grid.claims:
        for task in claim.task:
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
    found = (_published(exp, grid, name, task) for name in claim.others)
    theirs = [figure for figure in (claim.score, *found) if figure is not None]
    if ours is None or not theirs:
        return None
    differences = [round(ours - figure, 6) for figure in theirs]
    if claim.direction == "same":
        return max(differences, key=abs)
    return min(differences) if claim.direction in ("higher", "not lower") else max(differences)


def _published(exp: Experiment, grid: Grid, variant: str, task: str) -> float | None:
    """Return the figure that the paper gives of a variant on dev; None if it gives none."""
    name = "overall" if task in ("overall", grid.overall) else task
    if name in TASKS and name not in OVERALL_TASKS:
        name = "other"
    found = (
        row.figures.get(name)
        for row in exp.published
        if (row.paper, row.variant, row.split) == (grid.paper, variant, "dev")
        and (name != "other" or row.other_task in ("", task))
    )
    return next((figure for figure in found if figure is not None), None)


def report_node(
    exp: Experiment,
    outputs: Mapping[str, Outputs],
    index: Node,
    claims: Node | None,
    figures: Mapping[str, Node],
) -> Node:
    """Return the node of the report; `figures` are by the names that they are published under.

    Needs are named by what they are: `table/PAPER`, `tuning/PAPER`, `scores/PAPER`, `figure/NAME`,
    `run/KEY/SEED`, `predictions/KEY/SEED`, `data/TASK`, `examples/TASK`, `labels/TASK`, `index` and
    `claims`.
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
    needs |= {f"figure/{name}": Need(node, "figure.png") for name, node in figures.items()}
    trained = [exp.train(ref) for ref in exp.owners.values()]
    needs |= _files(exp, trained, "run", "predictions", separator="/")
    tasks = dict.fromkeys(t for stage in exp.stages.values() for t in stage.spec.ordered_tasks)
    for task in tasks:
        data = exp.sources.data(task)
        needs[f"data/{task}"] = Need(data, "report.json")
        needs[f"examples/{task}"] = Need(data, "examples.parquet")
        if labels := exp.sources.labels(task):
            needs[f"labels/{task}"] = Need(labels, "labels.json")
    spec = {
        "backbone": exp.sources.encoder,
        "data": exp.data(tasks),
        "seeds": list(exp.config.seeds),
        "config": exp.config.model_dump(mode="json", exclude_defaults=True, exclude=UNSHOWN),
        "stages": [_stage(exp, ref) for ref in exp.stages],
        "selection_split": selection_split(exp.stages.values()),
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
