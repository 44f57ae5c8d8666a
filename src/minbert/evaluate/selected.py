"""Which dev examples chose the epochs, in words."""

FAVOURED = {
    "dev": "Dev also chose the epoch of every run, which favours all of them",
    "half": "A half of dev chose the epoch of every run; scores are of the other half",
    "both": "Of some runs a half of dev chose the epoch, and scores are of the other half; of the "
    "others all of dev did both, which favours them",
}
"""By what the stages' `select_on` says, or `both`."""
