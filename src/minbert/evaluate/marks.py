"""What pages and tables say of all scores: what floors are, and what chose epochs."""

GUESS = "the best guess without the text (for an accuracy, the most frequent class; for r, 0)"
"""What a floor is, in the words of figures and report."""

FAVOURED = {
    "dev": "Dev was also used to choose the epoch of every run, which favours all of them",
    "half": "One half of dev chose the epoch of every run; scores are on the other half",
    "both": "For some runs, one half of dev chose the epoch and scores are on the other half; for "
    "the others, all of dev served both purposes, which favours them",
}
"""What chose the epochs, by what the stages' `selection_split` says, or `both`."""
