"""Making the report: what the page shows, and how it becomes HTML."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
import yaml

from minbert.base.environment import commit
from minbert.base.files import write_text
from minbert.base.progress import clock
from minbert.evaluate.index import in_words
from minbert.evaluate.statistics import Interval
from minbert.evaluate.table import FAILED, SCORED
from minbert.evaluate.text import read_csv
from minbert.report.material import Material
from minbert.report.pictures import picture
from minbert.report.runs import Runs, read_runs
from minbert.report.tables import Claims, claims_of, paper_tables
from minbert.report.warnings import find_warnings
from minbert.spec.grid import ALL
from minbert.store.job import Job

YAML: Any = {"default_flow_style": None, "sort_keys": False, "allow_unicode": True, "width": 96}
COMMAND = "command.txt"
"""The file in the logs with the command of the workflow that is running, or ran last."""


def make(job: Job) -> None:
    """Write the report of all that is published.

    The page loads nothing from elsewhere, and text from data is escaped.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("minbert", "report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "duration": lambda seconds: "—" if seconds is None else clock(seconds),
        "interval": Interval.in_words,
        "size": lambda count, unit: f"{count / unit:,.0f}" if count else "—",
        "status": lambda status: {SCORED: "", FAILED: "failed"}.get(status, "absent"),
    }
    page = environment.get_template("page.html.j2").render(_page(Material(job)))
    write_text(job.out / "report.html", page)


def _page(material: Material) -> dict[str, Any]:
    job = material.job
    runs = read_runs(material)
    papers = [paper_tables(material, paper) for paper in material.papers]
    with ThreadPoolExecutor(job.threads) as pool:  # Pictures are shrunk side by side.
        pictures = list(pool.map(partial(picture, material), material.names("figure")))
    index = read_csv(job.need("index"))
    claims = claims_of(material)
    command = job.root / "logs" / COMMAND
    return {
        "title": "Ablation grids of multitask BERT fine-tuning",
        "style": Path(__file__).with_name("style.css").read_text(encoding="utf-8"),
        "facts": _facts(material, runs, index, claims),
        "warnings": find_warnings(material, runs, index, pictures),
        "claims": claims,
        "papers": papers,
        "pictures": {
            paper: [each for each in pictures if each.paper == paper]
            for paper in (*material.papers, ALL)
        },
        "runs": runs,
        "config": yaml.safe_dump(job.spec["config"], **YAML),
        "command": command.read_text(encoding="utf-8").strip() if command.is_file() else "",
        "commit": commit(),
    }


def _facts(
    material: Material, runs: Runs, index: Sequence[Mapping[str, str]], claims: Claims | None
) -> dict[str, str]:
    """Return the facts of the first table."""
    spec = material.job.spec
    seeds = spec["seeds"]
    facts = {
        "Rows": in_words(index),
        "Papers": ", ".join(material.papers),
        "Data": spec["data"],
        "Backbone": spec["backbone"],
        "Seeds": f"{', '.join(map(str, seeds))} ({len(seeds)} per variant)",
        "Runs": f"{runs.finished} of {runs.wanted} finished, {clock(runs.seconds)} in all",
    }
    for name in ("commit", "device"):
        if name in runs.environments:
            facts[name.capitalize()] = ", ".join(runs.environments[name])
    return facts | ({"Claims": claims.counted} if claims else {})
