"""Writing the report: what is read, in which order it stands, and how it becomes a page."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import jinja2
import yaml

from minbert.common.environment import commit
from minbert.common.files import read_json, write_text
from minbert.common.words import clock
from minbert.evaluate.statistics import Interval, interval
from minbert.evaluate.winner import winners
from minbert.grid.job import Job
from minbert.grid.node import description_path
from minbert.grid.schema import ALL
from minbert.report.images import Picture, picture
from minbert.report.runs import read_runs
from minbert.report.summary import summary
from minbert.report.tables import Paper, claims_of, paper_tables
from minbert.report.warnings import find_warnings

TITLE = "Ablation grids of multitask BERT fine-tuning"
YAML: Any = {"default_flow_style": None, "sort_keys": False, "allow_unicode": True, "width": 96}
COMMAND = "command.txt"
"""The file in the logs that holds the command of the workflow that runs, or ran last."""


@dataclass(frozen=True)
class Material:
    """What a report is made from. Files that are named need not be there: runs may have failed.

    `instead` has files to read in place of those that the job names, by the name of the need;
    `failures` says why of the (paper, variant) whose runs ended in an error.
    """

    job: Job
    instead: Mapping[str, Path] = field(default_factory=dict)
    failures: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def file(self, name: str) -> Path | None:
        """Return the file of a need; None if it is not there."""
        path = self.instead.get(name, self.job.need(name))
        return path if path.is_file() else None

    def names(self, prefix: str) -> list[str]:
        """Return what follows `PREFIX/` in the names of the needs, in their order."""
        needs = self.job.described["needs"]
        return [n.removeprefix(f"{prefix}/") for n in needs if n.startswith(f"{prefix}/")]

    def spec(self, name: str) -> dict[str, Any]:
        """Return the spec of the node that a need comes from."""
        need = self.job.described["needs"][name]
        spec: dict[str, Any] = read_json(description_path(self.job.root, need["kind"], need["key"]))
        return spec["spec"]

    def lines(self, name: str) -> list[dict[str, str]]:
        """Return the lines of a csv file; none if it is not there."""
        path = self.file(name) if name in self.job.described["needs"] else None
        if path is None:
            return []
        with path.open(encoding="utf-8", newline="") as handle:
            return list(csv.DictReader(handle))

    @cached_property
    def papers(self) -> list[str]:
        """The papers, in the order of the grids."""
        stages = [stage["paper"] for stage in self.job.spec["stages"]]
        needs = self.job.described["needs"]
        return [paper for paper in dict.fromkeys(stages) if f"table/{paper}" in needs]


def write_report(
    job: Job,
    path: Path,
    instead: Mapping[str, Path] | None = None,
    failures: Mapping[tuple[str, str], str] | None = None,
) -> None:
    """Write the report of `job` to `path`, whole or not at all.

    `instead` and `failures` are for a workflow that did not end well: see `Material`. Nothing in
    the page is loaded from anywhere else; text from data is escaped.
    """
    material = Material(job, instead or {}, failures or {})
    loader = jinja2.PackageLoader("minbert", "report")
    environment = jinja2.Environment(
        loader=loader,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"duration": _time, "interval": Interval.in_words, "size": _size}
    write_text(path, environment.get_template("page.html.j2").render(_page(material)))


def _page(material: Material) -> dict[str, Any]:
    spec = material.job.spec
    runs = read_runs(material)
    papers = [paper_tables(material, paper) for paper in material.papers]
    with ThreadPoolExecutor(material.job.threads) as pool:  # Pictures are shrunk side by side.
        pictures = list(pool.map(partial(_picture, material), material.names("figure")))
    index = material.lines("index")
    return {
        "title": TITLE,
        "style": Path(__file__).with_name("style.css").read_text(encoding="utf-8"),
        "facts": summary(material, runs, index),
        "best": [_best(material, paper) for paper in papers],
        "warnings": find_warnings(material, runs, index, pictures),
        "claims": claims_of(material),
        "papers": papers,
        "pictures": {
            paper: [each for each in pictures if each.paper == paper]
            for paper in (*material.papers, ALL)
        },
        "runs": runs,
        "config": yaml.safe_dump(spec["config"], **YAML),
        "command": _command(material.job.root),
        "commit": commit(),
    }


def _picture(material: Material, name: str) -> Picture:
    spec = material.spec(f"figure/{name}")
    return picture(name, spec, material.file(f"figure/{name}"))


def _best(material: Material, paper: Paper) -> dict[str, Any]:
    scores = material.file(f"scores/{paper.name}")
    best = winners(scores, {paper.name: paper.rule}).get(paper.name) if scores else None
    if best is None:
        return {"paper": paper, "label": None, "score": None}
    labels = {
        stage["variant"]: stage["label"]
        for stage in material.job.spec["stages"]
        if stage["paper"] == paper.name
    }
    score = interval(list(best.dev.values()))
    return {"paper": paper, "label": labels[best.variant], "score": score}


def _time(seconds: float | None) -> str:
    return "—" if seconds is None else clock(seconds)


def _size(count: float | None, unit: float) -> str:
    return "—" if not count else f"{count / unit:,.0f}"


def _command(root: Path) -> str:
    path = root / "logs" / COMMAND
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""
