"""What the report says first: what ran, on what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from minbert.common.words import clock
from minbert.evaluate.index import in_words

if TYPE_CHECKING:
    from minbert.report.make import Material
    from minbert.report.runs import Runs


def summary(
    material: Material, runs: Runs, index: Sequence[Mapping[str, str]]
) -> list[tuple[str, str]]:
    """Return the facts of the first table as (what, value)."""
    spec = material.job.spec
    seeds = spec["seeds"]
    facts = [
        ("Rows", in_words(index)),
        ("Papers", ", ".join(material.papers)),
        ("Data", spec["data"]),
        ("Backbone", spec["backbone"]),
        ("Seeds", f"{', '.join(map(str, seeds))} ({len(seeds)} a variant)"),
        ("Runs", f"{runs.finished} of {runs.wanted} finished, {clock(runs.seconds)} in all"),
    ]
    for name in ("commit", "device"):
        if name in runs.environments:
            facts.append((name.capitalize(), ", ".join(runs.environments[name])))
    return facts
