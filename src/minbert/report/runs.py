"""The records of all runs: how long they took, and on what."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from minbert.report.material import Material

ENVIRONMENT = ("commit", "device", "precision", "threads", "python", "platform")


class Runs(NamedTuple):
    """All runs. `environments` has each distinct value of what they ran on, most used first."""

    wanted: int
    finished: int
    seconds: float
    environments: Mapping[str, Sequence[str]]


def read_runs(material: Material) -> Runs:
    """Read the record of every run that finished, except for those that are damaged."""
    records = material.records("run")  # by KEY.SEED
    counts: dict[str, Counter[str]] = {}
    for record in records.values():
        recorded = record.get("environment", {})
        ran_on = {name: str(recorded[name]) for name in ENVIRONMENT if name in recorded}
        if packages := recorded.get("packages"):
            ran_on["packages"] = ", ".join(f"{n} {v}" for n, v in sorted(packages.items()))
        for name, value in ran_on.items():
            counts.setdefault(name, Counter())[value] += 1
    ordered = {name: [value for value, _ in of.most_common()] for name, of in counts.items()}
    seconds = sum(record["outcome"]["seconds"] for record in records.values())
    return Runs(len(material.job.needs("run")), len(records), seconds, ordered)
