"""A part of the grids: the variants that `only` names, with what is shown of those alone."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from minbert.base.errors import UserError, nearest
from minbert.spec.grid import Figure
from minbert.spec.resolve import Grid, Variant


def part_of(grids: Sequence[Grid], only: Sequence[str]) -> list[Grid]:
    """Return the grids with the variants that a pattern of `only` matches; without one, all.

    A pattern is a paper, a variant or `PAPER/VARIANT`, with the wildcards `*`, `?` and `[...]`. The
    best of others comes with those others; a setting that a tuned row tries is a row by itself if
    that row is left out. Figures and claims that are about variants which are
    left out go with them. Raises `UserError` for a pattern that matches nothing.
    """
    if not only:
        return list(grids)
    for pattern in only:
        if not any(_matches(variant, pattern) for g in grids for variant in g.variants.values()):
            names = {n for g in grids for v in g.variants.values() for n in _names(v)}
            raise UserError(
                f"config: only: {pattern!r} matches no paper, variant or PAPER/VARIANT of the "
                f"grids {', '.join(grid.paper for grid in grids)}.{nearest(pattern, names)}"
            )
    found = [_part(grid, only) for grid in grids]
    return [grid for grid in found if grid.variants]


def _names(variant: Variant) -> tuple[str, str, str]:
    return variant.paper, variant.name, f"{variant.paper}/{variant.name}"


def _matches(variant: Variant, pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in _names(variant))


def _part(grid: Grid, only: Sequence[str]) -> Grid:
    chosen = {n for n, v in grid.variants.items() if any(_matches(v, each) for each in only)}
    chosen |= {name for best in tuple(chosen) for name in grid.variants[best].best_of}
    variants = {
        name: _alone(variant) if variant.tuned_for not in chosen else variant
        for name, variant in grid.variants.items()
        if name in chosen
    }
    if len(variants) == len(grid.variants):
        return grid
    return replace(
        grid,
        variants=variants,
        figures=dict(_figures(grid.figures, chosen, grid.variants.keys() - chosen)),
        claims=tuple(claim for claim in grid.claims if chosen.issuperset(claim.variants)),
        parameter_ratios=tuple(pair for pair in grid.parameter_ratios if chosen.issuperset(pair)),
        single=grid.single if grid.single in chosen else "",
    )


def _alone(variant: Variant) -> Variant:
    """Return a variant as a row, even if it is one of the settings that a tuned row tries."""
    if not variant.tuned_for:
        return variant
    return replace(variant, tuned_for="", label=variant.name, row=variant.name)


def _figures(
    figures: dict[str, Figure], chosen: set[str], gone: Set[str]
) -> Iterable[tuple[str, Figure]]:
    """Yield the figures with those of their variants that are `chosen`, if there are any.

    A figure whose options may name its variants needs all of them, and one without `variants` those
    that its options name.
    """
    for name, figure in figures.items():
        left = tuple(variant for variant in figure.variants if variant in chosen)
        whole = left == figure.variants and gone.isdisjoint(_words(figure.options))
        if whole or (left and not figure.options):
            yield name, figure.model_copy(update={"variants": left})


def _words(options: Any) -> Iterator[str]:
    """Yield every text in `options`, keys included."""
    if isinstance(options, str):
        yield options
    elif isinstance(options, Mapping):
        for key, value in options.items():
            yield str(key)
            yield from _words(value)
    elif isinstance(options, Sequence):
        for value in options:
            yield from _words(value)
