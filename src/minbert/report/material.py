"""What a report is made from: the files and specs of its job's needs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from minbert.evaluate.reading import Of, Score, Scores, read_scores
from minbert.evaluate.seeds import over_seeds
from minbert.evaluate.statistics import Interval
from minbert.spec.task import TASKS
from minbert.store.job import Job
from minbert.store.plans import read_description, sound


@dataclass(frozen=True)
class Material:
    """The material of a report. Files of data, runs and figures may be missing after failures."""

    job: Job

    def records(self, prefix: str) -> dict[str, dict[str, Any]]:
        """Return the record of each need `PREFIX.` that can be read, by the rest of its name."""
        found = {name: sound(path) for name, path in self.job.needs(prefix).items()}
        return {name: record for name, record in found.items() if record}

    def spec(self, name: str) -> dict[str, Any]:
        """Return the spec of the node that a need comes from."""
        need = self.job.described["needs"][name]
        return read_description(self.job.root, need["kind"], need["key"])["spec"]

    @cached_property
    def papers(self) -> dict[str, dict[str, Any]]:
        """What is said of each paper (`plan.outputs`), in the order of the grids."""
        return {paper: self.spec(f"table.{paper}") for paper in self.job.spec["papers"]}

    @cached_property
    def scores(self) -> dict[str, Scores]:
        """The scores of each paper."""
        return {
            paper: read_scores(self.job.need(f"scores.{paper}"), paper) for paper in self.papers
        }

    @cached_property
    def means(self) -> dict[str, dict[Of, Interval]]:
        """The means over seeds of all scores of each paper."""
        return {
            paper: over_seeds(self.scores[paper], about["overall_tasks"])
            for paper, about in self.papers.items()
        }

    @cached_property
    def labels(self) -> dict[tuple[str, str], str]:
        """The label of each (paper, variant) that trains something, in the order of the grids.

        A tuned variant does, and not its candidates.
        """
        return {
            (paper, of["name"]): about["labels"][of["name"]]
            for paper, about in self.papers.items()
            for of in about["variants"]
            if (of["tasks"] or of["tried"]) and not of["tuned_for"]
        }

    def trained(self, paper: str) -> Iterator[tuple[Of, Mapping[int, Score]]]:
        """Yield the dev scores by seed of each task and variant that trains something."""
        for of, by_seed in self.scores[paper].items():
            if of.split == "dev" and of.measure in TASKS and (paper, of.variant) in self.labels:
                yield of, by_seed

    def predictions(self, by_seed: Mapping[int, Score]) -> list[Path]:
        """Return the files of predictions that scores come from."""
        runs = (self.job.need(f"run.{of.key}.{seed}") for seed, of in by_seed.items())
        return [path.with_name("predictions.parquet") for path in runs]
