"""What a reader must know before believing a number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from minbert.common.files import read_json
from minbert.evaluate.table_rows import SCORED
from minbert.grid.tasks import TASKS

if TYPE_CHECKING:
    from minbert.report.images import Picture
    from minbert.report.make import Material
    from minbert.report.runs import Runs


class Warned(NamedTuple):
    """A warning: what is the matter, and its cases."""

    text: str
    cases: list[str]


def find_warnings(
    material: Material,
    runs: Runs,
    index: Sequence[Mapping[str, str]],
    pictures: Iterable[Picture],
) -> list[Warned]:
    """Return the warnings, the gravest first."""
    spec = material.job.spec
    found: list[Warned] = []
    if material.failures:
        cases = [f"{paper} / {name}: {why}" for (paper, name), why in material.failures.items()]
        text = "Variants of which a training failed: their rows lack that seed, or all scores."
        found.append(Warned(text, cases))
    absent = [
        f"{line['paper']} / {line['row']} ({line['split']}): {_why(line)}"
        for line in index
        if line["status"] != SCORED
    ]
    if absent:
        found.append(Warned("Published rows without scores of ours.", absent))
    undrawn = [each.name for each in pictures if not each.source]
    if undrawn:
        found.append(Warned("Figures that could not be drawn.", undrawn))
    if spec["data"] == "builtin":
        text = "The data are generated text. The scores show that the pipeline works; they say "
        found.append(Warned(f"{text}nothing about the papers' methods.", []))
    if len(spec["seeds"]) == 1:
        text = "One seed. There is no interval over seeds: another training run may score otherwise"
        found.append(Warned(f"{text}, and differences between variants may be chance.", []))
    text = "Dev chose the epoch of every run, and is what is reported. So dev scores are too high;"
    found.append(Warned(f"{text} the column “last epoch” has those that were not chosen.", []))
    found += _of_data(material)
    for name in ("commit", "device", "precision", "packages"):
        if len(runs.environments.get(name, ())) > 1:
            text = f"The runs do not all have the same {name}."
            found.append(Warned(text, list(runs.environments[name])))
    edited = [value for value in runs.environments.get("commit", ()) if value.endswith("+")]
    if edited:
        found.append(Warned("Runs were made with code that was not committed.", edited))
    return found


def _why(line: Mapping[str, str]) -> str:
    return f"{line['status']}; {line['reason']}" if line["reason"] else line["status"]


def _of_data(material: Material) -> list[Warned]:
    overlaps, rejected = [], []
    for task in material.names("data"):
        path = material.file(f"data/{task}")
        if path is None:
            continue
        told = read_json(path)
        title = TASKS[task].title if task in TASKS else task
        for where, count in told["overlaps"].items():
            if count:
                overlaps.append(f"{title}: {count} texts of {where}")
        for where, count in told["rejected"].items():
            rejected.append(f"{title}: {count} rows of {where}")
    found = []
    if overlaps:
        text = "Leakage: texts stand in more than one split. The figures “leakage” have the scores "
        found.append(Warned(f"{text}without them.", overlaps))
    if rejected:
        found.append(Warned("Rows of the data that could not be used.", rejected))
    return found
