"""Drawing a planned figure: its inputs are found and its kind draws them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from pydantic import ValidationError

from minbert.base.environment import commit
from minbert.base.errors import UserError, did_you_mean
from minbert.figures import style
from minbert.figures.inputs import FigureSpec, Inputs
from minbert.spec.parts import load_part
from minbert.spec.task import TASKS
from minbert.store.job import Job

SEEDED = ("histories", "stage_histories", "predictions")


def make(job: Job) -> None:
    """Draw a figure as `figure.pdf` and `figure.png`."""
    draw_kind(job.spec["kind"], drawing_of(job), inputs_of(job), job.out / "figure")


def drawing_of(job: Job) -> dict[str, Any]:
    """Return how a figure's job draws it: the spec of its kind."""
    spec = job.spec
    made_from = f"backbone {spec['backbone']}  data {spec['data']}"
    seeds = f"{spec['seeds']} seed{'s' * (spec['seeds'] != 1)}"
    title = spec["draw"]["title"]
    if "variants" in spec["draw"]:  # the figures over all papers name none
        title = f"{spec['paper']}: {title}"
    return {**spec["draw"], "title": title, "stamp": f"commit {commit()}  {made_from}  {seeds}"}


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


def draw_kind(
    kind: str,
    spec: Mapping[str, Any],
    inputs: Inputs,
    stem: Path,
    formats: Sequence[str] = ("png", "pdf"),
    size: tuple[float, float] | None = None,
) -> None:
    """Save the figure that `kind` makes of `spec` and `inputs` as `STEM.FORMAT`.

    `size` is its width and height in inches (default: what it shows decides). Raises `UserError`
    for a wrong spec or file.
    """
    model: type[FigureSpec] = load_part("figure", kind)
    try:
        made = model.model_validate(spec)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        said = f", key '{where}': {first['msg']}, found {first['input']!r}"
        if first["type"] == "extra_forbidden":
            said = f": unknown key '{where}'.{did_you_mean(where, model.model_fields)}"
        raise UserError(f"figure '{kind}'{said}") from error
    stamp = "" if made.bare else made.stamp
    shown = [dict(spec) | {"caption": ""}, inputs.facts, *(task.model_dump() for task in TASKS.own)]
    text = json.dumps(shown, ensure_ascii=False, default=str)
    about: dict[str, Any] = {"title": made.title, "caption": made.caption, "formats": formats}
    with style.style(size and size[0], text):
        figure, notes = made.plot(inputs)
        if size:
            style.fit(figure, size, "" if made.bare else made.title, notes, stamp)
        if not made.bare:
            style.add_title(figure, made.title)
        style.save(figure, stem, stamp, notes=notes, **about)


def draw_fault(fault: str, stem: Path) -> None:
    """Save a picture that says why a figure was not drawn as `STEM.png` and `STEM.pdf`."""
    with style.style(text=fault):
        figure = style.new_figure(style.column(), 2.2)
        figure.text(0.02, 0.9, "\n".join(wrap(fault, 60)), va="top")
        style.save(figure, stem, "", notes=[], title="Not drawn", caption=fault)
