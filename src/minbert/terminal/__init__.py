"""What a person sees on the terminal: how far a workflow is, and at its end what came of it.

Nothing here is imported by jobs; the Snakefile's hooks use it (`workflow/rules/track.smk`).
"""
