"""What every figure's spec has, and the way from a spec to saved files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from matplotlib.figure import Figure
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from minbert.common.errors import UserError, nearest
from minbert.figures import style
from minbert.figures.inputs import Inputs


class FigureSpec(BaseModel):
    """The keys of every figure; the kinds add their options.

    `variants` is {name: label}, in the order of the grid's list; empty for figures over all papers.
    `stamp` says what the figure was made from.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    variants: dict[str, str] = Field(default_factory=dict)
    caption: str = ""
    stamp: str


Model = TypeVar("Model", bound=FigureSpec)


def parse(kind: str, model: type[Model], spec: dict[str, Any]) -> Model:
    """Return `spec` as a `model`; the first thing wrong with it raises `UserError`."""
    try:
        return model.model_validate(spec)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            hint = nearest(where, model.model_fields)
            raise UserError(f"figure '{kind}': unknown key '{where}'.{hint}") from error
        raise UserError(
            f"figure '{kind}', key '{where}': {first['msg']}, found {first['input']!r}"
        ) from error


def render(
    kind: str,
    model: type[Model],
    plot: Callable[[Model, Inputs], tuple[Figure, list[str]]],
    spec: dict[str, Any],
    inputs: Inputs,
    stem: Path,
) -> None:
    """Save what `plot` makes of `spec` and `inputs` as `STEM.pdf` and `STEM.png`, in our style.

    `plot` returns a figure and the notes that belong under it. A spec that `model` does not take
    raises `UserError`.
    """
    parsed = parse(kind, model, spec)
    with style.style():
        figure, notes = plot(parsed, inputs)
        style.save(
            figure, stem, parsed.stamp, notes=notes, title=parsed.title, caption=parsed.caption
        )
