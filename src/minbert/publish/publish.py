"""Results under their plain names, the files that people look at, copied from where keys put them.

All plain names are of one plan, and `published.json` says of which. The next plan replaces them
all: its own are copied, those that it does not have are removed. The store keeps what earlier plans
made, so that going back copies these again.

After failures, tables, figures and the report are made from what there is, by the same makers. A
job then has a temporary folder for what it makes, and finds there what was made before it; the
results of runs that failed or were not reached are missing from its needs, and `Job.failures`
says why. Makers show such runs as failed or not run. Keyed paths hold complete results alone:
only plain names are written, without a mark, so that the next run makes everything again.
"""

import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from minbert.base.errors import UserError
from minbert.base.files import whole, write_json, write_text
from minbert.base.locks import FOREVER, exclusive_lock
from minbert.data.parquet import read_file
from minbert.evaluate.index import in_words
from minbert.evaluate.text import csv_text, read_csv
from minbert.spec.task import use_tasks_of
from minbert.store.job import Job, node_folder
from minbert.store.node import finished
from minbert.store.plans import (
    PUBLISHED,
    SCORES,
    VARIANT_COLUMNS,
    VARIANTS,
    describe_job,
    held,
    products,
    read_plan,
    stage_rows,
)
from minbert.track.journal import newest_attempts
from minbert.track.rows import record_rows


def publish(root: Path, plan: str, mark: Path) -> None:
    """Copy each product of a plan to its plain name, and leave its `mark` (`Plan.mark`)."""
    record = read_plan(root, plan)
    use_tasks_of(record)
    with _publishing(root):
        _take(root, plan, record)
        _say(root, record, plan, record["stamp"], products(root, record))
        for earlier in mark.parent.glob(f"{record['stamp']}-*.done"):
            earlier.unlink()
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


def publish_one(root: Path, plan: str, name: str) -> None:
    """Copy one product of a plan to its plain `name`.

    If those beside it are of another plan, all are to be made again.
    """
    record = read_plan(root, plan)
    with _publishing(root):
        before = held(root / record["below"])
        same = record["stamp"] if before.get("stamp") == record["stamp"] else ""
        _say(root, record, before.get("plan", ""), same, {*before.get("names", []), name})
        _copy(products(root, record)[name], root / record["below"] / name)


def publish_partial(root: Path, plan: str) -> str:
    """Publish what can be made from the runs that finished; return a summary in words.

    A variant shows as failed, with the error, if the latest attempt at one of its stages ended in
    an error; as not run if it waits for such a stage or was not reached. A figure that cannot be
    drawn is reported, and its picture says so.
    """
    from minbert.figures.make import draw_fault  # loads matplotlib

    record = read_plan(root, plan)
    use_tasks_of(record)
    failures = failed_variants(root, record["variants"])
    undrawn: dict[Path, str] = {}
    with _publishing(root), tempfile.TemporaryDirectory() as folder:
        for name, kind, key in record["shown"]:
            described = describe_job(root, kind, key, plan)
            job = PartialJob(root, described, None, 1, failures=failures, folder=Path(folder))
            if kind == "figure" and finished(kind, node_folder(root, kind, key)):
                continue
            job.out.mkdir(parents=True)
            try:
                import_module(described["maker"]).make(job)
            except Exception as error:  # whatever it is, the others can be drawn
                if kind != "figure":
                    raise
                why = error if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
                undrawn[job.out] = f"{name}: not drawn: {why}"
                shutil.rmtree(job.out)  # So the report warns that it is missing.
        for out, fault in undrawn.items():
            draw_fault(fault, out / "figure")
        _take(root, plan, record, Path(folder))
        (key,) = (key for _, kind, key in record["shown"] if kind == "index")
        index = in_words(read_csv(node_folder(Path(folder), "index", key) / "index.csv"))
    failed = [f"{paper}: {variant} failed: {why}" for (paper, variant), why in failures.items()]
    return "\n".join([*failed, *undrawn.values(), index])


@dataclass(frozen=True)
class PartialJob(Job):
    """A job that writes nothing into the results: `folder` is a root of its own for what it makes.

    It finds there what other such jobs made before it, and the rest in the results.
    """

    folder: Path = Path()

    @property
    def out(self) -> Path:
        return node_folder(self.folder, self.described["kind"], self.described["key"])

    def need(self, name: str) -> Path:
        keyed = super().need(name)
        made = self.folder / keyed.relative_to(self.root)
        return made if made.exists() else keyed


def failed_variants(root: Path, variants: Iterable[Sequence[str]]) -> dict[tuple[str, str], str]:
    """Return {(paper, variant): why} for those of `variants` that failed.

    These are rows of `VARIANT_COLUMNS`. A stage has failed if its newest attempt ended in an error,
    or died without a word, and left no record of a finished run. One that was told to stop has not
    failed, and neither has one that finished and whose files were deleted since.
    """
    why: dict[str, str] = {}
    for (key, seed), attempt in newest_attempts(root).items():
        if (node_folder(root, "train", key, int(seed)) / "run.json").exists():
            continue
        if failure := attempt.failure():
            why[key] = f"seed {seed}: {failure}"
    found: dict[tuple[str, str], str] = {}
    for row in stage_rows(variants):
        if row["key"] in why:
            told = f"stage '{row['stage']}', {why[row['key']]}"
            found.setdefault((row["paper"], row["variant"]), told)
    return found


def _publishing(root: Path) -> AbstractContextManager[bool]:
    """Hold the plain names under `root` for a block."""
    return exclusive_lock(root / "store" / "published", f"publishing in {root}", patience=FOREVER)


def _take(root: Path, plan: str, record: Mapping[str, Any], partial: Path | None = None) -> None:
    """Copy each product to its name, join the scores of all papers, and list the variants.

    What is in `partial`, a root for results made after failures, counts before the keyed files; a
    product that is in neither is removed, as are the names that the plan before had and this one
    has not. MLflow is told of whole grids. Names are then to be made again unless `_say` follows.
    """
    folder, new = root / record["below"], products(root, record)

    def source(keyed: Path) -> Path:
        made = (partial or root) / keyed.relative_to(root)
        return made if made.exists() else keyed

    before = held(folder).get("names", [])
    _say(root, record, plan, "", {*before, *new})  # if this is killed halfway
    for name in dict.fromkeys([*new, *before]):
        keyed = source(new[name]) if name in new else None
        if keyed and (keyed.exists() or not partial):
            _copy(keyed, folder / name)
        elif (folder / name).is_file():
            (folder / name).unlink()
    keys = sorted((name, key) for name, kind, key in record["shown"] if kind == "scores")
    made = (node_folder(root, "scores", key) / "scores.parquet" for _, key in keys)
    with whole(folder / SCORES) as temporary:
        pq.write_table(pa.concat_tables(read_file(source(path)) for path in made), temporary)
    rows = stage_rows(record["variants"])
    write_text(folder / VARIANTS, csv_text(VARIANT_COLUMNS, rows, "\t"))
    _say(root, record, plan, "", new)
    if not record["below"]:
        record_rows(root, record)


def _copy(keyed: Path, target: Path) -> None:
    with whole(target) as temporary:
        shutil.copyfile(keyed, temporary)


def _say(
    root: Path, record: Mapping[str, Any], plan: str, stamp: str, names: Iterable[str]
) -> None:
    """Say of which plan the plain names are; without a `stamp` they are to be made again.

    Those of a plan of a part are in a folder of their own, and leave the others as they are.
    """
    page = {"plan": plan, "stamp": stamp, "names": sorted(names)}
    page["configured"] = record["configured"]
    write_json(root / record["below"] / PUBLISHED, page)
