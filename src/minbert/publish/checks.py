"""What must be true of an unpacked bundle: keys, records, tables, and scores that fit together.

They find damage, mistakes and edits. They cannot find a forger who writes everything anew so that
it fits: only training a row again does.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import ValidationError

from minbert.base.errors import UserError
from minbert.base.files import whole
from minbert.data.labels import SCHEMA as LABELS
from minbert.data.parquet import read_file
from minbert.data.rows import SCHEMA as ROWS
from minbert.evaluate.scoring import score_task
from minbert.publish.archive import WEIGHTS, Refused, json_text
from minbert.publish.packed import Rows, packed_schema, unpack
from minbert.spec.architecture import read_architecture
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS
from minbert.store.kinds import KINDS
from minbert.store.node import finished, key_of, needs_of
from minbert.store.plans import described_in
from minbert.store.record import ADOPTED, RECORDS, adoptions, read_record

Described = dict[str, Any]

_MOST_VALUES, _LONGEST, _MOST_TEXT = 20_000_000, 1_000, 1 << 30
_SAME, _NEAR = 1e-6, 0.01
"""How much scores may differ from the history's: on a CPU, and on a GPU, where a run that was
interrupted may have predicted twice."""


def check_descriptions(store: Path, refuse: Refused) -> dict[tuple[str, str], Described]:
    """Return the descriptions in `store` by kind and key: each has its key, and all it needs."""
    found: dict[tuple[str, str], Described] = {}
    for path in sorted((store / "spec").glob("*.json")):
        name, kind = f"spec/{path.name}", path.name.partition("-")[0]
        try:
            described = described_in(path)
            key = key_of(described)
            json_text(described).encode()  # as it is written
        except (UserError, UnicodeError) as error:
            why = str(error).rpartition(str(path))[2].strip(": ")
            raise refuse(f"is damaged ({why})", name) from None
        if key != described["key"]:
            raise refuse(f"does not match its key: its content has {key}", name)
        if not {described.get("maker"), *described.get("parts", [])} <= described["code"].keys():
            raise refuse("is to be made by modules that are not in its key", name)
        found[kind, key] = described
    for (kind, key), described in found.items():
        for need in needs_of(described) - found.keys():
            why = f"needs {'-'.join(need)}, which is not described"
            raise refuse(why, f"spec/{kind}-{key}.json")
    return found


def check_nodes(
    store: Path, described: Mapping[tuple[str, str], Described], refuse: Refused
) -> list[tuple[str, str, str]]:
    """Check each node's files, and restore packed predictions; return (kind, key, folder name)."""
    rows = Rows(store.parent, described)
    found = []
    folders = {path.parent for path in store.rglob("*") if path.is_file()} - {store / "spec"}
    order = list(KINDS)
    for folder in sorted(folders, key=lambda f: (order.index(f.relative_to(store).parts[0]), f)):
        kind, key, *seed = folder.relative_to(store).parts
        name = "/".join((kind, key, *seed))
        if (kind, key) not in described:
            raise refuse("has no description: its key is unknown", name)
        of = described[kind, key]
        if not finished(kind, of["spec"], folder):
            raise refuse("lacks files of a finished result", name)
        for path in sorted(folder.iterdir()):
            _check_file(path, f"{name}/{path.name}", refuse)
        if kind == "train":
            _check_run(folder, name, of, rows, refuse)
        found.append((kind, key, name))
    return found


def _check_file(path: Path, name: str, refuse: Refused) -> None:
    """Check a file by itself."""
    if path.suffix == ".json":
        try:
            _check_json(path)
        except (UserError, UnicodeError):
            raise refuse("is damaged: a field is missing or wrong", name) from None
    if path.suffix == ".parquet":
        _check_parquet(path, name, refuse)
    if path.name == WEIGHTS:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, "numpy") as tensors:
                tensors.keys()
        except (SafetensorError, OSError) as error:
            raise refuse(f"holds no weights ({error})", name) from None


def _check_json(path: Path) -> None:
    """Raise for JSON that is not what is read of it, or has text that no file can hold."""
    if path.name == ADOPTED:
        found: Any = adoptions(path.parent)
    elif path.name in RECORDS:
        found = read_record(path)
    else:
        found = read_architecture(path).model_dump()
    json_text(found).encode()


def _columns(file: str) -> list[pa.Schema]:
    """Return the columns that a table of this name may have; predictions may be packed."""
    from minbert.train.evaluation import PREDICTIONS
    from minbert.train.history import SCHEMA as HISTORY

    return {
        "history.parquet": [HISTORY],
        "labels.parquet": [LABELS],
        "predictions.parquet": [PREDICTIONS, packed_schema(PREDICTIONS)],
        "rows.parquet": [ROWS],
    }[file]


