"""What a figure is drawn from, and how it says what is absent of that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OfSeeds = Mapping[int, Path]

_NAMED = 8  # of more absent runs the note says the number: it must leave room for the figure


@dataclass(frozen=True)
class Inputs:
    """The files and facts that a figure's kind reads (`minbert.grid.figure_reads`).

    Files of runs are there by variant, then by stage (`stage_histories`, `runs`) or task
    (`predictions`), then by seed; `scores` and `table` by paper, `examples` by task. A file that
    is named need not be there: its run may have failed, or not have been reached. `failed` names
    the variants whose run ended in an error.
    """

    histories: Mapping[str, OfSeeds] = field(default_factory=dict)
    stage_histories: Mapping[str, Mapping[str, OfSeeds]] = field(default_factory=dict)
    runs: Mapping[str, Mapping[str, OfSeeds]] = field(default_factory=dict)
    predictions: Mapping[str, Mapping[str, OfSeeds]] = field(default_factory=dict)
    scores: Mapping[str, Path] = field(default_factory=dict)
    table: Mapping[str, Path] = field(default_factory=dict)
    examples: Mapping[str, Path] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    failed: frozenset[str] = frozenset()


def present(of_seeds: OfSeeds) -> dict[int, Path]:
    """Return those of the files that are there, by seed in ascending order."""
    return {seed: of_seeds[seed] for seed in sorted(of_seeds) if of_seeds[seed].is_file()}


def absent_notes(
    labels: Mapping[str, str],
    shown: Mapping[str, Iterable[int]],
    wanted: Mapping[str, Iterable[int]],
    failed: Iterable[str] = (),
) -> list[str]:
    """Return the notes that name the runs a figure is drawn without.

    `labels` is {variant: label} of all that the figure was asked for, `shown` the seeds that it
    shows of each, `wanted` those that it would show; a variant with none of either was not run.
    """
    broken = [label for name, label in labels.items() if not shown.get(name) and name in failed]
    absent = []
    for name, label in labels.items():
        there = set(shown.get(name, ()))
        if not there and name not in failed:
            absent.append(label)
        elif there:
            gone = sorted(set(wanted.get(name, ())) - there)
            absent += [f"{label} (seed {seed})" for seed in gone]
    said = (("Failed", broken), ("Not run", absent))
    return [f"{word}: {listed(names)}." for word, names in said if names]


def listed(names: Sequence[str]) -> str:
    """Return names in a row; of more than eight the first ones, and how many there are more."""
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
