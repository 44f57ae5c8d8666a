"""What is said of a plan: the descriptions that jobs read, names for people, captions."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from minbert.base.files import read_json, write_json, write_text
from minbert.plan.experiment import Experiment
from minbert.plan.plan import Plan
from minbert.spec.resolve import Grid
from minbert.spec.task import TASKS
from minbert.store.code import files_digest
from minbert.store.node import Node, canonical, description_path

ALL = "All papers"
TITLES = {
    "index": "Every published row",
    "claims": "What the papers claim",
    "report": "The whole report",
}
CAPTIONS = {
    "table": "Published figures beside ours.",
    "index": "Every row of the papers' tables: its status, the published figures, and ours.",
    "claims": "What each paper claims: the variants compared, their difference, a verdict.",
    "report": "Summary, warnings, claims, tables, figures and run times in one page.",
}


def write(plan: Plan) -> None:
    """Write the description of every node, what is to be published, and `variants.tsv`.

    Only what differs is written: a device or label can change while the key stays, and the next
    job reads the newest.
    """
    for (kind, key), node in plan.nodes.items():
        path = description_path(plan.root, kind, key)
        described = json.loads(canonical(node.describe() | looks(plan, node)))
        if not path.exists() or read_json(path) != described:
            write_json(path, described)
    listed = {
        "products": {name: str(path) for name, path in plan.products.items()},
        "scores": [str(path) for path in plan.scores],
        "papers": {grid.paper: _paper(plan, grid) for grid in plan.grids},
        "tracking": plan.config.tracking.enabled,
        "index": plan.index.key,
        "figures": {name: node.key for name, node in plan.figures.items()},
        "claims": plan.claims and plan.claims.key,
        "report": plan.report.key,
    }
    if not plan.listing.exists() or read_json(plan.listing) != listed:
        write_json(plan.listing, listed)
    table = _variants_table(plan)
    path = plan.root / "variants.tsv"
    if not path.exists() or path.read_text(encoding="utf-8") != table:
        write_text(path, table)


def looks(experiment: Experiment, node: Node) -> dict[str, Any]:
    """Return what a description has besides the node: title, owner, digest of the source files."""
    owner = experiment.owners.get(node.key)
    names = owner and {"paper": owner.paper, "variant": owner.variant, "stage": owner.stage}
    return {"title": title(experiment, node), "owner": names, "files": files_digest(node.code)}


def title(experiment: Experiment, node: Node, seed: int | None = None) -> str:
    """Return a short name of a node, or of one of its seeds, for people."""
    if node.kind == "train":
        ref = experiment.owners[node.key]
        tasks = "+".join(experiment.stages[ref].spec.trained_tasks)
        stage = "" if ref.stage == "main" else f"/{ref.stage}"
        return f"{ref.variant}{stage} . {tasks}" + ("" if seed is None else f" . s{seed}")
    spec = {**node.extra, **node.spec}
    return str(spec.get("task") or spec.get("name") or spec.get("paper") or node.kind)


def _variants_table(plan: Plan) -> str:
    text = io.StringIO()
    writer = csv.writer(text, delimiter="\t", lineterminator="\n")
    writer.writerow(["paper", "variant", "stage", "tasks", "key", "start", "label", "row"])
    for ref, stage in plan.stages.items():
        variant = plan.variant(ref)
        start = plan.train(stage.start).key if stage.start else "backbone"
        tasks = ",".join(stage.spec.trained_tasks)
        names = (ref.paper, ref.variant, ref.stage)
        writer.writerow([*names, tasks, plan.train(ref).key, start, variant.label, variant.row])
    return text.getvalue()


def _paper(plan: Plan, grid: Grid) -> dict[str, Any]:
    """Return what describes a paper's grid in MLflow and at a workflow's end.

    `variants` are {name: {label, tasks: {task: key of the stage that it is scored with}}}, without
    those that are the best of others. `datasets` are {task: key of its example table}.
    """
    made, config = plan.outputs[grid.paper], plan.config
    scored = {variant.name: plan.scored(variant) for variant in grid.variants.values()}
    used = {task for v in grid.variants.values() for s in v.stages for task in s.spec.tasks}
    return {
        "scores": made.scores.key,
        "table": made.table.key,
        "title": grid.title,
        "description": grid.description,
        "rule": grid.overall,
        "file": _below(grid.path, plan.base),
        "seeds": list(config.seeds),
        "source": config.data if config.data == "builtin" else config.course,
        "backbone": config.backbone,
        "revision": config.revision,
        "datasets": {task: plan.sources.data(task).key for task in TASKS if task in used},
        "variants": {
            name: {
                "label": grid.variants[name].label,
                "tasks": {task: plan.train(stage.ref).key for task, stage in of.items()},
            }
            for name, of in scored.items()
            if of
        },
    }


def _below(path: Path, folder: Path) -> str:
    """Return the path as it is under `folder`, or as it is."""
    path, folder = path.absolute(), folder.absolute()
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


class Shown(NamedTuple):
    """A product: where it stands, its title, its caption (reStructuredText), its plain name."""

    category: str
    title: str
    caption: str
    published: str


def describe(plan: Plan, kind: str, key: str) -> Shown:
    """Return what is said of the product of this kind and key."""
    node = plan.node(kind, key)
    spec, folder = node.spec, node.folder(plan.root)
    names = (name for name, path in plan.products.items() if path.parent == folder)
    published = next(names).rpartition(".")[0]
    if kind == "figure":
        draw = spec["draw"]
        paper = ALL if spec["paper"] == "all" else spec["paper"]
        return Shown(paper, draw["title"], escape(draw["caption"] or draw["title"]), published)
    if kind == "table":
        caption = " ".join(part for part in (spec["caption"], CAPTIONS[kind]) if part)
        return Shown(spec["paper"], f"Tables: {spec['title']}", escape(caption), published)
    category = "Report" if kind == "report" else ALL
    return Shown(category, TITLES[kind], escape(CAPTIONS[kind]), published)


def escape(text: str) -> str:
    """Return plain text as reStructuredText that shows just it."""
    return re.sub(r"([^\w\s])", r"\\\1", " ".join(text.split()))
