"""The nodes of what people look at: scores, tables, figures, index, claims, report."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from minbert.data.identity import sha256
from minbert.plan.experiment import Experiment
from minbert.plan.figures import all_figures, paper_figures
from minbert.plan.parameters import parameters
from minbert.spec.architecture import shared_depth
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.published import Claim, Published
from minbert.spec.resolve import Grid, StageRef, Variant
from minbert.spec.task import TASKS, shown_tasks, task_facts
from minbert.store.node import Need, Node

PAGE = Path(__file__).parents[1] / "report"
TEMPLATES = ("page.html.j2", "parts.html.j2", "script.js", "style.css")
UNSHOWN = {
    *("results", "device", "precision", "threads", "checkpoint_seconds"),
    *("keep_weights", "tracking", "published", "course", "lmrd", "labels"),
    *("checksums", "tasks", "verify"),
}
"""Settings that change no result, and where data lie, so that they change no report either."""


def shown_nodes(exp: Experiment) -> dict[str, Node]:
    """Return the nodes of what people look at, each after those that it is made from.

    They are by the names that they are published under (`store.plans.products`).
    """
    found: dict[str, Node] = {}
    scores: dict[str, Node] = {}
    for grid in exp.grids:
        chosen = {}
        if tuning := _tuning(exp, grid):
            found[f"tables/{grid.paper}.tuning"] = tuning
            chosen["tuning"] = Need(tuning, "tuning.csv")
        made = scores[grid.paper] = found[f"scores/{grid.paper}"] = _scores(exp, grid, chosen)
        needs = {"scores": Need(made, "scores.parquet")} | chosen
        table = Node("table", _table(exp, grid), "minbert.evaluate.table", needs=needs)
        found[f"tables/{grid.paper}"] = table
        found |= paper_figures(exp, grid, made)
    found |= all_figures(exp, scores)
    index = _index(exp, found)
    found["tables/index" if index.spec["published"] else "index"] = index
    if claims := _claims(exp, scores):
        found["tables/claims"] = claims
    return found | {"report": _report(exp, found)}


PREDICTIONS, HISTORY = "predictions.parquet", "history.parquet"


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
    needs |= _files(exp, trained.values(), PREDICTIONS, HISTORY)
    key = exp.train(variant.stages[-1].ref).key
    return {"key": key, "tasks": {task: node.key for task, node in trained.items()}}


def _files(
    exp: Experiment, trained: Iterable[Node], *files: str, separator: str = "."
) -> dict[str, Need]:
    """Return files of all seeds of trainings, called `FILE.KEY.SEED`."""
    return {
        separator.join((file.partition(".")[0], node.key, str(seed))): Need(node, file, seed)
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
        **exp.made_from(grid.tasks),
        "seeds": list(exp.config.seeds),
        "rows": rows,
        "footnotes": list(_footnotes(exp, grid)),
        "single": grid.variants[grid.single].label if grid.single else "",
        "selection_split": exp.selection_split(grid),
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


def _footnotes(exp: Experiment, grid: Grid) -> Iterator[str]:
    """Yield ratios of parameters, and what fractions became that are no whole number of layers."""
    for pair in grid.parameter_ratios:
        shares = []
        for where, base_shapes in (("this backbone", False), ("BERT-base", True)):
            one, other = (parameters(exp, grid.variants[name], base_shapes) for name in pair)
            if one and other:
                shares.append(f"{one / other:.1%} at {where}")
        if shares:
            yield f"Parameters of {pair[0]} over those of {pair[1]}: {', '.join(shares)}."
    layers = exp.sources.architecture.layers if exp.sources.architecture else 0
    for stage in (stage for variant in grid.variants.values() for stage in variant.stages):
        share = stage.spec.shared_layers
        if layers and isinstance(share, float):
            depth = shared_depth(share, layers) or 0
            if abs(share - depth / layers) > 0.01:  # 0.33 is a third.
                said = f"'shared_layers: {share}' of {layers} layers became {depth}."
                yield f"{stage.ref}: {said}"


def _index(exp: Experiment, shown: Mapping[str, Node]) -> Node:
    """Return the node of the index of the papers' published rows, or of those of a part."""
    papers = [grid.paper for grid in exp.grids]
    needs = {f"table.{paper}": Need(shown[f"tables/{paper}"], "table.csv") for paper in papers}
    rows = [
        row.model_dump()
        for row in exp.published
        if row.paper in papers and (not exp.config.only or (row.paper, row.variant) in exp.variants)
    ]
    return Node("index", {"published": rows}, "minbert.evaluate.index", needs=needs)


