"""`minbert unbundle`: takes the finished runs of a bundle into a results folder.

Everything is unpacked in the store, which may be a link to another disk, and checked first. Then
it is moved to its place, folder by folder. A result that is there stays as it is.
"""

import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import SafetensorError, safe_open

from minbert.base.errors import UserError, printable
from minbert.base.files import read_json, whole, write_json
from minbert.base.locks import results_lock
from minbert.data.labels import SCHEMA as LABELS
from minbert.data.parquet import read_file
from minbert.data.rows import SCHEMA as ROWS
from minbert.publish.archive import RUN, unpack
from minbert.publish.checks import check_run
from minbert.publish.packed import Rows, packed_schema, restored
from minbert.spec.architecture import WEIGHTS, read_architecture
from minbert.spec.task import TASKS, use_tasks_of
from minbert.store.node import digest, finished, key_of, needs_of
from minbert.store.plans import brought, brought_path, write_description
from minbert.store.record import ADOPTED, RECORDS, adoptions, read_record

Described = dict[str, Any]
At = tuple[str, str]


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
            why = printable(str(error).replace(f"{store}/", ""))
            raise UserError(f"{path}: {why}. Nothing was imported.") from None
        finally:
            shutil.rmtree(store, ignore_errors=True)


def _take(path: Path, store: Path, root: Path, digests: Mapping[str, Any]) -> ImportResult:
    manifest = unpack(path, store)
    _use_tasks(manifest.tasks)
    described = _descriptions(store)
    folders = {file.parent for file in store.rglob("*") if file.is_file()} - {store / "spec"}
    rows = Rows([store, root / "store"], described)
    for folder in sorted(folders):
        _check_node(folder, store, described, rows, digests)
    for each in described.values():
        write_description(root, each)
    noted = brought(root)
    here = {"-".join(folder.relative_to(store).parts[:2]) for folder in folders}
    for source in manifest.sources.keys() & here:
        noted[source] = sorted({*noted.get(source, []), *manifest.sources[source]})
    if noted:
        write_json(brought_path(root), noted)
    counts = Counter[bool]()
    for folder in sorted(folders):
        kind, key, *_ = folder.relative_to(store).parts
        moved = _move(folder, root / "store" / folder.relative_to(store), described[kind, key])
        counts.update([moved] if kind == "train" else [])
    return ImportResult(new=counts[True], known=counts[False])


def _use_tasks(tasks: list[dict[str, Any]]) -> None:
    """Use the bundle's own tasks, by which its predictions are scored."""
    try:
        use_tasks_of({"tasks": tasks})
        hidden = sorted(TASKS.built_in.keys() & {task["name"] for task in tasks})
    except (TypeError, KeyError, ValueError, UserError) as error:
        raise UserError(f"has tasks of its own that cannot be read ({error})") from None
    if hidden:
        raise UserError(f"defines the task '{hidden[0]}', which is built in")


def _descriptions(store: Path) -> dict[At, Described]:
    """Return the descriptions by kind and key: each has its key, and all it needs."""
    found: dict[At, Described] = {}
    for path in sorted((store / "spec").glob("*.json")):
        described = read_json(path)
        try:
            key, at = key_of(described), (described["kind"], described["key"])
            found[at] = described
            needs_of(described)
        except (KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path}: is damaged ({type(error).__name__}: {error})") from None
        if "-".join(at) != path.stem or key != at[1]:
            raise UserError(f"{path}: does not match its key: its content has {key}")
    for described in found.values():
        for need in needs_of(described) - found.keys():
            raise UserError(f"train {described['key']} needs {'-'.join(need)}, without description")
    return found


def _check_node(
    folder: Path,
    store: Path,
    described: Mapping[At, Described],
    rows: Rows,
    digests: Mapping[str, Any],
) -> None:
    """Check a node's files; complete a run's record, and restore its predictions."""
    from minbert.train.evaluation import PREDICTIONS
    from minbert.train.history import SCHEMA as HISTORY

    kind, key = folder.relative_to(store).parts[:2]
    if (kind, key) not in described:
        raise UserError(f"{folder}: has no description: its key is unknown")
    of = described[kind, key]
    schemas = {"history": HISTORY, "labels": LABELS, "predictions": PREDICTIONS, "rows": ROWS}
    for path in folder.iterdir():
        if path.name == ADOPTED:
            adoptions(folder)
        elif path.name in RECORDS:
            read_record(path)
        elif path.name == "config.json":
            read_architecture(path)
        elif path.name == WEIGHTS:
            try:
                with safe_open(path, "numpy") as tensors:
                    tensors.keys()
            except SafetensorError as error:
                raise UserError(f"{path}: holds no weights ({error})") from None
        else:
            schema = schemas[path.stem]
            found = read_file(path).schema
            if not found.equals(schema) and not (
                schema is PREDICTIONS and found.equals(packed_schema(schema))
            ):
                raise UserError(f"{path}: has the columns {', '.join(found.names)}")
    if kind != "train":
        return
    if lacking := [name for name in RUN if not (folder / name).is_file()]:
        raise UserError(f"{folder}: lacks {', '.join(lacking)}")
    _complete(folder, of, digests)
    predictions = folder / "predictions.parquet"
    try:
        table = restored(read_file(predictions), rows.of(key), PREDICTIONS)
    except KeyError as error:
        raise UserError(
            f"{predictions}: the ids and labels of task {error} are in another bundle, that this "
            "one was made without; import it first"
        ) from None
    except pa.ArrowException as error:
        raise UserError(f"{predictions}: cannot be restored ({error})") from None
    with whole(predictions) as temporary:
        pq.write_table(table, temporary, write_page_checksum=True)
    check_run(folder, of)


def _complete(folder: Path, described: Described, digests: Mapping[str, Any]) -> None:
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


def _move(new: Path, old: Path, described: Described) -> bool:
    """Move a result to its place, unless one is there; return whether it was moved."""
    if finished(described["kind"], described["spec"], old):
        return False
    shutil.rmtree(old, ignore_errors=True)  # what a job that failed has left
    old.parent.mkdir(parents=True, exist_ok=True)
    new.rename(old)
    return True
