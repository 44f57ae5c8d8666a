"""The plan: every node that a configuration asks for, and where its files are."""

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError
from minbert.plan.sources import Sources
from minbert.spec.architecture import WEIGHTS, architecture_parts, shared_parts
from minbert.spec.config import Config
from minbert.spec.published import Published
from minbert.spec.resolve import Grid, Stage, StageRef, Variant
from minbert.spec.stage import StageSpec
from minbert.spec.task import BUILT_IN, OWN_FILES, TASKS, task_facts
from minbert.spec.yaml import inside
from minbert.store.code import SHOWN_NOT_HASHED, code_modules
from minbert.store.node import Need, Node, digest
from minbert.store.plans import (
    ONLY,
    PUBLISHED,
    SCORES,
    VARIANTS,
    description_path,
    manifest,
    plan_path,
    products,
    records,
)


@dataclass(frozen=True, eq=False)
class Plan:
    """A configuration with the grids that it names, and the nodes of all that is made of them.

    `base` is the folder of the Snakefile. `grids` have the selected variants; `every` is
    each stage of the whole grids, as a stage may start from one of a variant that is not. The
    configuration was chosen by `files`, besides config.yaml, and by `words` (`KEY=VALUE`) of the
    command line. `shown` are the nodes of what people look at (`plan.outputs`), by the name they
    are published under, if they are; `checksums`, of the files that these are made from.
    """

    config: Config
    base: Path
    grids: Sequence[Grid]
    every: Mapping[StageRef, Stage]
    published: Sequence[Published]
    sources: Sources
    files: Sequence[Path]
    words: Sequence[str]
    shown: dict[str, Node] = field(default_factory=dict)
    checksums: dict[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        """The results root."""
        return Path(self.config.results)

    @cached_property
    def variants(self) -> dict[tuple[str, str], Variant]:
        """Every variant by paper and name."""
        return {(g.paper, name): v for g in self.grids for name, v in g.variants.items()}

    @cached_property
    def stages(self) -> dict[StageRef, Stage]:
        """Every stage of every selected variant, in the order of the grids."""
        return {stage.ref: stage for v in self.variants.values() for stage in v.stages}

    def made_from(self, tasks: Iterable[str]) -> dict[str, Any]:
        """Return what tables and pages say of the encoder, the data and the tasks."""
        tasks = list(tasks)
        data = self.config.data if any(task in BUILT_IN for task in tasks) else OWN_FILES
        # All else that is said of a task is in the keys of its runs.
        shown = [[t.name, t.title, *t.names] for t in TASKS.values() if t.name in tasks]
        return {"backbone": self.sources.encoder, "data": data, "shown": shown}

    def selection_split(self, paper: str = "") -> str:
        """Return that of the stages of `paper` (default: all); `both` if they differ."""
        stages = (stage for ref, stage in self.stages.items() if paper in ("", ref.paper))
        said = {stage.spec.selection_split for stage in stages}
        return said.pop() if len(said) == 1 else "both"

    @cached_property
    def owners(self) -> dict[str, StageRef]:
        """The first stage of each training key, in the grids' order, then those that these need."""
        found: dict[str, StageRef] = {}
        waiting = list(self.stages)
        for ref in waiting:
            if self.train(ref).key not in found:
                found[self.train(ref).key] = ref
                waiting += self.every[ref].after
        return found

    def check_distinct(self) -> None:
        """Refuse a configuration that takes away what makes two stages of a grid different."""
        first: dict[tuple[str, str], Stage] = {}
        for stage in self.stages.values():
            other = first.setdefault((stage.ref.paper, self.train(stage.ref).key), stage)
            if self.resolved(stage, stage.plain) != self.resolved(other, other.plain):
                raise UserError(
                    f"{stage.ref.paper}: '{other.ref}' and '{stage.ref}' differ in their grid and "
                    "become the same stage. Change what makes them equal, 'scale', 'defaults' or "
                    "'override' of the configuration, or leave one out with 'only'"
                )

    @cache  # noqa: B019 - a process has few of these
    def train(self, ref: StageRef) -> Node:
        """Return the training job of a stage, which is made once."""
        stage, sources = self.every[ref], self.sources
        spec = stage.spec
        if arch := sources.architecture:
            with inside(f"{ref.paper}: {ref}"):
                shared_parts(spec.shared_layers, spec.shared_end, arch.layers)
                crossed = [task for task, how in spec.tasks.items() if how.pairing == "cross"]
                if crossed and arch.two_types and arch.types < 2:
                    raise UserError(
                        f"task '{crossed[0]}' has 'pairing: cross', and the backbone's "
                        "type_vocab_size is 1; choose 'pairing: siamese', or a different backbone"
                    )
        needs = {f"tokens.{t}": Need(sources.tokens(t), "tokens.parquet") for t in spec.tasks}
        for name in ("config.json", "tokenizer.json", WEIGHTS):
            needs[f"backbone.{name}"] = Need(sources.backbone, name)
        if spec.trainable == "heads":
            for task in spec.tasks:
                made = sources.features(task, spec)
                needs[f"features.{task}"] = Need(made, "features.safetensors")
        if stage.start is not None:
            needs["start"] = Need(self.train(stage.start), WEIGHTS)
        for number, fused in enumerate(stage.fused):
            needs[f"adapter.{number}"] = Need(self.train(fused), WEIGHTS)
        asked = {
            "stage": self.resolved(stage, spec),
            "tasks": {task: task_facts(task) for task in spec.tasks},
            "derived": spec.derived(),
        }
        compute = self.config.model_dump(include={"device", "precision", "checkpoint_seconds"})
        modules = (place.partition(":")[0] for place in spec.parts().values())
        parts = (*modules, *architecture_parts(arch))
        return Node("train", asked, "minbert.train.run", parts, needs, compute)

    def resolved(self, stage: Stage, spec: StageSpec) -> dict[str, Any]:
        """Return a spec of `stage`, the same however the same stage was written."""
        resolved = spec.model_dump(mode="json")
        # Which stages these are is in the keys of the needs; what they are called is not.
        resolved["start"] = "backbone" if stage.start is None else "stage"
        if stage.fused:
            resolved["fuse"] = [f"adapter.{number}" for number in range(len(stage.fused))]
        if self.sources.architecture is not None:
            layers = self.sources.architecture.layers
            with suppress(UserError):  # A grid may share more layers than this backbone has.
                once = shared_parts(spec.shared_layers, "bottom", layers)
                resolved["shared_layers"] = len(once.layers) if once.embeddings else "none"
                if once.pooler:  # all, 12 and 1.0 are the same
                    resolved |= {"shared_layers": "all", "shared_end": "bottom"}
        return resolved

    @property
    def options(self) -> str:
        """The options of `snakemake` and `minbert` that choose the configuration."""
        more = ["--configfile", *map(str, self.files)] if self.files else []
        return shlex.join([*more, *(["--config", *self.words] if self.words else [])])

    @cached_property
    def nodes(self) -> dict[tuple[str, str], Node]:
        """Every node by kind and key, what it needs before it."""
        found: dict[tuple[str, str], Node] = {}

        def collect(nodes: Iterable[Node]) -> None:
            for node in nodes:
                if (node.kind, node.key) not in found:
                    collect(need.node for need in node.needs.values())
                    found[node.kind, node.key] = node

        collect(self.shown.values())
        return found

    def runs(self) -> Iterator[tuple[Node, int]]:
        """Yield every distinct training job: its node and seed."""
        for key in self.owners:
            for seed in self.config.seeds:
                yield self.nodes["train", key], seed

    @property
    def names(self) -> Path:
        """The folder of the readable names."""
        return self.root / self.publication["below"]

    @property
    def configured(self) -> list[str]:
        """The names of the config files. Edits of these are the same configuration."""
        return [file.name for file in self.files] or ["config.yaml"]

    def check_newest(self) -> None:
        """Refuse a results folder whose newest plan is of a configuration of other files.

        So is one that has no plan yet: it has come from elsewhere, and nobody knows its own.
        """
        newest = next((record["configured"] for _, record in records(self.root)), ["no workflow"])
        if newest != self.configured:
            raise UserError(
                f"{self.root} was last planned by {', '.join(newest)}, and this is the "
                f"configuration of {', '.join(self.configured)}: give the other --configfile, or "
                "first start a workflow with this one"
            )

    def check_names(self) -> None:
        """Refuse a results folder whose readable names are of a configuration of other files."""
        other = manifest(self.names).get("configured", self.configured)
        if other != self.configured:
            raise UserError(
                f"{self.names} has the results of {', '.join(other)}, and this is the "
                f"configuration of {', '.join(self.configured)}: give the other --configfile, "
                f"choose different `results`, or delete {self.names / PUBLISHED}"
            )

    @cached_property
    def products(self) -> dict[str, Path]:
        """Where each published file comes from: {path under `names`: keyed path}."""
        return products(self.root, self.publication)

    @cached_property
    def publication(self) -> dict[str, Any]:
        """All that is published under readable names, or said of it, as JSON-able data.

        `shown` is each node that people look at: the name that it is published under, kind and key,
        after those that it is made from. `variants` are the rows of `variants.tsv`: every stage of
        every variant.
        """
        variants = []
        for ref, stage in self.stages.items():
            variant = self.variants[ref.paper, ref.variant]
            start = self.train(stage.start).key if stage.start else "backbone"
            tasks = ",".join(stage.spec.trained_tasks)
            shown = (self.train(ref).key, start, variant.label, variant.row)
            variants.append([ref.paper, ref.variant, ref.stage, tasks, *shown])
        return {
            "shown": [[name, node.kind, node.key] for name, node in self.shown.items()],
            "papers": {grid.paper: self._paper(grid) for grid in self.grids},
            "variants": variants,
            "below": ONLY if self.config.only else "",
        }

    def _paper(self, grid: Grid) -> dict[str, Any]:
        """Return what describes a paper's grid in MLflow and at a workflow's end."""
        config, source = self.config, self.made_from(grid.tasks)["data"]
        used = {task for variant in grid.variants.values() for task in variant.scored}
        return {
            **grid.model_dump(include={"title", "description", "overall_tasks"}),
            "scores": self.shown[f"scores/{grid.paper}"].key,
            "rule": grid.overall,
            "file": os.path.relpath(grid.path, self.base),
            "seeds": config.seeds,
            "source": config.course if source == "real" else source,
            "encoder": self.sources.encoder,
            "datasets": {task: self.sources.data(task).key for task in used},
            "labels": {variant.name: variant.label for variant in grid.rows.values()},
        }

    @cached_property
    def stamp(self) -> str:
        """A hash of all that is published, and of the publisher."""
        publisher = code_modules(("minbert.publish.publish",), SHOWN_NOT_HASHED)
        return digest([self.publication, publisher])

    @cached_property
    def mark(self) -> Path:
        """The file that publishing leaves last.

        Its name has a number, a new one unless the readable names hold this plan's products
        and what is said of them is there, so that a workflow starts and makes both whole.
        """
        said = manifest(self.names)
        paths = [self.names / name for name in (*self.products, SCORES, VARIANTS)]
        paths += [description_path(self.root, kind, key) for kind, key in self.nodes]
        paths.append(plan_path(self.root, said.get("plan", "")))
        whole = said.get("stamp") == self.stamp
        whole &= all(path.is_file() and path.stat().st_size > 0 for path in paths)
        folder = self.root / "store" / "published"
        made = len([*folder.glob(f"{self.stamp}-*.done")])
        return folder / f"{self.stamp}-{max(made - whole, 0)}.done"
