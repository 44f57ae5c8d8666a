"""The command line `minbert`: jobs (`steps`), the plan, housekeeping, and what the terminal shows.

No maker imports anything here; the Snakefile's hooks do (`session`).
"""
