"""The plain names: the files that people look at, copied from where their keys put them.

A paper's are of one plan, and so are the pages that show all papers; `published.json` says of
which. A plan that other options chose, and that has some of the published papers, replaces what is
theirs, and leaves the rest as it is. One that the same options chose replaces all: what it does not
have was taken out of the configuration.
"""

import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from minbert.base.errors import UserError
from minbert.base.files import whole, write_json, write_text
from minbert.base.locks import FOREVER, only_one
from minbert.data.parquet import read_file
from minbert.evaluate.reading import SCHEMA
from minbert.evaluate.text import csv_text, read_csv
from minbert.spec.grid import ALL
from minbert.store.job import node_folder
from minbert.store.plans import PUBLISHED, SCORES, VARIANT_COLUMNS, VARIANTS, held, stage_rows


def publishing(root: Path) -> AbstractContextManager[bool]:
    """Hold the plain names under `root` for a block."""
    return only_one(root / "store" / "published", f"publishing in {root}", patience=FOREVER)


class PlainNames:
    """The plain names under `root`, as the plan of `record` takes them.

    Those of a plan of a part are in a `folder` of their own, and leave the others as they are.
    """

    def __init__(self, root: Path, plan: str, record: Mapping[str, Any]) -> None:
        self.root, self.plan, self.record = root, plan, record
        self.folder = root / record["below"]
        self._before = held(self.folder)
        plans, options = self._before.get("plans", {}), self._before.get("options", {})
        self._others = {
            paper: plan
            for paper, plan in plans.items()
            if paper not in (*record["papers"], ALL) and options.get(paper) != record["options"]
        }
        self._scores: pa.Table | None = None
        self._rows: list[dict[str, str]] = []
        if self._others:
            try:
                self._read_others()
            except (FileNotFoundError, KeyError, UserError, pa.ArrowException):
                self._others = {}  # Theirs is lost, and made again when they are published again.

    def _read_others(self) -> None:
        earlier = read_file(self.folder / SCORES, SCHEMA.names).cast(SCHEMA)
        self._scores = earlier.filter(pc.is_in(earlier["paper"], pa.array(list(self._others))))
        rows = read_csv(self.folder / VARIANTS, "\t")
        own = [row for row in rows if row["paper"] in self._others]
        self._rows = [{name: row[name] for name in VARIANT_COLUMNS} for row in own]
        if {row["paper"] for row in self._rows} != self._others.keys():
            raise KeyError("paper")

    @cached_property
    def taken(self) -> dict[str, str]:
        """The names that the plan's products take: {path under `folder`: keyed path}."""
        return {
            name: keyed
            for name, keyed in self.record["products"].items()
            if not self._others or self._is_own(name) or not (self.folder / name).exists()
        }

    def _is_own(self, name: str) -> bool:
        """Whether a name belongs to one of the plan's papers, and not to all that there are."""
        papers = self.record["papers"]
        return any(name.startswith((f"tables/{p}.", f"figures/{p}/")) for p in papers)

    def leave_mark(self, mark: Path) -> None:
        """Leave the plan's mark, alone of its stamp."""
        for earlier in mark.parent.glob(f"{self.record['stamp']}-*.done"):
            earlier.unlink()
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()

    def take(self, partial: Path | None = None) -> None:
        """Copy each product to its name; join the scores and the variants of all papers.

        What is in `partial`, a root for results made after failures, counts before the keyed
        files; a product that is in neither is removed. Without `partial` all are there. Names that
        the plan before had, and this one has not, are removed. `say_whose` comes after it.
        """

        def source(keyed: str | Path) -> Path:
            made = Path(partial or self.root, *Path(keyed).parts[-4:])
            return made if partial and made.exists() else Path(keyed)

        self.say_whose(complete=False)  # if this is killed halfway
        for name, keyed in self.taken.items():
            if partial and not source(keyed).exists():
                (self.folder / name).unlink(missing_ok=True)
                continue
            with whole(self.folder / name) as temporary:
                shutil.copyfile(source(keyed), temporary)
        papers = self.record["papers"].values()
        folders = [node_folder(self.root, "scores", paper["scores"]) for paper in papers]
        scores = [read_file(source(folder / "scores.parquet")) for folder in folders]
        rows = stage_rows(self.record["variants"])
        with whole(self.folder / SCORES) as temporary:
            tables = scores if self._scores is None else [*scores, self._scores]
            pq.write_table(pa.concat_tables(tables), temporary)
        write_text(self.folder / VARIANTS, csv_text(VARIANT_COLUMNS, [*rows, *self._rows], "\t"))

    def take_one(self, name: str) -> None:
        """Copy one product to its name.

        If the names beside it are of another plan, they are to be made again as a whole.
        """
        said = self._before or {"plans": {}, "stamps": {}, "options": {}, "names": []}
        stamps = {
            paper: stamp if stamp == self.record["stamp"] else ""
            for paper, stamp in said["stamps"].items()
        }
        names = sorted({*said["names"], name})
        write_json(self.folder / PUBLISHED, {**said, "stamps": stamps, "names": names})
        with whole(self.folder / name) as temporary:
            shutil.copyfile(self.record["products"][name], temporary)

    def say_whose(self, *, complete: bool) -> None:
        """Say of which plan the names are; unless all is `complete`, they are to be made again."""
        before, names = set(self._before.get("names", ())), set(self.record["products"])
        own = [*self.record["papers"], *([] if self._others else [ALL])]
        page: dict[str, Any] = {"plans": {}, "stamps": {}, "options": {}}
        if self._others:
            names |= {name for name in before if not self._is_own(name)}
            page = {of: dict(self._before[of]) for of in page}
        for name in before - names:
            if (self.folder / name).is_file():
                (self.folder / name).unlink()
        page["plans"] |= dict.fromkeys(own, self.plan)
        page["stamps"] |= dict.fromkeys(own, self.record["stamp"] if complete else "")
        page["options"] |= dict.fromkeys(own, self.record["options"])
        page["names"] = sorted(names)
        write_json(self.folder / PUBLISHED, page)
