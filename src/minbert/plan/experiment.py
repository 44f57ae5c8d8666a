"""What a configuration asks for: its grids, every stage's training job, and the model's size."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError
from minbert.plan.parameters import Counts, count
from minbert.plan.sources import Sources
from minbert.spec.architecture import (
    BERT_BASE,
    WEIGHTS,
    architecture_parts,
    shared_depth,
    shared_parts,
)
from minbert.spec.config import Config
from minbert.spec.published import Published
from minbert.spec.resolve import Grid, Stage, StageRef, Variant
from minbert.spec.stage import StageSpec
from minbert.spec.task import OWN_FILES, TASKS, task_facts
from minbert.spec.yaml import inside
from minbert.store.node import Need, Node


@dataclass(frozen=True, eq=False)
class Experiment:
    """A configuration with the grids that it names. `base` is the folder of the Snakefile.

    `grids` have the variants that are asked for; `every` is each stage of the whole grids, as a
    stage may start from one of a variant that is not.
    """

    config: Config
    base: Path
    grids: Sequence[Grid]
    every: Mapping[StageRef, Stage]
    published: Sequence[Published]
    sources: Sources

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
        """Every stage of every variant that is asked for, in the order of the grids."""
        return {stage.ref: stage for v in self.variants.values() for stage in v.stages}

    def made_from(self, tasks: Iterable[str]) -> dict[str, Any]:
        """Return what tables and pages say of the encoder, the data and the tasks."""
        tasks = list(tasks)
        data = self.config.data if any(task in TASKS.built_in for task in tasks) else OWN_FILES
        # All else that is said of a task is in the keys of its runs.
        shown = [[t.name, t.title, *t.names] for t in TASKS.values() if t.name in tasks]
        return {"backbone": self.sources.encoder, "data": data, "shown": shown}

    def selection_split(self, *grids: Grid) -> str:
        """Return that of the stages of `grids` (default: all); `both` if they differ."""
        variants = (variant for grid in grids or self.grids for variant in grid.variants.values())
        said = {stage.spec.selection_split for variant in variants for stage in variant.stages}
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
                    "'override' of the configuration, or leave one out by 'only'"
                )

    @cache  # noqa: B019 - a process has few of these
    def train(self, ref: StageRef) -> Node:
        """Return the training job of a stage, which is made once."""
        stage, sources = self.every[ref], self.sources
        spec = stage.spec
        where = f"{ref.paper}: {ref}"
        if arch := sources.architecture:
            with inside(where):
                shared_parts(spec.shared_layers, spec.shared_end, arch.layers)
            crossed = [task for task, how in spec.tasks.items() if how.pairing == "cross"]
            if crossed and arch.two_types and arch.types < 2:
                raise UserError(
                    f"{where}: task '{crossed[0]}' has 'pairing: cross', and the backbone's "
                    "type_vocab_size is 1; choose 'pairing: siamese', or another backbone"
                )
        needs = {f"tokens.{t}": Need(sources.tokens(t), "tokens.parquet") for t in spec.tasks}
        for name in ("config.json", "tokenizer.json", WEIGHTS):
            needs[f"backbone.{name}"] = Need(sources.backbone, name)
        if spec.trainable == "heads":
            if stage.start is not None:
                raise UserError(
                    f"{where}: 'trainable: heads' starts from the backbone, whose features "
                    f"are cached; found start: {stage.start}"
                )
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
                depth = shared_depth(spec.shared_layers, layers)  # all, 12 and 1.0 are the same
                resolved["shared_layers"] = {None: "none", layers: "all"}.get(depth, depth)
                if depth == layers:
                    resolved["shared_end"] = "bottom"
        return resolved

    def counts(self, stage: Stage, base_shapes: bool = False) -> Counts | None:
        """Return the parameters of a stage's model by part; None: shapes or a head are not known.

        `base_shapes` counts at BERT-base, whatever the backbone; None: it has too few layers.
        """
        if shapes := BERT_BASE if base_shapes else self.sources.architecture:
            adapters = [self.every[ref].spec.adapter for ref in stage.fused]
            with suppress(UserError):  # which the stage's training words
                return count(stage.spec, shapes, [of.width for of in adapters if of])
        return None

    def parameters(self, variant: Variant, base_shapes: bool = False) -> int | None:
        """Return the parameters of the models that a variant is scored with.

        None: those of one are not known (`counts`), the variant is the best of others, or a tuned
        one whose candidates differ.
        """
        if variant.tried:
            others = (self.variants[variant.paper, name] for name in variant.tried)
            found = {self.parameters(other, base_shapes) for other in others}
            return found.pop() if len(found) == 1 else None
        stages = {stage.ref: stage for stage in variant.scored.values()}
        counted = [self.counts(stage, base_shapes) for stage in stages.values()]
        known = [found["total"] for found in counted if found]
        return sum(known) if known and len(known) == len(counted) else None
