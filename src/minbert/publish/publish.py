"""Results under their plain names, copied from where their keys put them.

After failures, tables, figures and the report are made from what there is, by the same makers. A
job then has a temporary folder for what it makes, and finds there what was made before it; the
results of runs that failed or were not reached are missing from its needs, and `Job.failures`
says why. Makers show such runs as failed or not run. Keyed paths hold complete results alone:
only plain names are written, without a mark, so that the next run makes everything again.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from minbert.base.errors import UserError
from minbert.base.files import whole
from minbert.data.parquet import read_file
from minbert.evaluate.index import in_words
from minbert.evaluate.text import read_csv
from minbert.store.job import Job, node_folder
from minbert.store.node import finished, published_path, read_description, read_listing
from minbert.track.journal import END, newest_attempts
from minbert.track.runs import ALL, record_grids


def publish(root: Path, stamp: str) -> None:
    """Copy each product to its plain name, join the papers' scores, and leave the stamp's mark.

    Marks of earlier stamps are removed first, so that going back to an earlier configuration
    publishes again although everything it needs is still there, even if this is killed halfway.
    """
    listed = read_listing(root, stamp)
    _clear_marks(root)
    _copy(root, listed, None)
    record_grids(root, listed, complete=True)
    published_path(root, stamp).with_suffix(".done").touch()


def publish_partial(root: Path, stamp: str) -> str:
    """Publish what can be made from the runs that finished; return a summary in words.

    A variant shows as failed, with the error, if the latest attempt at one of its stages ended in
    an error; as not run if it waits for such a stage or was not reached. A figure that cannot be
    drawn is reported on stderr and left out.
    """
    listed = read_listing(root, stamp)
    _clear_marks(root)
    failures = failed_variants(root)
    with tempfile.TemporaryDirectory() as folder:
        for name, kind, key in _shown(listed):
            described = read_description(root, kind, key)
            job = _PartialJob(root, described, None, 1, failures=failures, folder=Path(folder))
            if kind == "figure" and finished(kind, job.spec, node_folder(root, kind, key)):
                continue
            job.out.mkdir(parents=True)
            try:
                import_module(described["maker"]).make(job)
            except UserError as error:
                if kind != "figure":
                    raise
                print(f"{name}: not drawn: {error}", file=sys.stderr)
                shutil.rmtree(job.out)
        _copy(root, listed, Path(folder))
    record_grids(root, listed, complete=False)
    said = [f"{paper}: {variant} failed: {why}" for (paper, variant), why in failures.items()]
    return "\n".join([*said, in_words(read_csv(root / "tables" / "index.csv"))])


@dataclass(frozen=True)
class _PartialJob(Job):
    """A job after failures: `folder` is a root of its own for what it and the others make."""

    folder: Path = Path()

    @property
    def out(self) -> Path:
        return node_folder(self.folder, self.described["kind"], self.described["key"])

    def need(self, name: str) -> Path:
        keyed = super().need(name)
        made = self.folder / keyed.relative_to(self.root)
        return made if made.exists() else keyed


def _shown(listed: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield (name, kind, key) of what is made for people, in the order in which it is made."""
    for paper, keys in listed["papers"].items():
        yield from ((paper, kind, keys[kind]) for kind in ("scores", "table"))
    yield from ((kind, kind, listed[kind]) for kind in ("index", "claims") if listed[kind])
    yield from ((name, "figure", key) for name, key in listed["figures"].items())
    yield "report", "report", listed["report"]


def failed_variants(root: Path) -> dict[tuple[str, str], str]:
    """Return {(paper, variant): why} for planned variants with a failed stage.

    A stage has failed if its newest attempt ended in an error, or died without a word, and left no
    record of a finished run. One that was told to stop has not failed, and neither has one that
    finished and whose files were deleted since.
    """
    why: dict[str, str] = {}
    for (key, seed), attempt in newest_attempts(root).items():
        if seed == ALL or (node_folder(root, "train", key, int(seed)) / "run.json").exists():
            continue
        end = attempt.recall(END)
        if not end and not attempt.alive():
            why[key] = f"seed {seed}: killed"
        elif end.get("status") == "FAILED":
            why[key] = f"seed {seed}: {end['error']}"
    found: dict[tuple[str, str], str] = {}
    for row in read_csv(root / "variants.tsv", delimiter="\t"):
        if row["key"] in why:
            stage = f"stage '{row['stage']}', {why[row['key']]}"
            found.setdefault((row["paper"], row["variant"]), stage)
    return found


def _copy(root: Path, listed: Mapping[str, Any], partial: Path | None) -> None:
    """Copy each product to its plain name, and join the papers' scores.

    What is in `partial`, a root for results made after failures, counts before the keyed files; a
    product that is in neither is removed. Without `partial` all are there.
    """

    def source(keyed: str) -> Path:
        made = Path(partial or root, *Path(keyed).parts[-4:])
        return made if partial and made.exists() else Path(keyed)

    for name, keyed in listed["products"].items():
        if partial and not source(keyed).exists():
            (root / name).unlink(missing_ok=True)
            continue
        with whole(root / name) as temporary:
            shutil.copyfile(source(keyed), temporary)
    tables = [read_file(source(keyed)) for keyed in listed["scores"]]
    with whole(root / "tables" / "scores.parquet") as temporary:
        pq.write_table(pa.concat_tables(tables), temporary)


def _clear_marks(root: Path) -> None:
    for mark in (root / "store" / "published").glob("*.done"):
        mark.unlink()
