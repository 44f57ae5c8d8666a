"""The words for what comes of a claim, and how far more seeds are looked for."""

HOLDS, FAILS, NOISE, NOT_RUN = "holds", "does not hold", "within noise", "not run"
OPEN = "cannot be judged"

MOST_SEEDS = 50
"""What anyone would train; a claim that needs more needs other examples."""
