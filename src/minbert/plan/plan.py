"""The plan: every node that a configuration asks for, and where its files are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError
from minbert.plan.experiment import Experiment
from minbert.plan.figures import all_figures
from minbert.plan.outputs import Outputs, claims_node, index_node, paper_outputs, report_node
from minbert.plan.vanished import check_vanished
from minbert.spec.config import Config, load_config
from minbert.spec.grid import ALL
from minbert.spec.resolve import Grid
from minbert.spec.task import TASKS
from minbert.store.code import SHOWN_OUTSIDE, code_modules
from minbert.store.node import Node, digest, lasting
from minbert.store.plans import description_path, held, plan_path

PUBLISHER = "minbert.publish.publish"
JOINED = ("tables/scores.parquet", "variants.tsv")
"""What is published of all papers together, besides products."""


@dataclass(frozen=True)
class Plan(Experiment):
    """An experiment with the nodes of all that is made of it.

    `outputs` are those of each paper, `all_figures` the figures over all papers by name. `options`
    are those of the command line that chose the configuration, for commands that messages suggest.
    """

    outputs: Mapping[str, Outputs]
    index: Node
    all_figures: Mapping[str, Node]
    claims: Node | None
    report: Node
    options: str = ""

    @classmethod
    def load(cls, config: Mapping[str, Any] | Path, base: Path) -> Plan:
        """Return the plan of a config file or of a merged mapping."""
        return cls.of(load_config(config), base)

    @classmethod
    def of(cls, config: Config, base: Path, options: str = "") -> Plan:
        """Return the plan of a configuration."""
        read = Experiment.read(config, base)
        check_vanished(read)
        outputs = {grid.paper: paper_outputs(read, grid) for grid in read.grids}
        index = index_node(read, outputs)
        drawn = all_figures(read, {paper: made.scores for paper, made in outputs.items()})
        claims = claims_node(read, outputs)
        figures = figure_names(outputs, drawn)
        report = report_node(read, outputs, index, claims, figures)
        whole = {field.name: getattr(read, field.name) for field in fields(read)}
        return cls(**whole, outputs=outputs, index=index, all_figures=drawn, claims=claims,
                   report=report, options=options)  # fmt: skip

    @cached_property
    def nodes(self) -> dict[tuple[str, str], Node]:
        """Every node by kind and key, what it needs before it."""
        found: dict[tuple[str, str], Node] = {}
        _collect((self.train(ref) for ref in self.stages), found)
        _collect(self.shown, found)
        return found

    @property
    def shown(self) -> Iterator[Node]:
        """The nodes of what people look at."""
        for made in self.outputs.values():
            yield from (made.scores, made.table, *made.figures.values())
        yield self.index
        yield from self.all_figures.values()
        if self.claims:
            yield self.claims
        yield self.report

    def node(self, kind: str, key: str) -> Node:
        """Return the node of this kind and key; one that the plan does not have: `UserError`."""
        try:
            return self.nodes[kind, key]
        except KeyError:
            raise UserError(
                f"the configuration asks for no {kind} with key {key}; `minbert plan` lists "
                "what it asks for"
            ) from None

    def inputs(self, kind: str, key: str, seed: int | None = None) -> dict[str, str]:
        """Return {name: path} of the files that a node is made from, and of those beside them.

        A job that was killed may have left some of its files. So whoever needs one of them asks
        Snakemake for all that last, under further names (NAME:FILE).
        """
        found = {}
        for name, need in self.node(kind, key).needs.items():
            path = need.path(self.root, seed)
            found[name] = str(path)
            for file in lasting(need.node.kind, need.node.spec):
                found[f"{name}:{file}"] = str(path.with_name(file))
        chosen = {path: name for name, path in reversed(found.items())}
        return {name: path for name, path in found.items() if chosen[path] == name}

    def runs(self) -> Iterator[tuple[Node, int]]:
        """Yield every distinct training job: its node and seed."""
        for key in self.owners:
            for seed in self.config.seeds:
                yield self.nodes["train", key], seed

    @property
    def figures(self) -> dict[str, Node]:
        """The node of each figure by the name that it is published under, without its ending."""
        return figure_names(self.outputs, self.all_figures)

    @cached_property
    def products(self) -> dict[str, Path]:
        """Where each published file comes from: {path under the root: keyed path}."""
        found: dict[str, Path] = {}

        def publish(node: Node, stem: str | None = None) -> None:
            for file in node.outputs:
                name = f"{stem}{Path(file).suffix}" if stem else f"tables/{file}"
                found[name] = node.folder(self.root) / file

        for paper, made in self.outputs.items():
            publish(made.table, f"tables/{paper}")
        for name, figure in self.figures.items():
            publish(figure, name)
        publish(self.index)
        if self.claims:
            publish(self.claims)
        publish(self.report, "report")
        return found

    @cached_property
    def publication(self) -> dict[str, Any]:
        """All that is published under plain names, or said of it, as JSON-able data."""
        papers = {grid.paper: self._paper(grid) for grid in self.grids}
        return {
            "products": {name: str(path) for name, path in self.products.items()},
            "papers": papers,
            "variants": self._variants(),
            "index": self.index.key,
            "figures": {name: node.key for name, node in self.figures.items()},
            "claims": self.claims and self.claims.key,
            "report": self.report.key,
        }

    @cached_property
    def scores(self) -> list[Path]:
        """The keyed score tables, one per paper."""
        return [made.scores.folder(self.root) / "scores.parquet" for made in self.outputs.values()]

    @property
    def copied(self) -> list[Path]:
        """The keyed files that are published; those that are left, if the mark is there.

        Otherwise Snakemake would publish again once something else needs a file that is missing.
        """
        files = [*self.products.values(), *self.scores]
        return [path for path in files if path.exists()] if self.mark.exists() else files

    @property
    def asked(self) -> list[Path]:
        """Every file that `all` asks for: the mark, and what lasts of trainings and products."""
        folders = [(node, node.folder(self.root, seed)) for node, seed in self.runs()]
        folders += [(node, node.folder(self.root)) for node in self.shown]
        files = [at / name for node, at in folders for name in lasting(node.kind, node.spec)]
        return [self.mark, *files]

    def _variants(self) -> list[list[str]]:
        """Return the rows of `variants.tsv`: every stage of every variant."""
        rows = []
        for ref, stage in self.stages.items():
            variant = self.variant(ref)
            start = self.train(stage.start).key if stage.start else "backbone"
            tasks = ",".join(stage.spec.trained_tasks)
            shown = (self.train(ref).key, start, variant.label, variant.row or "")
            rows.append([ref.paper, ref.variant, ref.stage, tasks, *shown])
        return rows

    def _paper(self, grid: Grid) -> dict[str, Any]:
        """Return what describes a paper's grid in MLflow and at a workflow's end.

        `variants` are {name: {label, tasks: {task: key of the stage that it is scored with}}},
        without those that are the best of others. `datasets` are {task: key of its example table}.
        """
        made, config = self.outputs[grid.paper], self.config
        scored = {name: variant.scored for name, variant in grid.variants.items()}
        used = {task for v in grid.variants.values() for s in v.stages for task in s.spec.tasks}
        return {
            "scores": made.scores.key,
            "table": made.table.key,
            "title": grid.title,
            "description": grid.description,
            "rule": grid.overall,
            "file": _below(grid.path, self.base),
            "seeds": list(config.seeds),
            "source": config.data if config.data == "builtin" else config.course,
            "backbone": config.backbone,
            "revision": config.revision,
            "datasets": {task: self.sources.data(task).key for task in TASKS if task in used},
            "variants": {
                name: {
                    "label": grid.variants[name].label,
                    "tasks": {task: self.train(stage.ref).key for task, stage in of.items()},
                }
                for name, of in scored.items()
                if of
            },
        }

    @cached_property
    def stamp(self) -> str:
        """A hash of all that is published, but where its data came from, and of the publisher."""
        code = code_modules([PUBLISHER], SHOWN_OUTSIDE)
        facts = self.publication["papers"].items()
        papers = {paper: {**of, "source": ""} for paper, of in facts}
        return digest([self.publication | {"papers": papers}, code])

    @cached_property
    def mark(self) -> Path:
        """The file that publishing leaves last.

        Its name has a number, which is a new one unless the plain names hold this plan's products
        and what is said of them is there, so that a workflow starts and makes both whole.
        """
        folder = self.root / "store" / "published"
        ends = [path.stem.partition("-")[2] for path in folder.glob(f"{self.stamp}-*.done")]
        numbers = [int(end) for end in ends if end.isdecimal()]
        names = [self.root / name for name in (*self.products, *JOINED)]
        names += [description_path(self.root, kind, key) for kind, key in self.nodes]
        said = held(self.root)
        names += [plan_path(self.root, plan) for plan in said.get("plans", {}).values()]
        stamps = said.get("stamps", {})
        own = all(stamps.get(grid.paper) == self.stamp for grid in self.grids)
        whole = own and all(map(_filled, names))
        return folder / f"{self.stamp}-{max(numbers, default=-1) + (not numbers or not whole)}.done"


def figure_names(outputs: Mapping[str, Outputs], over_all: Mapping[str, Node]) -> dict[str, Node]:
    """Return the nodes of all figures by the names that they are published under."""
    folders = {paper: made.figures for paper, made in outputs.items()} | {ALL: over_all}
    return {
        f"figures/{folder}/{name}": node
        for folder, figures in folders.items()
        for name, node in figures.items()
    }


def _collect(nodes: Iterable[Node], found: dict[tuple[str, str], Node]) -> None:
    """Add nodes to `found`, after all that they need."""
    for node in nodes:
        if (node.kind, node.key) not in found:
            _collect((need.node for need in node.needs.values()), found)
            found[node.kind, node.key] = node


def _filled(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size > 0
    except OSError:
        return False


def _below(path: Path, folder: Path) -> str:
    """Return the path as it is under `folder`, or as it is."""
    path, folder = path.absolute(), folder.absolute()
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)
