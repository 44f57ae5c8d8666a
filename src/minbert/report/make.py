"""Making the report: what the page shows, and how it becomes HTML."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import yaml

from minbert.base.environment import commit
from minbert.base.files import write_text
from minbert.base.progress import duration
from minbert.evaluate.index import in_words
from minbert.evaluate.marks import FAVOURED
from minbert.evaluate.statistics import Interval
from minbert.evaluate.table_rows import FAILED, SCORED
from minbert.evaluate.text import read_csv
from minbert.report.floors import judge
from minbert.report.material import Material
from minbert.report.opening import banner, best_variants, findings
from minbert.report.pictures import picture
from minbert.report.runs import Runs, read_runs
from minbert.report.tables import claims_of, paper_tables
from minbert.report.warnings import find_warnings
from minbert.report.worst import worst
from minbert.spec.grid import ALL
from minbert.spec.task import TASKS
from minbert.store.job import Job

YAML: Any = {"default_flow_style": None, "sort_keys": False, "allow_unicode": True, "width": 96}
COMMAND = "command.txt"
"""The file in the logs with the command of the workflow that is running, or ran last."""


def make(job: Job) -> None:
    """Write the report of all that is published.

    The page loads nothing from elsewhere, and text from data is escaped. Its policy lets nothing
    run but its own script, by the script's hash, which may not make HTML of text.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("minbert", "report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "duration": lambda seconds: "—" if seconds is None else duration(seconds),
        "interval": Interval.in_words,
        "status": lambda status: {SCORED: "", FAILED: "failed"}.get(status, "absent"),
        "hash": _hash,
        "score": lambda value: "—" if value is None else f"{value:.3f}",
    }
    page = environment.get_template("page.html.j2").render(_page(Material(job)))
    write_text(job.out / "report.html", page)


def _hash(text: str) -> str:
    """Return what a Content-Security-Policy calls an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _page(material: Material) -> dict[str, Any]:
    job = material.job
    runs = read_runs(material)
    papers = [paper_tables(material, paper) for paper in material.papers]
    pictures = [picture(material, name) for name in job.spec["figures"]]
    index = read_csv(job.need("index"))
    claims = claims_of(material)
    verdicts = judge(material)
    command = job.root / "logs" / COMMAND
    here = Path(__file__).parent
    return {
        "title": "Ablation grids of multitask BERT fine-tuning",
        "style": (here / "style.css").read_text(encoding="utf-8"),
        "script": (here / "script.js").read_text(encoding="utf-8"),
        "banner": banner(material),
        "findings": list(findings(material, index, verdicts, claims)),
        "indexed": bool(index),
        "best": list(best_variants(material, index)),
        "selected": FAVOURED[job.spec["selection_split"]],
        "facts": _facts(material, runs, index),
        "warnings": list(find_warnings(material, runs, verdicts, index, pictures)),
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
        "worst": {paper: worst(material, paper) for paper in material.papers},
        "tasks": TASKS,
    }


def _facts(material: Material, runs: Runs, index: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return what the results were made from."""
    spec = material.job.spec
    seeds = spec["seeds"]
    facts = {
        "Rows": in_words(index),
        "Papers": ", ".join(material.papers),
        "Data": spec["data"],
        "Backbone": spec["backbone"],
        "Seeds": f"{', '.join(map(str, seeds))} ({len(seeds)} per variant)",
        "Runs": f"{runs.finished} of {runs.wanted} finished, {duration(runs.seconds)} in all",
    }
    for name in ("commit", "device"):
        if name in runs.environments:
            facts[name.capitalize()] = ", ".join(runs.environments[name])
    return facts
