"""The words for what comes of a claim."""

HOLDS, FAILS, NOISE, NOT_RUN = "holds", "does not hold", "within noise", "not run"
OPEN = "cannot be judged"
