"""Drawing a planned figure: its files found, its stamp made, its kind's function called."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from minbert.common.environment import commit
from minbert.figures.inputs import Inputs
from minbert.grid.job import Job
from minbert.grid.parts import load_part

SEEDED = ("histories", "stage_histories", "runs", "predictions")


def draw_figure(
    job: Job,
    stem: Path,
    instead: Mapping[str, Path] | None = None,
    failed: Collection[str] = (),
) -> None:
    """Draw the figure of `job` as `STEM.pdf` and `STEM.png`.

    `instead` has files to read in place of those that the job names, by the name of the need;
    `failed` the variants whose runs ended in an error. Raises `UserError` for what the figure's
    module finds wrong with its spec or with a file.
    """
    spec = job.spec
    stamp = (
        f"commit {commit()}  backbone {spec['backbone']}  data {spec['data']}  "
        f"seeds {spec['seeds']}"
    )
    draw = load_part("figure", spec["kind"])
    draw({**spec["draw"], "stamp": stamp}, inputs_of(job, instead or {}, failed), stem)


def inputs_of(job: Job, instead: Mapping[str, Path], failed: Collection[str] = ()) -> Inputs:
    """Return the inputs of a figure's job; their names, `KIND/WORD/...`, say where each belongs."""
    found: dict[str, Any] = {}
    for name in job.described["needs"]:
        *above, last = name.split("/")
        at: dict[str | int, Any] = found.setdefault(above[0], {})
        for word in above[1:]:
            at = at.setdefault(word, {})
        at[int(last) if above[0] in SEEDED else last] = instead.get(name, job.need(name))
    return Inputs(**found, facts=job.spec["facts"], failed=frozenset(failed))
