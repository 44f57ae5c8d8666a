"""Which dev examples choose the epoch, and which scores are reported on."""

from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from minbert.spec.stage import SelectionSplit


def selection_mask(ids: Sequence[str], selection_split: SelectionSplit) -> np.ndarray:
    """Return bool [N]: the dev examples whose scores choose the epoch.

    With `dev` all of them, as in the papers; scores are then reported on them too, which flatters
    every run. With `half` those whose id has an even hash: the same ones for every run.
    """
    if selection_split == "dev":
        return np.ones(len(ids), dtype=bool)
    return np.array([sha256(one.encode()).digest()[0] % 2 == 0 for one in ids], dtype=bool)


def report_mask(ids: Sequence[str], selection_split: SelectionSplit) -> np.ndarray:
    """Return bool [N]: the dev examples that scores are reported on; with `half`, the others."""
    selects = selection_mask(ids, selection_split)
    return selects if selection_split == "dev" else ~selects
