"""The plan: every node that a configuration asks for, and where its files are."""

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from minbert.base.errors import UserError
from minbert.plan.experiment import Experiment
from minbert.plan.outputs import shown_nodes
from minbert.plan.sources import Sources
from minbert.spec.config import load_config
from minbert.spec.published import read_published
from minbert.spec.resolve import Grid, StageRef, part_of, resolve
from minbert.store.code import SHOWN_NOT_HASHED, code_modules
from minbert.store.node import Node, digest
from minbert.store.plans import (
    ONLY,
    PUBLISHED,
    SCORES,
    VARIANTS,
    description_path,
    held,
    plan_path,
    products,
)

PUBLISHER = "minbert.publish.publish"


@dataclass(frozen=True, eq=False)
class Plan(Experiment):
    """An experiment with the nodes of all that is made of it.

    The configuration was chosen by `files`, besides config.yaml, and by `words` (`KEY=VALUE`) of
    the command line.
    """

    files: Sequence[Path] = ()
    words: Sequence[str] = ()

    @classmethod
    def load(
        cls, config: Mapping[str, Any] | Sequence[Path], base: Path, words: Sequence[str] = ()
    ) -> Self:
        """Return the plan of config files, or of a merged mapping, and of `words`."""
        default = Path("config.yaml"), base / "config.yaml"
        files = [] if isinstance(config, Mapping) else [of for of in config if of not in default]
        read = load_config(config, words)
        whole = resolve(read, base)
        every = {s.ref: s for grid in whole for v in grid.variants.values() for s in v.stages}
        published = read_published(base / read.published)
        sources = Sources(read, base)
        grids = part_of(whole, read.only)
        plan = cls(read, base, grids, every, published, sources, files, words)
        plan.check_distinct()
        plan.shown  # noqa: B018 - so that what its nodes refuse is refused now
        return plan

    @property
    def options(self) -> str:
        """The options of `snakemake` and `minbert` that choose the configuration."""
        more = ["--configfile", *map(str, self.files)] if self.files else []
        return shlex.join([*more, *(["--config", *self.words] if self.words else [])])

    @cached_property
    def shown(self) -> dict[str, Node]:
        """The nodes of what people look at, by the name they are published under, if they are."""
        return shown_nodes(self)

    @cached_property
    def nodes(self) -> dict[tuple[str, str], Node]:
        """Every node by kind and key, what it needs before it."""
        found: dict[tuple[str, str], Node] = {}

        def collect(nodes: Iterable[Node]) -> None:
            for node in nodes:
                if (node.kind, node.key) not in found:
                    collect(need.node for need in node.needs.values())
                    found[node.kind, node.key] = node

        collect([*map(self.train, self.stages), *self.shown.values()])
        return found

    def training(self, ref: StageRef) -> Node:
        """Return the training of a stage: one node for all stages of its key."""
        return self.nodes["train", self.train(ref).key]

    def runs(self) -> Iterator[tuple[Node, int]]:
        """Yield every distinct training job: its node and seed."""
        for key in self.owners:
            for seed in self.config.seeds:
                yield self.nodes["train", key], seed

    @property
    def names(self) -> Path:
        """The folder of the plain names."""
        return self.root / self.publication["below"]

    @property
    def configured(self) -> list[str]:
        """The names of the config files. Edits of these are the same configuration."""
        return [file.name for file in self.files] or ["config.yaml"]

    def check_names(self) -> None:
        """Refuse to publish over the plain names of a configuration of other files."""
        other = held(self.names).get("configured", self.configured)
        if other != self.configured:
            raise UserError(
                f"{self.names} has the tables and figures as {', '.join(other)} made them, and "
                f"{', '.join(self.configured)} would replace these: give it other `results`, or "
                f"delete {self.names / PUBLISHED}"
            )

    @cached_property
    def products(self) -> dict[str, Path]:
        """Where each published file comes from: {path under `names`: keyed path}."""
        return products(self.root, self.publication)

    @cached_property
    def publication(self) -> dict[str, Any]:
        """All that is published under plain names, or said of it, as JSON-able data.

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

    @property
    def copied(self) -> list[Path]:
        """The keyed files that are published."""
        made = ((node.folder(self.root), node.outputs) for node in self.shown.values())
        return [folder / name for folder, names in made for name in names]

    def _paper(self, grid: Grid) -> dict[str, Any]:
        """Return what describes a paper's grid in MLflow and at a workflow's end."""
        config, rows = self.config, grid.rows.values()
        source = self.made_from(grid.tasks)["data"]
        used = {task for variant in grid.variants.values() for task in variant.scored}
        return {
            "scores": self.shown[f"scores/{grid.paper}"].key,
            "title": grid.title,
            "description": grid.description,
            "rule": grid.overall,
            "overall_tasks": grid.overall_tasks,
            "file": os.path.relpath(grid.path, self.base),
            "seeds": list(config.seeds),
            "source": config.course if source == "real" else source,
            "backbone": config.backbone,
            "encoder": self.sources.encoder,
            "datasets": {task: self.sources.data(task).key for task in used},
            # Of the variants that can be its best: no best of others, unless it is tuned.
            "labels": {v.name: v.label for v in rows if v.tried or not v.best_of},
        }

    @cached_property
    def stamp(self) -> str:
        """A hash of all that is published, and of the publisher."""
        return digest([self.publication, code_modules((PUBLISHER,), SHOWN_NOT_HASHED)])

    @cached_property
    def mark(self) -> Path:
        """The file that publishing leaves last.

        Its name has a number, which is a new one unless the plain names hold this plan's products
        and what is said of them is there, so that a workflow starts and makes both whole.
        """
        folder, said = self.root / "store" / "published", held(self.names)
        paths = [self.names / name for name in (*self.products, SCORES, VARIANTS)]
        paths += [description_path(self.root, kind, key) for kind, key in self.nodes]
        paths.append(plan_path(self.root, said.get("plan", "")))
        whole = said.get("stamp") == self.stamp
        whole &= all(path.is_file() and path.stat().st_size > 0 for path in paths)
        numbers = [int(path.stem.partition("-")[2]) for path in folder.glob(f"{self.stamp}-*.done")]
        number = max(numbers, default=-1) + (not numbers or not whole)
        return folder / f"{self.stamp}-{number}.done"
