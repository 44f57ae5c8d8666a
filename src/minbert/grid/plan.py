"""The plan: every node that the configuration asks for, and where its files lie."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from minbert.common.environment import versions
from minbert.common.errors import UserError
from minbert.common.files import read_json, write_json, write_text
from minbert.grid.architecture import BERT_BASE
from minbert.grid.claims import claims_node
from minbert.grid.code import files_digest
from minbert.grid.config import Config, load_config
from minbert.grid.depth import shared_depth
from minbert.grid.figures import all_figures
from minbert.grid.links import Stage, StageRef, Variant
from minbert.grid.node import Need, Node, canonical, description_path, digest, published_path
from minbert.grid.outputs import facts, index_node, paper_outputs
from minbert.grid.papers import paper_facts
from minbert.grid.parameters import Counts, count
from minbert.grid.processes import stage_processes
from minbert.grid.published import Published, read_published
from minbert.grid.report import report_node
from minbert.grid.resolve import Grid, resolve
from minbert.grid.schema import ALL
from minbert.grid.sources import Sources
from minbert.grid.tasks import TASKS

PUBLISHED = Path("workflow/published.csv")


class Plan:
    """All nodes of a configuration. `base` is the folder of the Snakefile."""

    def __init__(self, config: Config, base: Path) -> None:
        self.config = config
        self.base = base
        self.root = Path(config.results)
        self.grids: list[Grid] = resolve(config, base)
        self.sources = Sources(config, self.root)
        self.published: list[Published] = read_published(base / PUBLISHED)
        self.stages: dict[StageRef, Stage] = {
            stage.ref: stage
            for grid in self.grids
            for variant in grid.variants.values()
            for stage in variant.stages
        }
        self._processes = stage_processes(config, self.stages)
        self._train: dict[StageRef, Node] = {}
        self.nodes: dict[tuple[str, str], Node] = {}
        self.owners: dict[str, StageRef] = {}
        """The first stage, in the order of the grids, that each training key belongs to."""
        for ref in self.stages:
            self.owners.setdefault(self.collect(self.train(ref)).key, ref)
        self.outputs = {grid.paper: paper_outputs(self, grid) for grid in self.grids}
        self.index = self.collect(index_node(self))
        self.all_figures = all_figures(self, self.outputs)
        claims = claims_node(self)
        self.claims: Node | None = claims and self.collect(claims)
        self.report = self.collect(report_node(self))

    @classmethod
    def load(cls, config: Mapping[str, Any] | Path, base: Path, where: str = "config") -> Plan:
        """Return the plan of a config file or of an already merged mapping."""
        return cls(load_config(config, where=where), base)

    def train(self, ref: StageRef) -> Node:
        """Return the training node of a stage."""
        if ref not in self._train:
            self._train[ref] = self._make_train(self.stages[ref])
        return self._train[ref]

    def node(self, kind: str, key: str) -> Node:
        """Return the node of this kind and key; one that the plan has not: `UserError`."""
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
            for file in need.node.lasting:
                found[f"{name}:{file}"] = str(path.with_name(file))
        chosen = {path: name for name, path in reversed(found.items())}
        return {name: path for name, path in found.items() if chosen[path] == name}

    def runs(self) -> Iterator[tuple[Node, int]]:
        """Yield every distinct training job: its node and seed."""
        for key in self.owners:
            for seed in self.config.seeds:
                yield self.nodes["train", key], seed

    def variant(self, ref: StageRef) -> Variant:
        """Return the variant that a stage belongs to."""
        return next(g.variants[ref.variant] for g in self.grids if g.paper == ref.paper)

    @cached_property
    def products(self) -> dict[str, Path]:
        """Where each published file comes from: {path under the root: keyed path}."""
        found: dict[str, Path] = {}
        for paper, made in self.outputs.items():
            for ending in ("csv", "md", "tex"):
                source = made.table.folder(self.root) / f"table.{ending}"
                found[f"tables/{paper}.{ending}"] = source
        for name, figure in self.figures.items():
            for ending in ("pdf", "png"):
                found[f"{name}.{ending}"] = figure.folder(self.root) / f"figure.{ending}"
        for node in (self.index, *([self.claims] if self.claims else [])):
            for name in node.outputs:
                found[f"tables/{name}"] = node.folder(self.root) / name
        found["report.html"] = self.report.folder(self.root) / "report.html"
        return found

    @property
    def figures(self) -> dict[str, Node]:
        """The node of each figure by the name that it is published under, without its ending."""
        folders = {paper: made.figures for paper, made in self.outputs.items()}
        return {
            f"figures/{folder}/{name}": node
            for folder, figures in {**folders, ALL: self.all_figures}.items()
            for name, node in figures.items()
        }

    @cached_property
    def scores(self) -> list[Path]:
        """The keyed score tables, one a paper."""
        return [made.scores.folder(self.root) / "scores.parquet" for made in self.outputs.values()]

    @cached_property
    def stamp(self) -> str:
        """A hash of all that is published: a change of any product changes it."""
        products = {name: str(path) for name, path in self.products.items()}
        return digest([products, [str(path) for path in self.scores]])

    @property
    def listing(self) -> Path:
        """The file that lists what is published under the stamp."""
        return published_path(self.root, self.stamp)

    @property
    def mark(self) -> Path:
        """The file that is there only while the plain names hold this plan's products."""
        return self.listing.with_suffix(".done")

    def write(self) -> None:
        """Write the description of every node, and `variants.tsv`, where they differ.

        A device or label can change while the key stays: the next job reads the newest.
        """
        for (kind, key), node in self.nodes.items():
            path = description_path(self.root, kind, key)
            described = json.loads(canonical(node.describe() | self.looks(node)))
            if not path.exists() or read_json(path) != described:
                write_json(path, described)
        listed = {
            "products": {name: str(path) for name, path in self.products.items()},
            "scores": [str(path) for path in self.scores],
            "papers": {grid.paper: paper_facts(self, grid) for grid in self.grids},
            "tracking": self.config.tracking.enabled,
            "index": self.index.key,
            "figures": {name: node.key for name, node in self.figures.items()},
            "claims": self.claims and self.claims.key,
            "report": self.report.key,
        }
        if not self.listing.exists() or read_json(self.listing) != listed:
            write_json(self.listing, listed)
        table = self._variants_table()
        path = self.root / "variants.tsv"
        if not path.exists() or path.read_text(encoding="utf-8") != table:
            write_text(path, table)

    def looks(self, node: Node) -> dict[str, Any]:
        """Return what a description has besides the node: title, owner, processes, files."""
        owner = self.owners.get(node.key)
        names = owner and {"paper": owner.paper, "variant": owner.variant, "stage": owner.stage}
        looks = {"title": self.title(node), "owner": names, "files": files_digest(node.code)}
        return looks | ({"processes": self.processes(node.key)} if owner else {})

    def processes(self, key: str) -> int:
        """Return how many processes share a training job: the most of the stages that it is."""
        found = (number for ref, number in self._processes.items() if self.train(ref).key == key)
        return max(found, default=1)

    def title(self, node: Node) -> str:
        """Return a short name of a node for people."""
        if node.kind == "train":
            ref = self.owners[node.key]
            tasks = "+".join(self.stages[ref].spec.trained_tasks)
            stage = "" if ref.stage == "main" else f"/{ref.stage}"
            return f"{ref.variant}{stage} . {tasks}"
        spec = {**node.extra, **node.spec}
        return str(spec.get("task") or spec.get("name") or spec.get("paper") or node.kind)

    def parameters(self, variant: Variant, base_shapes: bool = False) -> int | None:
        """Return the parameters of the models a variant is scored with, counted from shapes.

        `base_shapes` counts at BERT-base, whatever the backbone. None: shapes not known yet, a
        head whose parameters cannot be counted, or a variant that is the best of others.
        """
        stages = {id(stage): stage for stage in self.scored(variant).values()}
        counted = [self.counts(stage, base_shapes) for stage in stages.values()]
        found = [counts and counts["total"] for counts in counted]
        known = [number for number in found if number is not None]
        return sum(known) if known and len(known) == len(found) else None

    def counts(self, stage: Stage, base_shapes: bool = False) -> Counts | None:
        """Return the parameters of a stage's model by part; None: shapes not known yet."""
        shapes = BERT_BASE if base_shapes else self.sources.architecture
        if shapes is None:
            return None
        adapters = [self.stages[ref].spec.adapter for ref in stage.fused]
        widths = tuple(adapter.width for adapter in adapters if adapter)
        return count(stage.spec, shapes, fused_widths=widths)

    def scored(self, variant: Variant) -> dict[str, Stage]:
        """Return, for each task of a variant, the last of its stages that has the task."""
        found = {task: variant.stage_for(task) for task in TASKS}
        return {task: stage for task, stage in found.items() if stage is not None}

    def collect(self, node: Node) -> Node:
        """Take in a node and all that it needs; return the one that has its key."""
        for need in node.needs.values():
            if (need.node.kind, need.node.key) not in self.nodes:
                self.collect(need.node)
        return self.nodes.setdefault((node.kind, node.key), node)

    def _make_train(self, stage: Stage) -> Node:
        spec = stage.spec
        backbone = self.sources.backbone
        needs = {
            f"tokens.{task}": Need(self.sources.tokens(task), "tokens.parquet")
            for task in spec.ordered_tasks
        }
        for name in ("config.json", "tokenizer.json", "model.safetensors"):
            needs[f"backbone.{name}"] = Need(backbone, name)
        if spec.trainable == "heads":
            if stage.start is not None:
                raise UserError(
                    f"{stage.ref}: 'trainable: heads' starts from the backbone, whose features "
                    f"are cached; found start: {stage.start}"
                )
            for task in spec.ordered_tasks:
                features = self.sources.features(task, spec)
                needs[f"features.{task}"] = Need(features, "features.safetensors")
        if stage.start is not None:
            needs["start"] = Need(self.train(stage.start), "model.safetensors")
        for number, ref in enumerate(stage.fused):
            needs[f"adapter.{number}"] = Need(self.train(ref), "model.safetensors")
        resolved = spec.model_dump(mode="json")
        # Which stages these are is in the needs' keys; what they are called is not.
        resolved["start"] = "backbone" if stage.start is None else "stage"
        if stage.fused:
            resolved["fuse"] = [f"adapter.{number}" for number in range(len(stage.fused))]
        if self.sources.architecture is not None:
            # However it was said (all, 12, 1.0), the same depth is the same stage.
            layers = self.sources.architecture.layers
            depth = shared_depth(spec.shared_layers, layers)
            resolved["shared_layers"] = {None: "none", layers: "all"}.get(depth, depth)
        compute = {
            "device": self.config.device,
            "precision": self.config.precision,
            "cuda_graphs": self.config.cuda_graphs,
            "checkpoint_seconds": self.config.checkpoint_seconds,
        }
        roots = ("minbert.train.run", *spec.parts().values())
        asked: dict[str, Any] = {"stage": resolved, "tasks": facts(spec.tasks)}
        if self.config.dependencies:
            asked["dependencies"] = versions(self.config.dependencies)
        return Node("train", asked, roots, needs, compute)

    def _variants_table(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, delimiter="\t", lineterminator="\n")
        writer.writerow(["paper", "variant", "stage", "tasks", "key", "start", "label", "row"])
        for ref, stage in self.stages.items():
            variant = self.variant(ref)
            start = self.train(stage.start).key if stage.start else "backbone"
            tasks = ",".join(stage.spec.trained_tasks)
            ref_words = (ref.paper, ref.variant, ref.stage)
            writer.writerow(
                [*ref_words, tasks, self.train(ref).key, start, variant.label, variant.row]
            )
        return text.getvalue()
