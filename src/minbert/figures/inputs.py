"""What a kind of figure is drawn from: its files, and notes on missing runs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from minbert.spec.task import TASKS

OfSeeds = Mapping[int, Path]
Values = NDArray[np.float64]
Drawn = tuple[Figure, list[str]]  # a figure, and the notes that belong under it

_NAMED = 8  # a note names so many missing runs and counts the rest, to leave room for the figure


@dataclass(frozen=True)
class Inputs:
    """The files that a kind of figure reads, and what is said of its papers (`plan.outputs`).

    `variants` has the labels of what is shown by name, in order; none of figures over all papers.
    Files of runs are by variant, then by stage (`histories`) or task (`predictions`), then by seed;
    `scores` by paper. Any of these files may be missing, as its run may have failed or not have
    started.
    """

    variants: Mapping[str, str] = field(default_factory=dict)
    histories: Mapping[str, Mapping[str, OfSeeds]] = field(default_factory=dict)
    predictions: Mapping[str, Mapping[str, OfSeeds]] = field(default_factory=dict)
    scores: Mapping[str, Path] = field(default_factory=dict)
    papers: Sequence[Mapping[str, Any]] = ()

    @property
    def about(self) -> Mapping[str, Any]:
        """What is said of the only paper."""
        return self.papers[0]

    @property
    def absent(self) -> list[str]:
        """The note that names the runs whose predictions are missing, if any are."""
        missing = []
        for name, label in self.variants.items():
            files = [file for of in self.predictions[name].values() for file in of.items()]
            if gone := sorted({seed for seed, path in files if not path.is_file()}):
                missing.append(f"{label} (seed {', '.join(map(str, gone))})")
        return [f"Failed or not run: {listed(missing)}."] * bool(missing)


def present(of_seeds: OfSeeds) -> dict[int, Path]:
    """Return the files that exist, by seed in ascending order."""
    return {seed: of_seeds[seed] for seed in sorted(of_seeds) if of_seeds[seed].is_file()}


def task_title(name: str) -> str:
    """Return the title of a task, or the name of what is none."""
    return TASKS[name].title if name in TASKS else name


def mean_of(counts: Iterable[int]) -> str:
    """Return the words for values over so many seeds: "1 seed", or "mean of 2 or 5 seeds"."""
    found = " or ".join(map(str, sorted(set(counts))))
    return "1 seed" if found == "1" else f"mean of {found} seeds"


def listed(names: Sequence[str]) -> str:
    """Return the first names, separated by commas, and how many more there are."""
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
