"""`minbert unbundle`: takes the finished runs of a bundle into a results folder.

Everything is unpacked in the store, which may be a link to another disk, and checked first. Then
it is moved to its place, folder by folder. A result that is there stays as it is.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from minbert.base.errors import UserError, printable
from minbert.base.files import read_json, whole, write_json
from minbert.base.locks import results_lock
from minbert.data.parquet import read_file
from minbert.publish.archive import FILES, RUN, unpack
from minbert.publish.checks import check_run
from minbert.publish.packed import ROW, Rows, restored
from minbert.spec.architecture import WEIGHTS
from minbert.spec.task import TASKS, use_tasks_of
from minbert.store.node import digest, finished, key_of, needs_of
from minbert.store.plans import described_in, write_description

Described = dict[tuple[str, str], dict[str, Any]]
"""Descriptions by kind and key."""


@dataclass(frozen=True)
class ImportResult:
    """The runs of a bundle: new ones, and those that were there already."""

    new: int
    known: int


def unbundle(path: Path, root: Path, digests: Path | None = None) -> ImportResult:
    """Take the bundle at `path` into the results folder `root`.

    `digests` names a file that says what runs were trained on whose records do not say it:
    {`tokens`: {key: {`splits`: as of `task_digests`}}, `backbone`: {key: digest}}.

    Raises `UserError` with the reason if anything in it is not as `bundle` writes it, or while a
    workflow or a job runs; then nothing was taken in.
    """
    if not path.is_file():
        raise UserError(f"{path}: there is no such file; expected a bundle of `minbert bundle`")
    said = read_json(digests) if digests else {}
    with results_lock(root, alone=True):
        store = root / "store" / ".unbundle"
        shutil.rmtree(store, ignore_errors=True)  # of one that was killed
        store.mkdir(parents=True)
        try:
            return _take(path, store, root, said)
        except UserError as error:
            why = printable(str(error).replace(f"{store}/", "").removeprefix(f"{path}: "))
            raise UserError(f"{path}: {why}. Nothing was imported.") from None
        finally:
            shutil.rmtree(store, ignore_errors=True)


def _take(path: Path, store: Path, root: Path, digests: Mapping[str, Any]) -> ImportResult:
    manifest = unpack(path, store)
    if hidden := TASKS.built_in.keys() & {task.get("name") for task in manifest.tasks}:
        raise UserError(f"defines the task '{min(hidden)}', which is built in")
    use_tasks_of({"tasks": manifest.tasks})  # by which its predictions are scored
    described = _descriptions(store)
    rows = Rows([store, root / "store"], described)
    files = [file for kind in FILES for file in (store / kind).rglob("*") if file.is_file()]
    folders = sorted({file.parent for file in files})
    for folder in folders:
        kind, key, *_ = folder.relative_to(store).parts
        if (kind, key) not in described:
            raise UserError(f"{folder}: has no description: its key is unknown")
        if kind == "train":
            _check_run(folder, described[kind, key], rows.of(key), digests)
    for each in described.values():
        write_description(root, each)
    counts = {True: 0, False: 0}
    for folder in folders:
        kind, key, *_ = at = folder.relative_to(store).parts
        target = root.joinpath("store", *at)
        if new := not finished(kind, target):
            shutil.rmtree(target, ignore_errors=True)  # what a job that failed has left
            target.parent.mkdir(parents=True, exist_ok=True)
            folder.rename(target)
        counts[new] += kind == "train"
    return ImportResult(new=counts[True], known=counts[False])


def _descriptions(store: Path) -> Described:
    """Return the descriptions by kind and key: each has its key, and all it needs."""
    found: Described = {}
    for path in sorted((store / "spec").glob("*.json")):
        described = described_in(path)
        try:
            key = key_of(described)
        except (KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path}: is damaged ({type(error).__name__}: {error})") from None
        if key != described["key"]:
            raise UserError(f"{path}: does not match its key: its content has {key}")
        found[described["kind"], key] = described
    for described in found.values():
        for need in needs_of(described) - found.keys():
            raise UserError(f"train {described['key']} needs {'-'.join(need)}, without description")
    return found


def _check_run(
    folder: Path,
    described: Mapping[str, Any],
    rows: Mapping[str, pa.Table],
    said: Mapping[str, Any],
) -> None:
    """Complete a run's record, restore its predictions, and check that all fits together."""
    from minbert.train.evaluation import PREDICTIONS
    from minbert.train.history import SCHEMA as HISTORY

    if lacking := [name for name in RUN if not (folder / name).is_file()]:
        raise UserError(f"{folder}: lacks {', '.join(lacking)}")
    for name, schema in (("history", HISTORY), ("predictions", PREDICTIONS)):
        table = read_file(path := folder / f"{name}.parquet")
        try:
            plain = restored(table, rows, schema)
        except (KeyError, IndexError, pa.ArrowException) as error:
            raise UserError(
                f"{path}: has the columns {', '.join(table.schema.names)}, and cannot be restored "
                f"({error}); the ids and labels of a task may be in another bundle, that this one "
                "was made without: import it first"
            ) from None
        if ROW in table.schema.names:
            with whole(path) as temporary:
                pq.write_table(plain, temporary, write_page_checksum=True)
    _complete(folder, described, said)
    check_run(folder, described)


def _complete(folder: Path, described: Mapping[str, Any], digests: Mapping[str, Any]) -> None:
    """Add to a record of an earlier version what the run was trained on, and by which code."""
    record = read_json(folder / "run.json")
    if "format" in record or not digests:
        return
    needs = described["needs"]
    tokens = {n.partition(".")[2]: of["key"] for n, of in needs.items() if n.startswith("tokens.")}
    try:
        data = {task: digests["tokens"][key]["splits"] for task, key in tokens.items()}
        backbone = digests["backbone"][needs[f"backbone.{WEIGHTS}"]["key"]]
    except KeyError as error:
        raise UserError(f"{folder}: --digests has none of {error}, which it was made of") from None
    code = digest(described["code"])
    about = {"format": 1, "code": code, "data": data, "backbone": backbone}
    write_json(folder / "run.json", {**record, **about})
