"""Forged and broken bundles: each is refused with its reason, and nothing of it is taken in."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from own_tasks import using
from trained_root import run_folder

from minbert.base.errors import UserError
from minbert.plan.plan import Plan
from minbert.publish.archive import MANIFEST, RUN
from minbert.publish.bundle import bundle
from minbert.publish.unbundle import unbundle
from minbert.spec.task import TASKS

NONE = "0" * 16


@pytest.fixture(autouse=True)
def _own_tasks() -> Iterator[None]:
    """Keep the tasks of this process, which those of a bundle replace."""
    with using(*TASKS.own):
        yield


@pytest.fixture(scope="module")
def good(trained_plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("good") / "good.zip"
    bundle(trained_plan.root, out)
    return out


class Forgery:
    """A bundle's files, to change; `written` lists them anew unless `listed` is set to False."""

    def __init__(self, path: Path, plan: Plan) -> None:
        with zipfile.ZipFile(path) as archive:
            self.files = {name: archive.read(name) for name in archive.namelist()}
        self.about = json.loads(self.files.pop(MANIFEST))
        self.listed = True
        self.run = str(run_folder(plan, "three").relative_to(plan.root / "store"))
        self.description = f"spec/train-{self.run.split('/')[1]}.json"

    def put(self, name: str, value: Any, listed: bool = True) -> None:
        """Replace a file by JSON or a table."""
        self.listed = listed
        if isinstance(value, pa.Table):
            sink = io.BytesIO()
            pq.write_table(value, sink)
            self.files[name] = sink.getvalue()
        else:
            self.files[name] = json.dumps(value).encode()

    def edit(self, name: str, change: Callable[[Any], Any]) -> None:
        """Put what `change` makes of a page of JSON, or of a table of the run."""
        if name.endswith(".json"):
            self.put(name, change(json.loads(self.files[name])))
        else:
            table = pq.read_table(io.BytesIO(self.files[f"{self.run}/{name}"]))
            self.put(f"{self.run}/{name}", change(table))

    def written(self, path: Path) -> Path:
        if self.listed:
            self.about["files"] = {
                name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
                for name, data in self.files.items()
            }
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in self.files.items():
                archive.writestr(name, data)
            archive.writestr(MANIFEST, json.dumps(self.about))
        return path


Change = Callable[[Forgery], object]


def column(file: str, name: str, change: Callable[[pa.Table], Any]) -> Change:
    def edited(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index(name)
        return table.set_column(at, table.schema.field(at), change(table))

    return lambda bundle: bundle.edit(f"{file}.parquet", edited)


def page(of: str, change: Callable[[dict[str, Any]], Any]) -> Change:
    """Edit the description (`of` is "") or a file of the run."""

    def edited(bundle: Forgery) -> None:
        name = f"{bundle.run}/{of}" if of else bundle.description
        bundle.edit(name, lambda found: (change(found), found)[1])

    return edited


def moved(target: str) -> Change:
    """Put the run where it does not belong."""

    def change(bundle: Forgery) -> None:
        at = target.format(run=bundle.run)
        for file in RUN:
            bundle.files[f"{at}/{file}"] = bundle.files[f"{bundle.run}/{file}"]

    return change


def right(table: pa.Table) -> Any:
    """Every prediction on dev is right; labels stand in the table, as rows are not packed here."""
    return pc.if_else(pc.equal(table["split"], "dev"), table["label"], table["prediction"])


REFUSED: dict[str, tuple[Change, str]] = {
    "an edited file": (
        lambda b: b.put(f"{b.run}/run.json", {}, listed=False),
        r"run\.json was changed: its SHA-256 is not the one",
    ),
    "a task like a built-in one": (
        lambda b: b.about.update(tasks=[TASKS["sst"].model_dump()]),
        "defines the task 'sst', which is built in",
    ),
    "edited settings": (
        page("", lambda of: of["spec"]["stage"].update(epochs=99)),
        "does not match its key: its content has",
    ),
    "a damaged description": (page("", lambda of: of.pop("needs")), r"spec/train-.*: is damaged"),
    "a run without description": (moved(f"train/{NONE}/seed0"), "has no description: its key is"),
    "half a run": (lambda b: b.files.pop(f"{b.run}/history.parquet"), "seed0: lacks history.parq"),
    "other settings in the record": (
        page("run.json", lambda record: record["spec"].update(epochs=99)),
        "has settings not those of its key",
    ),
    "a run under another seed": (
        lambda b: moved(b.run.replace("seed0", "seed1"))(b),
        "has the record of another seed",
    ),
    "edited predictions": (column("predictions", "prediction", right), "one of them was edited"),
    "an edited history": (
        column("history", "value", lambda t: pc.if_else(pc.equal(t["epoch"], 1), 0.9, t["value"])),
        "and the history has 0.900000: one of them was edited",
    ),
    "a history without scores": (
        lambda b: b.edit("history.parquet", lambda t: t.filter(pc.not_equal(t["split"], "dev"))),
        "'para' cannot be scored: .*no dev score in the best epoch",
    ),
    "another task": (
        column("predictions", "task", lambda t: pa.array(["lmrd"] * len(t))),
        "predicts tasks that the stage lacks",
    ),
    "other columns": (
        lambda b: b.edit("history.parquet", lambda t: t.drop_columns(["time"])),
        r"history\.parquet: has the columns step, epoch",
    ),
}


@pytest.mark.parametrize("how", REFUSED)
def test_a_forged_bundle_is_refused(
    how: str, good: Path, trained_plan: Plan, tmp_path: Path
) -> None:
    change, message = REFUSED[how]
    forged = Forgery(good, trained_plan)
    change(forged)
    refuse(forged.written(tmp_path / "evil.zip"), tmp_path / "results", message)


def refuse(path: Path, root: Path, message: str) -> None:
    """Check that a bundle is refused with a message, and leaves nothing."""
    root.mkdir()
    with pytest.raises(UserError, match=message) as caught:
        unbundle(path, root)
    assert str(caught.value).startswith(f"{path}: ") and ".unbundle" not in str(caught.value)
    assert "Nothing was imported" in str(caught.value)
    left = {path.relative_to(root).as_posix() for path in root.rglob("*")}
    assert left == {"store", "work", "work/lock"}


def test_an_unchanged_forgery_is_taken_in(good: Path, trained_plan: Plan, tmp_path: Path) -> None:
    """So that the others are refused for their changes alone; `lean` is of earlier bundles."""
    forged = Forgery(good, trained_plan)
    forged.about |= {"lean": True, "sources": {"backbone-0": ["minilm"]}}
    assert unbundle(forged.written(tmp_path / "same.zip"), tmp_path).new > 5


@pytest.mark.parametrize("share", [0.1, 0.99])
def test_a_bundle_that_is_cut_off_is_refused(share: float, good: Path, tmp_path: Path) -> None:
    content = good.read_bytes()
    (tmp_path / "cut.zip").write_bytes(content[: int(len(content) * share)])
    refuse(tmp_path / "cut.zip", tmp_path / "results", "is damaged, or no file of")
