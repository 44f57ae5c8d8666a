"""What the report says first: what ran, on what, and which variant of each paper was best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from minbert.evaluate.reading import read_columns
from minbert.evaluate.statistics import Interval, interval
from minbert.evaluate.table_rows import SCORED

if TYPE_CHECKING:
    from minbert.report.make import Material
    from minbert.report.runs import Runs


class Best(NamedTuple):
    """The best variant of a paper by its own overall score on dev, and of how many."""

    variant: str
    score: Interval
    among: int


def best_variant(scores: Path | None, paper: str, rule: str) -> Best | None:
    """Return the variant with the highest mean overall score; None if none has one."""
    if scores is None:
        return None
    chosen = [("paper", "=", paper), ("split", "=", "dev"), ("metric", "=", rule)]
    chosen.append(("task", "=", "overall"))
    found: dict[str, list[float]] = {}
    for line in read_columns(scores, ("variant", "seed", "value"), chosen).to_pylist():
        found.setdefault(line["variant"], []).append(line["value"])
    if not found:
        return None
    means = {variant: interval(values) for variant, values in found.items()}
    best = max(means, key=lambda variant: means[variant].mean)
    return Best(best, means[best], len(means))


def summary(
    material: Material, runs: Runs, index: Sequence[Mapping[str, str]]
) -> list[tuple[str, str]]:
    """Return the facts of the first table as (what, value)."""
    spec = material.job.spec
    counts = Counter(line["status"] for line in index)
    rest = ", ".join(f"{n} {status}" for status, n in counts.items() if status != SCORED)
    rows = f"{counts[SCORED]} of {len(index)} published rows scored" + (
        f" ({rest})" if rest else ""
    )
    seeds = spec["seeds"]
    facts = [
        ("Rows", rows),
        ("Papers", ", ".join(material.papers)),
        ("Data", spec["data"]),
        ("Backbone", spec["backbone"]),
        ("Seeds", f"{', '.join(map(str, seeds))} ({len(seeds)} a variant)"),
        ("Runs", f"{runs.finished} of {runs.wanted} finished, {duration(runs.seconds)} in all"),
    ]
    for name in ("commit", "device"):
        if name in runs.environments:
            facts.append((name.capitalize(), ", ".join(runs.environments[name])))
    return facts


def duration(seconds: float | None) -> str:
    """Return a time in words, in the unit that suits it."""
    if seconds is None:
        return "—"
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"
