"""Results under readable names, the files that people look at, copied from where keys put them.

All readable names are of one plan, and `published.json` says of which. The next plan replaces them
all: its own are copied, those that it does not have are removed. The store keeps what earlier plans
made, so that going back copies these again.

After failures, tables, figures and the report are made from what there is, by the same makers, in a
temporary folder that looks like the results: it has links to what is complete. The results of runs
that failed or were not reached are missing there, and `Job.failures` says why. Makers show such
runs as failed or not run. Keyed paths hold complete results alone: only readable names are written,
without a mark, so that the next run makes everything again.
"""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from minbert.base.errors import UserError
from minbert.base.files import whole, write_json
from minbert.base.locks import exclusive_lock
from minbert.data.parquet import read_file
from minbert.evaluate.text import write_csv
from minbert.spec.task import use_tasks_of
from minbert.store.job import Job, node_folder
from minbert.store.node import KINDS, finished
from minbert.store.plans import (
    PUBLISHED,
    SCORES,
    VARIANT_COLUMNS,
    VARIANTS,
    describe_job,
    manifest,
    products,
    read_plan,
    stage_rows,
)
from minbert.track.journal import newest_attempts
from minbert.track.runs import record_rows

SHOWN = [kind for kind, of in KINDS.items() if of.shown]


def publish(root: Path, plan: str, mark: Path) -> None:
    """Copy each product of a plan to its readable name, and leave its `mark` (`Plan.mark`)."""
    with _publishing(root, plan) as record:
        _take(root, plan, record, root, record["stamp"])
        mark.touch()


def publish_one(root: Path, plan: str, name: str) -> None:
    """Copy one product of a plan to its plain `name`.

    If the files beside it are of a different plan, all are to be made again.
    """
    with _publishing(root, plan) as record:
        folder = root / record["below"]
        page = {"names": [], "stamp": "", "configured": record["configured"], **manifest(folder)}
        page["names"] = sorted({*page["names"], name})
        if page["stamp"] != record["stamp"]:
            page["stamp"] = ""
        write_json(folder / PUBLISHED, page)
        _copy(products(root, record)[name], folder / name)


def publish_partial(root: Path, plan: str) -> str:
    """Publish what can be made from the runs that finished; say what could not be made, and why.

    A variant shows as failed, with the error, if the latest attempt at one of its stages ended in
    an error; as not run if it waits for such a stage or was not reached. A figure that cannot be
    drawn is reported, and its picture says so.
    """
    from minbert.figures.make import draw_fault  # loads matplotlib

    undrawn: dict[Path, str] = {}
    with _publishing(root, plan) as record, tempfile.TemporaryDirectory() as folder:
        failures = failed_variants(root, record)
        results, made = root.resolve(), Path(folder)
        (made / "store").mkdir()
        kept = [path for path in (results / "store").iterdir() if path.name not in SHOWN]
        for path in (results / "logs", *kept):
            (made / path.relative_to(results)).symlink_to(path)
        for name, kind, key in record["shown"]:
            keyed, out = (node_folder(at, kind, key) for at in (results, made))
            out.parent.mkdir(exist_ok=True)
            if finished(kind, keyed):
                out.symlink_to(keyed)
                continue
            out.mkdir()
            job = Job(made, describe_job(root, kind, key, plan), None, 1, failures=failures)
            try:
                import_module(job.described["maker"]).make(job)
            except Exception as error:  # whatever it is, the others can be drawn
                if kind != "figure":
                    raise
                why = error if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
                undrawn[out] = f"{name}: not drawn: {why}"
                shutil.rmtree(out)  # So the report warns that it is missing.
        for out, fault in undrawn.items():
            draw_fault(fault, out / "figure")
        _take(root, plan, record, made)
    failed = [f"{paper}: {variant} failed: {why}" for (paper, variant), why in failures.items()]
    return "\n".join([*failed, *undrawn.values()])


def failed_variants(root: Path, plan: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """Return {(paper, variant): why} for those in the record of a plan that failed.

    A stage has failed if its newest attempt with a seed of the plan ended in an error, or died
    without a word, and left no record of a finished run. One that was told to stop has not failed,
    and neither has one that finished and whose files were deleted since.
    """
    why, seeds = {}, {seed for paper in plan["papers"].values() for seed in paper["seeds"]}
    for (key, seed), attempt in newest_attempts(root).items():
        record = node_folder(root, "train", key, int(seed)) / "run.json"
        due = int(seed) in seeds and not record.exists()
        if due and (failure := attempt.failure()):
            why[key] = f"seed {seed}: {failure}"
    return {
        (row["paper"], row["variant"]): f"stage '{row['stage']}', {why[row['key']]}"
        for row in stage_rows(plan["variants"])
        if row["key"] in why
    }


@contextmanager
def _publishing(root: Path, plan: str) -> Iterator[dict[str, Any]]:
    """Hold the readable names under `root` for a block, and yield the record of a plan."""
    record = read_plan(root, plan)
    use_tasks_of(record)
    with exclusive_lock(root / "store" / "published", f"publishing in {root}", float("inf")):
        yield record


def _take(root: Path, plan: str, record: Mapping[str, Any], source: Path, stamp: str = "") -> None:
    """Copy each product to its name, join the scores of all papers, and list the variants.

    Say first of which plan the names are: those of a plan of a part are in a folder of their own.
    Products are those of the results `source`. Names that the plan before had and this one has not
    are removed. MLflow is told of whole grids. Without a `stamp`, names are to be made again.
    """
    folder, new = root / record["below"], products(source, record)
    before, page = manifest(folder), {"plan": plan, "configured": record["configured"]}
    names = {*before.get("names", []), *new}
    page |= {"stamp": "", "names": sorted(names)}
    write_json(folder / PUBLISHED, page)  # if this is killed halfway
    for name, keyed in new.items():
        _copy(keyed, folder / name)
    for name in names - new.keys():
        (folder / name).unlink(missing_ok=True)
    keys = [key for _, kind, key in sorted(record["shown"]) if kind == "scores"]
    made = (node_folder(source, "scores", key) / "scores.parquet" for key in keys)
    with whole(folder / SCORES) as temporary:
        pq.write_table(pa.concat_tables(map(read_file, made)), temporary)
    rows = stage_rows(record["variants"])
    write_csv(folder / VARIANTS, VARIANT_COLUMNS, rows, "\t")
    if not record["below"]:
        record_rows(root, record)
    write_json(folder / PUBLISHED, page | {"stamp": stamp, "names": sorted(new)})


def _copy(keyed: Path, target: Path) -> None:
    with whole(target) as temporary:
        shutil.copyfile(keyed, temporary)
