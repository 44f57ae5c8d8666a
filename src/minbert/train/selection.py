"""Which dev examples choose the epoch, and which judge what was chosen."""

from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from minbert.spec.stage import SelectOn


def choosing(ids: Sequence[str], select_on: SelectOn) -> np.ndarray:
    """Return bool [N]: the dev examples whose scores choose the epoch.

    With `dev` all of them, as in the papers; they then judge it too, which flatters every run. With
    `half` those whose id has an even hash: the same ones for every run, and the others judge.
    """
    if select_on == "dev":
        return np.ones(len(ids), dtype=bool)
    return np.array([sha256(one.encode()).digest()[0] % 2 == 0 for one in ids], dtype=bool)


def judging(ids: Sequence[str], select_on: SelectOn) -> np.ndarray:
    """Return bool [N]: the dev examples that scores are reported on."""
    chosen = choosing(ids, select_on)
    return chosen if select_on == "dev" else ~chosen
