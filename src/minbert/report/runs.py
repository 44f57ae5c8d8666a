"""The records of all runs: how long each took, and on what."""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from minbert.report.material import Material

ENVIRONMENT = ("commit", "device", "precision", "threads", "python", "platform")


class Runs(NamedTuple):
    """All runs. `environments` has each distinct value of what they ran on, most used first."""

    stages: list[dict[str, Any]]
    wanted: int
    finished: int
    seconds: float
    environments: Mapping[str, Sequence[str]]


def read_runs(material: Material) -> Runs:
    """Read the record of every run that finished, except for those that are damaged."""
    spec = material.job.spec
    records = dict(material.records("run"))  # by KEY/SEED
    owners: dict[str, str] = {}
    stages = []
    for stage in spec["stages"]:
        key = stage["key"]
        names = [f"{key}/{seed}" for seed in spec["seeds"]]
        of_key = [records[name] for name in names if name in records]
        title = f"{stage['paper']} / {stage['variant']} / {stage['stage']}"
        shared = owners.setdefault(key, title)
        stages.append(_stage(stage, of_key, "" if shared == title else shared))
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
    return Runs(stages, len(material.names("run")), len(records), seconds, ordered)


def _stage(
    stage: Mapping[str, Any], records: Sequence[Mapping[str, Any]], shared: str
) -> dict[str, Any]:
    """Return the finished runs of a stage over its seeds; None where the records do not say.

    `rate` is in tokens per second, `memory` the largest peak in bytes, `epoch` the best epoch by
    dev of each seed, and `shared` an earlier stage that has the same runs.
    """

    def mean(name: str) -> float | None:
        values = [v for r in records if (v := r["outcome"].get(name)) is not None]
        return fmean(values) if values else None

    peaks = [r.get("peak_device_memory_bytes") or r.get("peak_memory_bytes") for r in records]
    found = {name: stage[name] for name in ("paper", "variant", "stage")}
    return found | {
        "tasks": " ".join(stage["tasks"]),
        "seeds": len(records),
        "seconds": mean("seconds"),
        "steps": mean("steps"),
        "rate": mean("tokens_per_second"),
        "memory": max(filter(None, peaks), default=None),
        "parameters": next((r["parameters"] for r in records if "parameters" in r), None),
        "epoch": ", ".join(str(r["outcome"].get("best_epoch", "?")) for r in records),
        "shared": shared,
    }
