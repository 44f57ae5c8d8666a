"""The records of all runs: how long each took, and on what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from minbert.common.files import read_json

if TYPE_CHECKING:
    from minbert.report.make import Material


class Stage(NamedTuple):
    """The runs of one stage over the seeds that finished; None where a record does not say."""

    paper: str
    variant: str
    stage: str
    tasks: str
    seeds: int
    seconds: float | None
    steps: float | None
    rate: float | None
    """tokens a second"""
    memory: float | None
    """the largest peak, in bytes"""
    parameters: int | None
    epoch: str
    """the best epoch by dev, of each seed"""
    shared: str
    """the earlier stage that these runs belong to, too"""


class Runs(NamedTuple):
    """All runs. `environments` has each distinct value of what they ran on, most used first."""

    stages: list[Stage]
    wanted: int
    finished: int
    seconds: float
    environments: Mapping[str, Sequence[str]]


def read_runs(material: Material) -> Runs:
    """Read the record of every run that finished."""
    spec = material.job.spec
    records: dict[tuple[str, int], dict[str, Any]] = {}
    for name in material.names("run"):
        path = material.file(f"run/{name}")
        if path is not None:
            key, seed = name.split("/")
            records[key, int(seed)] = read_json(path)
    owners: dict[str, str] = {}
    stages = []
    for stage in spec["stages"]:
        key = stage["key"]
        of_key = [records[key, seed] for seed in spec["seeds"] if (key, seed) in records]
        title = _title(stage)
        shared = owners.setdefault(key, title)
        stages.append(_stage(stage, of_key, "" if shared == title else shared))
    found: dict[str, dict[str, int]] = {}
    for record in records.values():
        for name, value in _environment(record).items():
            counts = found.setdefault(name, {})
            counts[value] = counts.get(value, 0) + 1
    ordered = {name: sorted(of, key=of.__getitem__, reverse=True) for name, of in found.items()}
    seconds = sum(record["outcome"]["seconds"] for record in records.values())
    return Runs(stages, len(material.names("run")), len(records), seconds, ordered)


def _stage(stage: Mapping[str, Any], records: Sequence[Mapping[str, Any]], shared: str) -> Stage:
    def mean(name: str) -> float | None:
        values = [v for r in records if (v := r["outcome"].get(name)) is not None]
        return fmean(values) if values else None

    peaks = [
        peak
        for r in records
        if (peak := r.get("peak_device_memory_bytes") or r.get("peak_memory_bytes"))
    ]
    return Stage(
        stage["paper"],
        stage["variant"],
        stage["stage"],
        " ".join(stage["tasks"]),
        len(records),
        mean("seconds"),
        mean("steps"),
        mean("tokens_per_second"),
        max(peaks, default=None),
        next((r["parameters"] for r in records if "parameters" in r), None),
        ", ".join(str(r["outcome"]["best_epoch"]) for r in records),
        shared,
    )


def _title(stage: Mapping[str, Any]) -> str:
    return f"{stage['paper']} / {stage['variant']} / {stage['stage']}"


def _environment(record: Mapping[str, Any]) -> dict[str, str]:
    """Return what a run ran on, in words for people."""
    told = record.get("environment", {})
    packages = ", ".join(f"{n} {v}" for n, v in sorted(told.get("packages", {}).items()))
    found = {name: str(told[name]) for name in _NAMES if name in told}
    return found | ({"packages": packages} if packages else {})


_NAMES = ("commit", "device", "precision", "threads", "python", "platform")
