"""Drawing a planned figure: its inputs are found and its kind draws them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from minbert.base.environment import commit
from minbert.base.errors import UserError, nearest
from minbert.figures import style
from minbert.figures.inputs import FigureSpec, Inputs
from minbert.spec.parts import load_part
from minbert.store.job import Job

SEEDED = ("histories", "stage_histories", "predictions")


def make(job: Job) -> None:
    """Draw a figure as `figure.pdf` and `figure.png`."""
    spec = job.spec
    made_from = "  ".join(f"{name} {spec[name]}" for name in ("backbone", "data", "seeds"))
    title = spec["draw"]["title"]
    if "variants" in spec["draw"]:  # the figures over all papers name none
        title = f"{spec['paper']}: {title}"
    drawn = {**spec["draw"], "title": title, "stamp": f"commit {commit()}  {made_from}"}
    draw_kind(spec["kind"], drawn, inputs_of(job), job.out / "figure")


def inputs_of(job: Job) -> Inputs:
    """Return the inputs of a figure's job, nested by the names of its needs (`KIND/WORD/...`)."""
    found: dict[str, Any] = {}
    for name in job.described["needs"]:
        *above, last = name.split("/")
        at: dict[str | int, Any] = found.setdefault(above[0], {})
        for word in above[1:]:
            at = at.setdefault(word, {})
        at[int(last) if above[0] in SEEDED else last] = job.need(name)
    failed = frozenset(job.failed(job.spec["paper"]))
    return Inputs(**found, facts=job.spec["facts"], failed=failed)


def draw_kind(kind: str, spec: Mapping[str, Any], inputs: Inputs, stem: Path) -> None:
    """Save the figure that `kind` makes of `spec` and `inputs` as `STEM.pdf` and `STEM.png`.

    Raises `UserError` for a wrong spec or file.
    """
    model: type[FigureSpec] = load_part("figure", kind)
    try:
        made = model.model_validate(spec)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        said = f", key '{where}': {first['msg']}, found {first['input']!r}"
        if first["type"] == "extra_forbidden":
            said = f": unknown key '{where}'.{nearest(where, model.model_fields)}"
        raise UserError(f"figure '{kind}'{said}") from error
    with style.style():
        figure, notes = made.plot(inputs)
        if not made.bare:
            style.add_title(figure, made.title)
        stamp = "" if made.bare else made.stamp
        style.save(figure, stem, stamp, notes=notes, title=made.title, caption=made.caption)