def _claims(exp: Experiment, scores: Mapping[str, Node]) -> Node | None:
    """Return the node of all papers' claims; None if the grids make none."""
    grids = [grid for grid in exp.grids if grid.claims]
    if not grids:
        return None
    needs = {f"scores.{g.paper}": Need(scores[g.paper], "scores.parquet") for g in grids}
    for grid, claim in ((of, claim) for of in grids for claim in of.claims):
        names = (name for of in claim.variants for name in (of, *grid.variants[of].best_of))
        stages = (stage for name in names for stage in grid.variants[name].scored.values())
        files = (PREDICTIONS,) if claim.measure == "score" else (PREDICTIONS, HISTORY)
        needs |= _files(exp, (exp.train(stage.ref) for stage in stages), *files)
    spec = {
        "claims": [line for grid in grids for line in _lines(exp, grid)],
        "titles": {grid.paper: grid.title for grid in grids},
        "seeds": len(exp.config.seeds),
        "selection_split": exp.selection_split(),
        "overall_tasks": {grid.paper: grid.overall_tasks for grid in grids},
        **exp.made_from(task for grid in exp.grids for task in grid.tasks),
    }
    return Node("claims", spec, "minbert.evaluate.claims", needs=needs)


def _lines(exp: Experiment, grid: Grid) -> Iterator[dict[str, Any]]:
    """Yield each claim of a paper, one line a task, with the difference that was published."""
    for claim in grid.claims:
        for task in claim.task:
            # The measure is left out for scores, so that the keys of such claims stay as they are.
            left = {"against", "task", *(("measure",) if claim.measure == "score" else ())}
            yield {
                **claim.model_dump(exclude=left),
                "paper": grid.paper,
                "others": claim.others,
                "score": claim.score,
                "task": grid.overall if task == "overall" else task,
                "published": _published_difference(exp, grid, claim, task),
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


def _report(exp: Experiment, shown: Mapping[str, Node]) -> Node:
    """Return the node of the report of all else that is `shown`.

    Needs are named by what they are: `table/PAPER`, `tuning/PAPER`, `scores/PAPER`, `figure/NAME`,
    `run/KEY/SEED`, `predictions/KEY/SEED`, `data/TASK`, `examples/TASK`, `rows/TASK`,
    `labels/TASK`, `index` and `claims`.
    What tables and figures are called is in their own specs.
    """
    needs = {}
    for name, node in shown.items():
        if node.kind == "figure":
            needs[f"figure/{name}"] = Need(node, "figure.png")
        else:
            paper = paper_of(node)
            needs[f"{node.kind}/{paper}" if paper else node.kind] = Need(node, node.outputs[0])
    trained = [exp.train(ref) for ref in exp.owners.values()]
    needs |= _files(exp, trained, "run.json", PREDICTIONS, separator="/")
    tasks = dict.fromkeys(t for stage in exp.stages.values() for t in stage.spec.ordered_tasks)
    for task in tasks:
        data = exp.sources.data(task)
        needs[f"data/{task}"] = Need(data, "report.json")
        needs[f"examples/{task}"] = Need(data, "examples.parquet")
        needs[f"rows/{task}"] = Need(exp.sources.rows(task), "rows.parquet")
        if labels := exp.sources.labels(task):
            needs[f"labels/{task}"] = Need(labels, "labels.json")
    spec = {
        **exp.made_from(tasks),
        "seeds": list(exp.config.seeds),
        "config": exp.config.model_dump(mode="json", exclude_defaults=True, exclude=UNSHOWN),
        "stages": [_stage(exp, ref) for ref in exp.stages],
        "selection_split": exp.selection_split(),
        "templates": {name: sha256(PAGE / name) for name in TEMPLATES},  # in no syntax tree
    }
    return Node("report", spec, "minbert.report.make", needs=needs)


def paper_of(node: Node) -> str:
    """Return the paper that a node shows; "" for all."""
    return str({**node.extra, **node.spec}.get("paper", ""))


def _stage(exp: Experiment, ref: StageRef) -> dict[str, Any]:
    """Return what the report says of a stage; `row` is the variant whose scores it is for."""
    named = exp.variants[ref.paper, ref.variant].tuned_for or ref.variant
    row = exp.variants[ref.paper, named]
    return {
        "paper": ref.paper,
        "variant": ref.variant,
        "stage": ref.stage,
        "row": row.name,
        "label": row.label,
        "tasks": list(exp.stages[ref].spec.trained_tasks),
        "key": exp.train(ref).key,
    }
