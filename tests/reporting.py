"""Results of a planned paper, made up, and the report of them: in unit tests and in Chromium."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from PIL import Image
from unit.factories import edit_rows, put_rows
from unit.figure_files import qualities, write_history, write_predictions, write_texts

from minbert.base.files import read_json, write_json, write_text
from minbert.plan.describe import write
from minbert.plan.outputs import load_plan
from minbert.plan.plan import Plan
from minbert.report.make import COMMAND, make
from minbert.store.job import Job
from minbert.store.node import Node
from minbert.store.plans import description_path

ROOT = Path(__file__).parents[1]
PAPER = "hybrid-bert"
SEEDS = (0, 1, 2)
FAILED, NOT_RUN, CONSTANT = "3-bert", "hybrid-bert-40", "sequential"
HARM = "<script>document.title = 'broken'</script>"
LINK = "<a href=\"javascript:document.title='broken'\" onclick=\"document.title='broken'\">x</a>"
IMAGE = "<img src=x onerror=\"document.title='broken'\">"
END = "</script></style></title></svg><script>document.title = 'broken'</script><!--"
LATEX = "\\input{/etc/passwd} $\\alpha$ \\href{javascript:alert(1)}{x}"
HOSTILE = (HARM, LINK, IMAGE, END, LATEX)
"""Texts that would run, or load, if they were taken for HTML or LaTeX."""


def plan_results(folder: Path) -> Plan:
    """Plan one paper, and leave results of most of its variants; one predicts one class alone."""
    config: dict[str, Any] = {"grids": [PAPER], "seeds": SEEDS, "data": "builtin"}
    config |= {"backbone": "builtin", "results": str(folder), "course": "/home/someone/private"}
    made = load_plan(config, ROOT)
    write(made)
    variants = made.grids[0].variants
    there = {n: q for n, q in qualities(variants).items() if n not in (FAILED, NOT_RUN)}
    for ref, stage in made.stages.items():
        if ref.variant in there:
            for seed in SEEDS:
                at, tasks = made.train(ref).folder(made.root, seed), stage.spec.ordered_tasks
                write_json(at / "run.json", record(seed))
                write_history(at / "history.parquet", tasks, there[ref.variant], seed, epochs=3)
                path = write_predictions(
                    at / "predictions.parquet", tasks, there[ref.variant], seed
                )
                if ref.variant == CONSTANT:
                    _make_constant(path, "sst")
    described = job_of(made, made.shown["tables/claims"]).described
    described["spec"]["claims"][0]["claim"] += f" {HARM}"
    write_json(description_path(made.root, "claims", described["key"]), described)
    for name in (f"scores/{PAPER}", f"tables/{PAPER}", "tables/index", "tables/claims"):
        import_module(made.shown[name].maker).make(job_of(made, made.shown[name]))
    for name, node in made.shown.items():
        if node.kind == "figure" and not name.endswith("stability"):
            path = node.folder(made.root) / "figure.png"
            path.parent.mkdir(parents=True)
            Image.linear_gradient("L").resize((2200, 900)).save(path)
    for name, need in made.shown["report"].needs.items():
        path = need.node.folder(made.root) / need.file if need.node.kind == "data" else None
        if path and name.startswith("data."):
            found = {"overlaps": {"dev in train": 3}, "rejected": {"dev": 2}}
            write_json(path, {"rows": {}, **found, "warnings": [f"no row of {HARM}"]})
        elif path:
            write_texts(path, name.partition(".")[2])
            _make_hostile(path)
    write_text(made.root / "logs" / COMMAND, f"snakemake --config note='{HARM}' all\n")
    return made


def job_of(plan: Plan, node: Node, **settings: Any) -> Job:
    """Return the job of a planned node."""
    described = read_json(description_path(plan.root, node.kind, node.key))
    return Job(plan.root, described, None, 1, **settings)


def write_report(plan: Plan) -> Path:
    """Make the report of a workflow in which one variant failed, with hostile labels; its path."""
    why = f"stage 'main', seed 0: the loss is not finite {HARM}"
    job = job_of(plan, plan.shown["report"], failures={(PAPER, FAILED): why})
    described = job_of(plan, plan.shown[f"tables/{PAPER}"]).described
    for name in ("baseline", "1-bert"):
        described["spec"]["labels"][name] += " ".join(HOSTILE)
    write_json(description_path(plan.root, "table", described["key"]), described)
    make(job)
    return job.out / "report.html"


def record(seed: int) -> dict[str, Any]:
    """Return the record of a run."""
    where = {"commit": "abc+" if seed else "def", "device": "cpu", "packages": {"torch": "2.13"}}
    where |= {"precision": "fp32", "threads": 1, "python": "3.11", "platform": "Linux"}
    outcome = {"best_epoch": 9, "best_score": 0.7, "seconds": 60.0 * (seed + 1)}
    return {"seed": seed, "parameters": 109_000_000, "outcome": outcome, "environment": where}


def _make_constant(path: Path, task: str) -> None:
    one = {"prediction": 1.0, "scores": [0.0, 1.0, 0.0, 0.0, 0.0]}
    edit_rows(path, lambda row: row.update(one if row["task"] == task else {}))


def _make_hostile(path: Path) -> None:
    """Put hostile texts into all dev examples, and one text into train and test of each task."""
    table = pq.read_table(path)
    rows = table.to_pylist()
    for n, row in enumerate(rows):
        if row["split"] == "dev":
            row["sentence1"] += f" {HOSTILE[n % len(HOSTILE)]} \u202e\x1b[31m"
    rows[0]["sentence1"] = rows[-1]["sentence1"] = "In train and in test."
    put_rows(path, rows, table.schema)
