"""What there is, when not all is: tables of a workflow that ended with failed jobs.

Only plain names are written. Keyed paths hold complete results alone, and no mark is left: the
next run makes all of it anew.
"""

from __future__ import annotations

import csv
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from minbert.common.files import read_json, whole
from minbert.common.parquet import read_file
from minbert.evaluate.claims import build_claims
from minbert.evaluate.index import build_index
from minbert.evaluate.publish import clear_marks
from minbert.evaluate.score import score_runs
from minbert.evaluate.table import build_table
from minbert.grid.job import Job
from minbert.grid.node import description_path, node_folder, read_listing
from minbert.track.attempts import attempts
from minbert.track.grid_run import ALL, record_grids

KEPT = (("scores", "scores.parquet"), ("table", "table.csv"))


def publish_partial(root: Path, stamp: str) -> str:
    """Publish tables, index and figures from the runs that finished; return a summary in words.

    A variant whose latest attempt at one of its stages ended in an error shows as failed, with
    the error; one that waits for such a stage, or was not reached, as not run.
    """
    listed = read_listing(root, stamp)
    clear_marks(root)
    failures = failed_variants(root)
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder)
        made: dict[str, Path] = {}
        for paper, keys in listed["papers"].items():
            out = made[paper] = temporary / paper
            out.mkdir()
            runs = list(score_entries(_job(root, "scores", keys["scores"])))
            score_runs(runs, out / "scores.parquet")
            spec = _job(root, "table", keys["table"]).spec
            of_paper = {variant: why for (p, variant), why in failures.items() if p == paper}
            build_table(spec, out / "scores.parquet", out, "table", of_paper)
        published = _job(root, "index", listed["index"]).spec["published"]
        summary = build_index(published, [out / "table.csv" for out in made.values()], temporary)
        instead = {
            f"{kind}/{paper}": out / file for paper, out in made.items() for kind, file in KEPT
        }
        instead["index"] = temporary / "index.csv"
        sources = {f"tables/{name}": temporary / name for name in ("index.csv", "index.md")}
        for paper, out in made.items():
            sources |= {f"tables/{paper}.{e}": out / f"table.{e}" for e in ("csv", "md", "tex")}
        if listed["figures"]:
            from minbert.figures.partial import draw_partial  # brings matplotlib

            drawn = draw_partial(root, listed, made, failures, temporary / "figures")
            sources |= drawn
            instead |= {
                f"figure/{name.removesuffix('.png')}": path
                for name, path in drawn.items()
                if name.endswith(".png")
            }
        if listed["claims"]:
            job = _job(root, "claims", listed["claims"])
            scored = {paper: out / "scores.parquet" for paper, out in made.items()}
            build_claims(job.spec, scored, job.needs("predictions"), temporary)
            sources |= {
                f"tables/claims.{e}": temporary / f"claims.{e}" for e in ("csv", "md", "tex")
            }
            instead["claims"] = temporary / "claims.csv"
        from minbert.report.make import write_report

        sources["report.html"] = temporary / "report.html"
        write_report(
            _job(root, "report", listed["report"]), sources["report.html"], instead, failures
        )
        for name, keyed in listed["products"].items():
            source = sources.get(name, Path(keyed))
            if source.exists():
                with whole(root / name) as target:
                    shutil.copyfile(source, target)
            else:
                (root / name).unlink(missing_ok=True)
        tables = [read_file(out / "scores.parquet") for out in made.values()]
        with whole(root / "tables" / "scores.parquet") as target:
            pq.write_table(pa.concat_tables(tables), target)
    record_grids(root, listed, complete=False)
    said = [f"{paper}: {variant} failed: {why}" for (paper, variant), why in failures.items()]
    return "\n".join([*said, summary])


def score_entries(job: Job) -> Iterator[dict[str, Any]]:
    """Yield the runs of a scores job as `score_runs` takes them, with the paths of their files."""
    for run in job.spec["runs"]:
        yield run | {
            "tasks": {
                task: {"key": key}
                | {
                    name: job.need(f"{name}.{key}.{run['seed']}")
                    for name in ("predictions", "history")
                }
                for task, key in run.get("tasks", {}).items()
            }
        }


def failed_variants(root: Path) -> dict[tuple[str, str], str]:
    """Return {(paper, variant): why} for variants of the plan that have a failed stage.

    A stage has failed if its newest attempt ended in an error, or died without a word, and left
    no record of a finished run. One that was told to stop has not: it was not run to its end.
    Nor has one that finished and whose files were deleted since.
    """
    newest = {attempt.group: attempt for attempt in attempts(root)}
    why: dict[str, str] = {}
    for (key, seed), attempt in newest.items():
        if seed == ALL or (node_folder(root, "train", key, int(seed)) / "run.json").exists():
            continue
        end = attempt.end()
        if end is None and not attempt.alive():
            why[key] = f"seed {seed}: killed"
        elif end and end["error"] and not end["error"].startswith("SystemExit"):
            why[key] = f"seed {seed}: {end['error']}"
    found: dict[tuple[str, str], str] = {}
    with (root / "variants.tsv").open(encoding="utf-8", newline="") as handle:
        for row in csv.DictReader(handle, delimiter="\t"):
            if row["key"] in why:
                stage = f"stage '{row['stage']}', {why[row['key']]}"
                found.setdefault((row["paper"], row["variant"]), stage)
    return found


def _job(root: Path, kind: str, key: str) -> Job:
    return Job(root, read_json(description_path(root, kind, key)), None, 1)
