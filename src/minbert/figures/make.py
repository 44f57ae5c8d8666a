"""Drawing a planned figure: its inputs are found and its kind draws them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minbert.base.environment import commit
from minbert.figures import style
from minbert.figures.inputs import Inputs
from minbert.spec.figures import FIGURE_KINDS
from minbert.spec.parts import load_part
from minbert.spec.task import OWN_FILES
from minbert.spec.yaml import validated
from minbert.store.job import Job


def make(job: Job) -> None:
    """Draw a figure as `figure.pdf` and `figure.png`."""
    draw(job, job.out / "figure")


def draw(job: Job, stem: Path, *, bare: bool = False, **more: Any) -> None:
    """Draw a figure's job as `STEM.FORMAT`; `more` is for `draw_kind`."""
    spec, drawn = job.spec, job.spec["draw"]
    first, *_ = papers = spec["papers"]
    data = next((of["data"] for of in papers if of["data"] != OWN_FILES), OWN_FILES)
    seeds = f"{len(first['seeds'])} seed{'s' * (len(first['seeds']) != 1)}"
    stamp = f"commit {commit()}  backbone {first['backbone']}  data {data}  {seeds}"
    title = f"{spec['paper']}: " * bool(drawn["variants"]) + drawn["title"]
    about = {"title": title, "caption": drawn["caption"], "stamp": stamp}
    draw_kind(spec["kind"], drawn["options"], inputs_of(job), stem, bare=bare, **about, **more)


def inputs_of(job: Job) -> Inputs:
    """Return the inputs of a figure's job, from what is said of its papers (`plan.outputs`)."""
    shown, about = job.spec["draw"]["variants"], job.spec["papers"][0]
    tasks = {of["name"]: of["tasks"] for of in about["variants"]}

    def files(key: str, name: str) -> dict[int, Path]:
        return {n: job.need(f"run.{key}.{n}").with_name(name) for n in about["seeds"]}

    return Inputs(
        variants={name: about["labels"][name] for name in shown},
        histories={
            name: {of["name"]: files(of["key"], "history.parquet") for of in about["stages"][name]}
            for name in shown
        },
        predictions={
            name: {task: files(key, "predictions.parquet") for task, key in tasks[name].items()}
            for name in shown
        },
        scores=job.needs("scores"),
        papers=job.spec["papers"],
        failed=frozenset(job.failed(job.spec["paper"])),
    )


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
