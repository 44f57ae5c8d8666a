"""Drawing a planned figure: its inputs are found and its kind draws them."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from minbert.base.environment import commit
from minbert.figures import style
from minbert.figures.read import Inputs
from minbert.spec.figures import FIGURE_KINDS, Options
from minbert.spec.parts import load_part
from minbert.spec.yaml import validated
from minbert.store.job import Job


def make(job: Job) -> None:
    """Draw a figure as `figure.pdf` and `figure.png`."""
    draw(job, job.out / "figure")


def inputs_of(job: Job) -> Inputs:
    """Return the inputs of a figure's job, from what is said of its papers (`plan.outputs`)."""
    papers = job.spec["papers"]
    variants = {name: papers[0]["labels"][name] for name in job.spec["draw"]["variants"]}
    return Inputs(variants, papers, job.needs("run"), job.needs("scores"))


def draw(
    job: Job,
    stem: Path,
    *,
    formats: Sequence[str] = ("png", "pdf"),
    size: tuple[float, float] | None = None,
    bare: bool = False,
) -> None:
    """Save a figure as `STEM.FORMAT`.

    Its stamp says what it was made from; a `bare` figure has neither title nor stamp. `size` is its
    width and height in inches (default: what it shows decides). Raises `UserError` for a wrong
    option or file.
    """
    spec, drawn, inputs = job.spec, job.spec["draw"], inputs_of(job)
    kind, first = spec["kind"], inputs.about
    options = validated(FIGURE_KINDS[kind], drawn["options"], f"figure '{kind}'")
    title = f"{spec['paper']}: " * bool(drawn["variants"]) + drawn["title"]
    data = ", ".join(dict.fromkeys(of["data"] for of in inputs.papers))
    seeds = len(first["seeds"])
    stamp = f"commit {commit()}  backbone {first['backbone']}  data {data}  seeds: {seeds}"
    with style.style():
        figure, notes = drawn_kind(kind, options, inputs)
        style.finish(figure, [*notes, stamp * (not bare)], title * (not bare), size)
        style.save(figure, stem, title, drawn["caption"], formats)


def drawn_kind(kind: str, options: Options, inputs: Inputs) -> tuple[Figure, list[str]]:
    """Return the figure that a kind makes, and the notes under it, at last on missing runs."""
    try:
        figure, notes = load_part("figure", kind)(options, inputs)
    except style.NothingToShow:
        figure, notes = style.nothing(), []
    return figure, [*notes, *inputs.absent]


def draw_fault(fault: str, stem: Path) -> None:
    """Save a picture that says why a figure was not drawn as `STEM.png` and `STEM.pdf`."""
    with style.style():
        figure = style.nothing("not drawn")
        style.finish(figure, [fault])
        style.save(figure, stem, "Not drawn", fault)
