"""Drawing a planned figure: its inputs are found and its kind draws them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minbert.base.environment import commit
from minbert.figures import style
from minbert.figures.inputs import Inputs
from minbert.spec.figures import FIGURE_KINDS
from minbert.spec.parts import load_part
from minbert.spec.yaml import validated
from minbert.store.job import Job

SEEDED = ("histories", "predictions")


def make(job: Job) -> None:
    """Draw a figure as `figure.pdf` and `figure.png`."""
    draw(job, job.out / "figure")


def draw(job: Job, stem: Path, *, bare: bool = False, **more: Any) -> None:
    """Draw a figure's job as `STEM.FORMAT`; `more` is for `draw_kind`."""
    spec, drawn = job.spec, job.spec["draw"]
    made_from = f"backbone {spec['backbone']}  data {spec['data']}"
    seeds = f"{spec['seeds']} seed{'s' * (spec['seeds'] != 1)}"
    of_paper = f"{spec['paper']}: " if "variants" in drawn else ""
    about = {"title": of_paper + drawn["title"], "caption": drawn["caption"]}
    about["stamp"] = f"commit {commit()}  {made_from}  {seeds}"
    draw_kind(spec["kind"], drawn["options"], inputs_of(job), stem, bare=bare, **about, **more)


def inputs_of(job: Job) -> Inputs:
    """Return the inputs of a figure's job, nested by the names of its needs (`KIND/WORD/...`)."""
    found: dict[str, Any] = {"variants": dict(job.spec["draw"].get("variants", ()))}
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
    options: Mapping[str, Any],
    inputs: Inputs,
    stem: Path,
    *,
    title: str,
    caption: str = "",
    stamp: str = "",
    formats: Sequence[str] = ("png", "pdf"),
    size: tuple[float, float] | None = None,
    bare: bool = False,
) -> None:
    """Save the figure that `kind` makes of `options` and `inputs` as `STEM.FORMAT`.

    `stamp` says what it was made from; a `bare` figure has neither title nor stamp. `size` is its
    width and height in inches (default: what it shows decides). Raises `UserError` for a wrong
    option or file.
    """
    given = validated(FIGURE_KINDS[kind], options, f"figure '{kind}'")
    with style.style():
        figure, notes = load_part("figure", kind)(given, inputs)
        style.finish(figure, notes, *("", "") if bare else (stamp, title), size)
        style.save(figure, stem, title, caption, formats)


def draw_fault(fault: str, stem: Path) -> None:
    """Save a picture that says why a figure was not drawn as `STEM.png` and `STEM.pdf`."""
    with style.style():
        figure = style.nothing("not drawn")
        style.finish(figure, [fault])
        style.save(figure, stem, "Not drawn", fault)
