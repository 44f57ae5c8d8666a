"""Making the report: what the page shows, and how it becomes HTML."""

import base64
import hashlib
import io
from pathlib import Path
from typing import Any

import jinja2
import yaml
from PIL import Image

from minbert.base.environment import commit
from minbert.base.files import write_text
from minbert.base.progress import duration
from minbert.evaluate import claims
from minbert.evaluate.index import in_words
from minbert.evaluate.reading import FAVOURED, GUESS
from minbert.evaluate.seeds import Interval
from minbert.evaluate.table import FAILED, SCORED, remarks, sections, table_rows
from minbert.evaluate.text import read_csv
from minbert.report import findings
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
        "duration": duration,
        "interval": Interval.in_words,
        # The verdict is second, for narrow screens.
        "early": lambda cells: (cells[0], cells[-1], *cells[1:-1]),
        "status": lambda status: {SCORED: "", FAILED: "failed"}.get(status, "absent"),
        "hash": _hash,
        "score": lambda value: "—" if value is None else f"{value:.3f}",
    }
    page = environment.get_template("page.html.j2").render(_page(job))
    write_text(job.out / "report.html", page)


def _hash(text: str) -> str:
    """Return what a Content-Security-Policy calls an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _page(job: Job) -> dict[str, Any]:
    """Return what the templates show; files of data, runs and figures may be missing."""
    spec, papers, index = job.spec, list(findings.read_papers(job)), read_csv(job.need("index"))
    command, runs = job.root / "logs" / COMMAND, findings.records(job, "run")
    where = findings.environments(runs)
    claimed = findings.spec_of(job, "claims") if "claims" in job.described["needs"] else {}
    return {
        "spec": spec,
        "index": index,
        "in_words": in_words,
        "guess": GUESS,
        "favoured": FAVOURED[spec["selection_split"]],
        "best": list(findings.best_variants(papers, index)),
        "against_papers": list(findings.against_papers(index)),
        "unlearned": findings.unlearned(papers),
        "cases": findings.cases(job, papers, index, where["commit"]),
        "claims": claims,
        "claimed": claimed,
        "lines": read_csv(job.need("claims")) if claimed else [],
        "papers": [_paper(job, paper) for paper in papers],
        "pictures": [picture(job, name) for name in spec["figures"]],
        "runs": runs,
        "wanted": len(job.needs("run")),
        "environments": where,
        "config": yaml.safe_dump(spec["config"], **YAML),
        "command": command.read_text(encoding="utf-8") if command.is_file() else "",
        "commit": commit(),
    }


def _paper(job: Job, paper: findings.Paper) -> dict[str, Any]:
    rows = table_rows(job, paper.about)
    return {
        **paper._asdict(),
        "rows": rows,
        "sections": sections(paper.about, rows),
        "worst": list(findings.worst(job, paper)),
        "remarks": [*remarks(paper.about, rows), *paper.about["footnotes"]],
    }


def picture(job: Job, name: str) -> dict[str, Any]:
    """Return a figure; its `source` in the page is a data URL, "" if it was not drawn."""
    spec, path = findings.spec_of(job, f"figure.{name}"), job.need(f"figure.{name}")
    found = {"name": name, "paper": spec["paper"], "source": "", **spec["draw"]}
    if path.is_file():
        packed, size = webp(path, 2)  # sharp on a screen; the page links the file for print
        found["source"] = "data:image/webp;base64," + base64.b64encode(packed).decode()
        found["width"], found["height"] = size
    return found


def webp(path: Path, shrink: int = 1) -> tuple[bytes, tuple[int, int]]:
    """Return a figure as a WebP file of at most 128 colours, and its size, divided by `shrink`."""
    packed = io.BytesIO()
    with Image.open(path) as image:
        small = image.convert("RGB").reduce(shrink).quantize(128, dither=Image.Dither.NONE)
        small.convert("RGB").save(packed, "WEBP", lossless=True)
        return packed.getvalue(), small.size
