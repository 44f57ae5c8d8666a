"""What a report is made from: the files and specs of its job's needs."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

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

    @property
    def damaged(self) -> list[str]:
        """The records of runs and data that cannot be read, under the results root."""
        needs = [f"{prefix}/{name}" for prefix in ("run", "data") for name in self.names(prefix)]
        files = [path for path in map(self.job.need, needs) if path.is_file() and not sound(path)]
        return [str(path.relative_to(self.job.root)) for path in files]

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
