"""Which dev examples chose the epochs: in words, and which all runs are scored on."""

from collections.abc import Collection

FAVOURED = {
    "dev": "Dev was also used to choose the epoch of every run, which favours all of them",
    "half": "One half of dev chose the epoch of every run; scores are on the other half",
    "both": "For some runs, one half of dev chose the epoch and scores are on the other half; for "
    "the others, all of dev served both purposes, which favours them",
}
"""By what the stages' `selection_split` says, or `both`."""


def shared_ids(of_runs: Collection[Collection[str]]) -> set[str] | None:
    """Return the dev examples that all runs are scored on; None unless they are all of one run's.

    Those whose epoch a half of dev chose are scored on the other half, others on all of dev. Runs
    of different data have no such half in common.
    """
    fewest = min(of_runs, key=len)
    shared = set(fewest)
    return shared if all(shared.issubset(ids) for ids in of_runs) else None
