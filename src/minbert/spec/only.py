"""A part of the grids: the variants that `only` names, with what is shown of those alone."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from minbert.base.errors import UserError, did_you_mean
from minbert.spec.resolve import Grid


def part_of(grids: Sequence[Grid], only: Sequence[str]) -> list[Grid]:
    """Return the grids with the variants that a pattern of `only` matches; without one, all.

    A pattern is a paper, a variant or `PAPER/VARIANT`, with the wildcards `*`, `?` and `[...]`. The
    best of others comes with those others, a tuned row with all that it tries. Figures and claims
    that are about variants which are left out go with them. Raises `UserError` for a pattern that
    matches nothing.
    """
    if not only:  # else figures would lose variants that do not exist, unsaid
        return list(grids)
    names = [f"{grid.paper}/{name}" for grid in grids for name in grid.rows]
    chosen = set[str]()
    for pattern in only:
        found = [n for n in names if any(fnmatchcase(w, pattern) for w in (n, *n.split("/")))]
        if not found:
            raise UserError(
                f"config: only: {pattern!r} matches no paper, variant or PAPER/VARIANT of the "
                f"grids.{did_you_mean(pattern, [*names, *(n.split('/')[1] for n in names)])}"
            )
        chosen.update(found)
    parts = ((grid, {n for n in grid.rows if f"{grid.paper}/{n}" in chosen}) for grid in grids)
    return [_part(grid, named) for grid, named in parts if named]


def _part(grid: Grid, named: set[str]) -> Grid:
    """Return a grid with the variants that are `named`, and what is about those alone."""
    chosen = named.union(*(grid.variants[name].best_of for name in named))
    gone = grid.variants.keys() - chosen
    figures = {}
    for name, figure in grid.figures.items():
        left = tuple(variant for variant in figure.variants if variant in chosen)
        # Options may name variants; then the figure needs all that it shows, and all they name.
        whole = not any(f"'{variant}'" in str(figure.options) for variant in gone)
        if whole and (left or not figure.variants):
            figures[name] = figure.model_copy(update={"variants": left})
    part = {
        "variants": {name: v for name, v in grid.variants.items() if name in chosen},
        "figures": figures,
        "claims": tuple(claim for claim in grid.claims if gone.isdisjoint(claim.variants)),
        "parameter_ratios": tuple(p for p in grid.parameter_ratios if gone.isdisjoint(p)),
        "single": "" if grid.single in gone else grid.single,
    }
    return grid.model_copy(update=part)