def _check_parquet(path: Path, name: str, refuse: Refused) -> None:
    """Refuse a table that is damaged, of other columns, or much larger in memory than as a file."""
    try:
        schema = pq.read_schema(path)
        if not any(schema.equals(known) for known in _columns(path.name)):
            found = ", ".join(f"{field.name} {field.type}" for field in schema)
            raise refuse(f"has the columns {found}", name)
        words = [field.name for field in schema if pa.types.is_string(field.type)]
        with pq.ParquetFile(path, read_dictionary=words) as file:
            about = file.metadata
            values = sum(
                about.row_group(group).column(column).num_values
                for group in range(about.num_row_groups)
                for column in range(about.num_columns)
            )
            if max(values, about.num_rows) > _MOST_VALUES:
                raise refuse(f"has {values:,} values, expected {_MOST_VALUES:,} at most", name)
            table = file.read(words)
        table.validate(full=True)
        for column in table.columns:
            for chunk in column.chunks:
                longest = pc.max(pc.utf8_length(chunk.dictionary)).as_py() or 0
                if longest > _LONGEST or longest * len(table) > _MOST_TEXT:
                    raise refuse(f"has a text of {longest:,} characters, expected ids", name)
    except (pa.ArrowException, OSError) as error:
        raise refuse(f"is damaged or not a parquet file ({error})", name) from None


def _check_run(folder: Path, name: str, described: Described, rows: Rows, refuse: Refused) -> None:
    """Check that a run is what its key and seed say, and that its scores fit its predictions."""
    from minbert.train.evaluation import PREDICTIONS

    tasks = described["spec"]["stage"]["tasks"]
    if unknown := tasks.keys() - TASKS.keys():
        why = f"has the task '{min(unknown)}', which is neither built in nor one of the bundle's"
        raise refuse(why, f"spec/train-{described['key']}.json")
    record = read_record(folder / "run.json")
    seed = int(folder.name.removeprefix("seed"))
    if record.get("seed") != seed:
        raise refuse(f"is of seed {record.get('seed')}", f"{name}/run.json")
    if _settings(record.get("spec")) != _settings(described["spec"]["stage"]):
        raise refuse("has settings that are not those of its key", f"{name}/run.json")
    history = _read(folder / "history.parquet", f"{name}/history.parquet", refuse)
    path, at = folder / "predictions.parquet", f"{name}/predictions.parquet"
    try:
        predictions = unpack(_read(path, at, refuse), rows.of(described), PREDICTIONS)
    except KeyError as error:
        raise refuse(f"lacks what is needed to restore it: {error}", at) from None
    except pa.ArrowException as error:
        raise refuse(f"cannot be restored ({error})", at) from None
    if other := set(pc.unique(predictions["task"]).to_pylist()) - set(tasks):
        raise refuse(f"predicts '{min(map(str, other))}', a task that the stage lacks", at)
    trained = [task for task, how in tasks.items() if how.get("trained", True)]
    _check_scores(predictions, history, record, trained, at, refuse)
    with whole(path) as temporary:
        pq.write_table(predictions, temporary, write_page_checksum=True)


def _settings(stage: Any) -> Any:
    """Return a stage's settings with defaults filled in, as it may be older than some of them."""
    try:
        return StageSpec.model_validate(stage).model_dump(mode="json")
    except ValidationError:
        return stage


def _check_scores(
    predictions: pa.Table,
    history: pa.Table,
    record: Mapping[str, Any],
    trained: Iterable[str],
    name: str,
    refuse: Refused,
) -> None:
    """Check that predictions on dev score what the history has, in the best and the last epoch."""
    ids = predictions.select(["id", "task"])
    if len(set(zip(*ids.to_pydict().values(), strict=True))) < len(ids):
        raise refuse("predicts an example twice", name)
    best, last = record["outcome"].get("best_epoch"), pc.max(history["epoch"]).as_py()
    device = record.get("environment", {}).get("device")
    scores = {
        (row["epoch"], row["split"], row["task"], row["metric"]): row["value"]
        for row in history.to_pylist()
    }
    for task in trained:
        metric = TASKS[task].metric
        if (best, "dev", task, metric) not in scores:
            raise refuse(f"has no dev score of '{task}' in the best epoch", f"{name} and history")
        of_task = predictions.filter(pc.equal(predictions["task"], task))
        for split in ("dev", "selection"):
            part = of_task.filter(pc.equal(of_task["split"], split))
            for column, epoch in (("prediction", best), ("last", last)):
                measured = scores.get((epoch, split, task, metric))
                if measured is None:
                    continue
                what = f"on {split} of '{task}'"
                try:
                    score = score_task(task, _floats(part[column]), _floats(part["label"]))
                except (KeyError, ValueError) as error:
                    raise refuse(f"cannot be scored {what}: {error}", name) from None
                if not abs(score - measured) <= (_SAME if device == "cpu" else _NEAR):
                    raise refuse(
                        f"scores {score:.6f} {what} ({column}), and the history has "
                        f"{measured:.6f}: one of them was edited",
                        name,
                    )


def _floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    return np.asarray(column.to_numpy(), float)


def _read(path: Path, name: str, refuse: Refused) -> pa.Table:
    try:
        return read_file(path)
    except UserError as error:
        raise refuse(f"is damaged ({str(error)[-200:]})", name) from None
