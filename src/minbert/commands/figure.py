"""`minbert figure`: a published figure drawn again, in another format or size."""

import re
from pathlib import Path

from minbert.base.errors import UserError, did_you_mean
from minbert.base.progress import some
from minbert.spec.task import use_tasks_of
from minbert.store.job import Job
from minbert.store.plans import describe_job, published_plans, read_plan

FORMATS = ("pdf", "png", "svg")
SMALLEST, LARGEST = 1.0, 50.0
"""Inches that a side may have."""


def draw(
    root: Path, name: str, form: str | None, size: str | None, *, bare: bool, out: Path | None
) -> Path:
    """Draw `PAPER/NAME` from finished results under `root`, and return the file.

    That is `out`, with the ending of the format; the format is `form`, else that of `out`, else
    pdf. A `bare` one has neither title nor stamp. Runs that did not finish are named below it.
    """
    from minbert.figures import make  # loads matplotlib

    sides = inches(size) if size else None
    ending = out.suffix[1:] if out else ""
    form = form or (ending if ending in FORMATS else "pdf")
    out = out or Path(Path(name).name)
    out = out if out.suffix == f".{form}" else out.with_name(f"{out.name}.{form}")
    job = _job(root, name)
    out.parent.mkdir(parents=True, exist_ok=True)
    make.draw(job, out.with_suffix(""), bare=bare, formats=(form,), size=sides)
    return out


def _job(root: Path, name: str) -> Job:
    """Return the job of a figure of the whole grids, or else of the part published last."""
    known: dict[str, tuple[str, str]] = {}
    for plan in reversed(published_plans(root)):
        shown = read_plan(root, plan)["shown"]
        figures = [
            (of.removeprefix("figures/"), key) for of, kind, key in shown if kind == "figure"
        ]
        known |= {figure: (key, plan) for figure, key in figures}
    if name not in known:
        raise UserError(
            f"{root}: no figure '{name}', which is PAPER/NAME; there are {some(known) or 'none'}."
            f"{did_you_mean(name, known)}"
        )
    key, plan = known[name]
    use_tasks_of(read_plan(root, plan))
    return Job(root, describe_job(root, "figure", key, plan), None, 1)


def inches(text: str) -> tuple[float, float]:
    """Return the width and height that `WxH` says."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)x(\d+(?:\.\d+)?)", text)
    width, height = map(float, match.groups()) if match else (0.0, 0.0)
    if not SMALLEST <= min(width, height) <= max(width, height) <= LARGEST:
        raise UserError(
            f"size {text[:40]!r}: expected width x height in inches, each from {SMALLEST:g} to "
            f"{LARGEST:g}, such as 3.3x2.5"
        )
    return width, height
