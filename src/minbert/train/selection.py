"""Which dev examples choose the epoch, and which scores are reported on."""

from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from minbert.spec.stage import SelectionSplit


def dev_masks(ids: Sequence[str], selection_split: SelectionSplit) -> dict[str, np.ndarray]:
    """Return which dev examples scores are reported on, as bool [N] `dev`, and which ones choose.

    With `dev` they are the same, all of them, as in the papers, which flatters every run. With
    `half` those whose id has an even hash choose: `selection`, the same ones for every run.
    """
    if selection_split == "dev":
        return {"dev": np.ones(len(ids), dtype=bool)}
    even = np.array([sha256(one.encode()).digest()[0] % 2 == 0 for one in ids], dtype=bool)
    return {"dev": ~even, "selection": even}
