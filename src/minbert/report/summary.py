"""What the report says first: what ran, on what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from minbert.evaluate.table_rows import SCORED

if TYPE_CHECKING:
    from minbert.report.make import Material
    from minbert.report.runs import Runs


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
