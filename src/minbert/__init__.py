"""minbert: the ablation grids of four papers on multitask BERT fine-tuning, as one pipeline."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from minbert.base.version import VERSION

if TYPE_CHECKING:
    from minbert.explore.results import Results

__version__ = VERSION


def open(results: str | os.PathLike[str] = "results") -> Results:
    """Return what is in a results folder, as data frames, tensors and models (docs/predicting.md).

    Nothing is written. Raises `minbert.base.errors.UserError` for a folder without results.
    """
    # Every job and command imports this package; only here are pandas and torch wanted.
    from minbert.explore.results import Results

    return Results(results)
