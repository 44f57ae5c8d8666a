"""What a report is made from: the files and specs of its job's needs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from minbert.evaluate.reading import Of, Score, Scores, read_scores
from minbert.evaluate.seeds import over_seeds
from minbert.evaluate.statistics import Interval
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.task import TASKS
from minbert.store.job import Job
from minbert.store.plans import read_description
from minbert.store.record import sound


@dataclass(frozen=True)
class Material:
    """The material of a report. Files of data, runs and figures may be missing after failures.

    Needs are named by what they are: `table/PAPER`, `run/KEY/SEED` and so on.
    """

    job: Job

    def records(self, prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the rest of the name, and the record, of each need `PREFIX/` that can be read."""
        for name in self.names(prefix):
            if record := sound(self.job.need(f"{prefix}/{name}")):
                yield name, record

    def names(self, prefix: str) -> list[str]:
        """Return what follows `PREFIX/` in the names of the needs, in their order."""
        needs = self.job.described["needs"]
        return [n.removeprefix(f"{prefix}/") for n in needs if n.startswith(f"{prefix}/")]

    def spec(self, name: str) -> dict[str, Any]:
        """Return the spec of the node that a need comes from."""
        need = self.job.described["needs"][name]
        return read_description(self.job.root, need["kind"], need["key"])["spec"]

    @cached_property
    def papers(self) -> list[str]:
        """The papers, in the order of the grids."""
        stages = [stage["paper"] for stage in self.job.spec["stages"]]
        needs = self.job.described["needs"]
        return [paper for paper in dict.fromkeys(stages) if f"table/{paper}" in needs]

    @cached_property
    def scores(self) -> dict[str, Scores]:
        """The scores of each paper."""
        return {
            paper: read_scores(self.job.need(f"scores/{paper}"), paper) for paper in self.papers
        }

    @cached_property
    def means(self) -> dict[str, dict[Of, Interval]]:
        """The means over seeds of all scores of each paper."""
        tables = {paper: self.spec(f"table/{paper}") for paper in self.papers}
        return {
            paper: over_seeds(self.scores[paper], spec.get("overall_tasks", OVERALL_TASKS))
            for paper, spec in tables.items()
        }

    @cached_property
    def labels(self) -> dict[tuple[str, str], str]:
        """The label of each (paper, variant) that trains something, in the order of the grids.

        A tuned variant does, and not its candidates.
        """
        return {(of["paper"], of["row"]): of["label"] for of in self.job.spec["stages"]}

    def trained(self, paper: str) -> Iterator[tuple[Of, Mapping[int, Score]]]:
        """Yield the dev scores by seed of each task and variant that trains something."""
        for of, by_seed in self.scores[paper].items():
            if of.split == "dev" and of.measure in TASKS and (paper, of.variant) in self.labels:
                yield of, by_seed

    def predictions(self, by_seed: Mapping[int, Score]) -> list[Path]:
        """Return the files of predictions that scores come from."""
        return [self.job.need(f"predictions/{of.key}/{seed}") for seed, of in by_seed.items()]
