"""A part of the grids: the variants that `only` names, with what is shown of those alone."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import chain

from minbert.base.errors import UserError, did_you_mean
from minbert.spec.resolve import Grid


def part_of(grids: Sequence[Grid], only: Sequence[str]) -> list[Grid]:
    """Return the grids with the variants that a pattern of `only` matches; without one, all.

    A pattern is a paper, a variant or `PAPER/VARIANT`, with the wildcards `*`, `?` and `[...]`. The
    best of others comes with those others; a setting that a tuned row tries is a row by itself if
    that row is left out. Figures and claims that are about variants which are left out go with
    them. Raises `UserError` for a pattern that matches nothing.
    """
    if not only:
        return list(grids)
    words = {
        (grid.paper, name): (grid.paper, name, f"{grid.paper}/{name}")
        for grid in grids
        for name in grid.variants
    }
    matched = set()
    for pattern in only:
        found = {at for at, of in words.items() if any(fnmatchcase(word, pattern) for word in of)}
        if not found:
            raise UserError(
                f"config: only: {pattern!r} matches no paper, variant or PAPER/VARIANT of the "
                f"grids {', '.join(grid.paper for grid in grids)}."
                f"{did_you_mean(pattern, chain(*words.values()))}"
            )
        matched |= found
    parts = []
    for grid in grids:
        named = [v for name, v in grid.variants.items() if (grid.paper, name) in matched]
        if chosen := {name for v in named for name in (v.name, *v.best_of)}:
            parts.append(_part(grid, chosen))
    return parts


def _part(grid: Grid, chosen: set[str]) -> Grid:
    """Return a grid with the variants that are `chosen`, and what is about those alone."""
    gone = grid.variants.keys() - chosen
    variants = {
        name: variant.model_copy(update={"tuned_for": "", "label": name})
        if variant.tuned_for in gone
        else variant
        for name, variant in grid.variants.items()
        if name in chosen
    }
    figures = {}
    for name, figure in grid.figures.items():
        # Options may name variants; then the figure needs all that it shows, and all they name.
        named = {variant for variant in gone if f"'{variant}'" in str(figure.options)}
        left = tuple(variant for variant in figure.variants if variant in chosen)
        if not named and (left or not figure.variants):
            figures[name] = figure.model_copy(update={"variants": left})
    part = {
        "variants": variants,
        "figures": figures,
        "claims": tuple(claim for claim in grid.claims if gone.isdisjoint(claim.variants)),
        "parameter_ratios": tuple(p for p in grid.parameter_ratios if gone.isdisjoint(p)),
        "single": "" if grid.single in gone else grid.single,
    }
    return grid.model_copy(update=part)
