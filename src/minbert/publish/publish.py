"""Results under their plain names, the files that people look at, copied from where keys put them.

All plain names are of one plan, and `published.json` says of which. The next plan replaces them
all: its own are copied, those that it does not have are removed. The store keeps what earlier plans
made, so that going back copies these again.

After failures, tables, figures and the report are made from what there is, by the same makers, in a
temporary folder that looks like the results: it has links to what is complete. The results of runs
that failed or were not reached are missing there, and `Job.failures` says why. Makers show such
runs as failed or not run. Keyed paths hold complete results alone: only plain names are written,
without a mark, so that the next run makes everything again.
"""

import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
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
from minbert.store.node import KINDS, finished
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
from minbert.track.runs import record_rows

SHOWN = [kind for kind, of in KINDS.items() if of.shown]


def publish(root: Path, plan: str, mark: Path) -> None:
    """Copy each product of a plan to its plain name, and leave its `mark` (`Plan.mark`)."""
    record = read_plan(root, plan)
    use_tasks_of(record)
    with _publishing(root):
        _take(root, plan, record, root, record["stamp"])
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
        (key,) = (key for _, kind, key in record["shown"] if kind == "index")
        index = in_words(read_csv(node_folder(made, "index", key) / "index.csv"))
    failed = [f"{paper}: {variant} failed: {why}" for (paper, variant), why in failures.items()]
    return "\n".join([*failed, *undrawn.values(), index])


def failed_variants(root: Path, variants: Iterable[Sequence[str]]) -> dict[tuple[str, str], str]:
    """Return {(paper, variant): why} for those of `variants` that failed.

    These are rows of `VARIANT_COLUMNS`. A stage has failed if its newest attempt ended in an error,
    or died without a word, and left no record of a finished run. One that was told to stop has not
    failed, and neither has one that finished and whose files were deleted since.
    """
    why = {}
    for (key, seed), attempt in newest_attempts(root).items():
        record = node_folder(root, "train", key, int(seed)) / "run.json"
        if not record.exists() and (failure := attempt.failure()):
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


def _take(root: Path, plan: str, record: Mapping[str, Any], source: Path, stamp: str = "") -> None:
    """Copy each product to its name, join the scores of all papers, and list the variants.

    Products are those of the results `source`. One that is not there is removed, as are the names
    that the plan before had and this one has not. MLflow is told of whole grids. Without a `stamp`,
    names are to be made again.
    """
    folder, new = root / record["below"], products(source, record)
    before = held(folder).get("names", [])
    _say(root, record, plan, "", {*before, *new})  # if this is killed halfway
    for name in dict.fromkeys([*new, *before]):
        if name in new and new[name].exists():
            _copy(new[name], folder / name)
        else:
            (folder / name).unlink(missing_ok=True)
    keys = [key for _, kind, key in sorted(record["shown"]) if kind == "scores"]
    made = (node_folder(source, "scores", key) / "scores.parquet" for key in keys)
    with whole(folder / SCORES) as temporary:
        pq.write_table(pa.concat_tables(map(read_file, made)), temporary)
    rows = stage_rows(record["variants"])
    write_text(folder / VARIANTS, csv_text(VARIANT_COLUMNS, rows, "\t"))
    if not record["below"]:
        record_rows(root, record)
    _say(root, record, plan, stamp, new)


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
