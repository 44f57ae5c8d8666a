"""What pages and tables say of all scores: what floors are, and what chose epochs."""

GUESS = "the most frequent class; r = 0"
"""The floor of an accuracy and of a correlation, as figures and the report word it."""

FAVOURED = {
    "dev": "Dev was also used to choose the epoch of every run, which favours all of them",
    "half": "One half of dev chose the epoch of every run; scores are on the other half",
    "both": "For some runs, one half of dev chose the epoch and scores are on the other half; for "
    "the others, all of dev served both purposes, which favours them",
}
"""What chose the epochs, by what the stages' `selection_split` says, or `both`."""
