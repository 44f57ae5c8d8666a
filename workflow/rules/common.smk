# What the other rule files use.


def shown(path, kind, form):
    """Mark a file for `snakemake --report`: under its paper, with a caption of its own."""
    return report(
        path,
        caption="../report/product.rst",
        category=lambda w: PLAN.shown(kind, w.key).category,
        labels=lambda w: {"what": PLAN.shown(kind, w.key).title, "file": form},
    )


def unaged(paths):
    """Mark inputs whose age says nothing, as their keys say what they hold.

    A copy of the results that has lost its times then trains nothing anew.
    """
    return {name: ancient(path) for name, path in paths.items()}
