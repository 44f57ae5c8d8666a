"""The plain names: the files that people look at, copied from where their keys put them.

All of them are of one plan, and `published.json` says of which. The next plan replaces them all:
its own are copied, those that it does not have are removed. The store keeps what earlier plans
made, so that going back copies these again.
"""

import shutil
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from minbert.base.files import whole, write_json, write_text
from minbert.base.locks import FOREVER, exclusive_lock
from minbert.data.parquet import read_file
from minbert.evaluate.text import csv_text
from minbert.store.job import node_folder
from minbert.store.plans import (
    PUBLISHED,
    SCORES,
    VARIANT_COLUMNS,
    VARIANTS,
    held,
    products,
    shown_of,
    stage_rows,
)


def publishing(root: Path) -> AbstractContextManager[bool]:
    """Hold the plain names under `root` for a block."""
    return exclusive_lock(root / "store" / "published", f"publishing in {root}", patience=FOREVER)


class PlainNames:
    """The plain names under `root`, as the plan of `record` takes them.

    Those of a plan of a part are in a `folder` of their own, and leave the others as they are.
    """

    def __init__(self, root: Path, plan: str, record: Mapping[str, Any]) -> None:
        self.root, self.plan, self.record = root, plan, record
        self.folder = root / record["below"]
        self._before = held(self.folder)
        self.products = products(root, record)

    def take(self, partial: Path | None = None) -> None:
        """Copy each product to its name, join the scores of all papers, and list the variants.

        What is in `partial`, a root for results made after failures, counts before the keyed
        files; a product that is in neither is removed, as are the names that the plan before had
        and this one has not. `finish` comes after it, unless they are to be made again.
        """

        def source(keyed: Path) -> Path:
            made = (partial or self.root) / keyed.relative_to(self.root)
            return made if partial and made.exists() else keyed

        before = self._before.get("names", [])
        self._say(self.plan, "", {*before, *self.products})  # if this is killed halfway
        for name in dict.fromkeys([*self.products, *before]):
            keyed = source(self.products[name]) if name in self.products else None
            if keyed and (keyed.exists() or not partial):
                self._copy(keyed, name)
            elif (self.folder / name).is_file():
                (self.folder / name).unlink()
        keys = [key for _, kind, key in sorted(shown_of(self.record)) if kind == "scores"]
        folders = [node_folder(self.root, "scores", key) for key in keys]
        scores = [read_file(source(folder / "scores.parquet")) for folder in folders]
        with whole(self.folder / SCORES) as temporary:
            pq.write_table(pa.concat_tables(scores), temporary)
        rows = stage_rows(self.record["variants"])
        write_text(self.folder / VARIANTS, csv_text(VARIANT_COLUMNS, rows, "\t"))
        self._say(self.plan, "", self.products)

    def finish(self, mark: Path) -> None:
        """Say that all names are in place, and leave the plan's mark, alone of its stamp."""
        self._say(self.plan, self.record["stamp"], self.products)
        for earlier in mark.parent.glob(f"{self.record['stamp']}-*.done"):
            earlier.unlink()
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()

    def take_one(self, name: str) -> None:
        """Copy one product; if those beside it are of another plan, all are to be made again."""
        stamp = self._before.get("stamp", "")
        same = stamp if stamp == self.record["stamp"] else ""
        self._say(self._before.get("plan", ""), same, {*self._before.get("names", []), name})
        self._copy(self.products[name], name)

    def _copy(self, keyed: Path, name: str) -> None:
        with whole(self.folder / name) as temporary:
            shutil.copyfile(keyed, temporary)

    def _say(self, plan: str, stamp: str, names: Iterable[str]) -> None:
        """Say of which plan the names are; without a `stamp` they are to be made again."""
        page = {"plan": plan, "stamp": stamp, "names": sorted(names)}
        write_json(self.folder / PUBLISHED, page)
