"""A part of the grids: the variants that `only` names, with what is shown of those alone."""

import itertools
from collections.abc import Sequence
from fnmatch import fnmatchcase

from minbert.base.errors import UserError, nearest
from minbert.spec.resolve import Grid


def part_of(grids: Sequence[Grid], only: Sequence[str]) -> list[Grid]:
    """Return the grids with the variants that a pattern of `only` matches; without one, all.

    A pattern is a paper, a variant or `PAPER/VARIANT`, with the wildcards `*`, `?` and `[...]`. The
    best of others comes with those others; a setting that a tuned row tries is a row by itself if
    that row is left out. Figures and claims that are about variants which are left out go with
    them. Raises `UserError` for a pattern that matches nothing.
    """
    names = {
        (grid.paper, name): (grid.paper, name, f"{grid.paper}/{name}")
        for grid in grids
        for name in grid.variants
    }
    for pattern in only:
        if not any(fnmatchcase(name, pattern) for each in names.values() for name in each):
            near = nearest(pattern, itertools.chain(*names.values()))
            raise UserError(
                f"config: only: {pattern!r} matches no paper, variant or PAPER/VARIANT of the "
                f"grids {', '.join(grid.paper for grid in grids)}.{near}"
            )
    chosen = {
        at for at, words in names.items() if any(fnmatchcase(w, p) for w in words for p in only)
    }
    parts = (_part(grid, {name for paper, name in chosen if paper == grid.paper}) for grid in grids)
    return [part for part in parts if part.variants] if only else list(grids)


def _part(grid: Grid, chosen: set[str]) -> Grid:
    """Return a grid with the variants that are `chosen`, and what is about those alone."""
    chosen |= {name for best in chosen for name in grid.variants[best].best_of}
    gone = grid.variants.keys() - chosen
    if not gone:
        return grid
    variants = {}
    for name, variant in grid.variants.items():
        if name in chosen and variant.tuned_for in gone:
            variants[name] = variant.model_copy(update={"tuned_for": "", "label": name})
        elif name in chosen:
            variants[name] = variant
    figures = {}
    for name, figure in grid.figures.items():
        left = tuple(variant for variant in figure.variants if variant in chosen)
        # Options may name variants; then the figure needs all that it shows, and all they name.
        named = any(f"'{variant}'" in str(figure.options) for variant in gone)
        if (left == figure.variants and not named) or (left and not figure.options):
            figures[name] = figure.model_copy(update={"variants": left})
    part = {
        "variants": variants,
        "figures": figures,
        "claims": tuple(claim for claim in grid.claims if gone.isdisjoint(claim.variants)),
        "parameter_ratios": tuple(p for p in grid.parameter_ratios if gone.isdisjoint(p)),
        "single": "" if grid.single in gone else grid.single,
    }
    return grid.model_copy(update=part)
