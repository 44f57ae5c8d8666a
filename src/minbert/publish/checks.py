"""What must be true of a finished run, whoever brings it: record, tables and scores fit together.

Both ways of taking runs in rest on this: `minbert unbundle`, and `minbert adopt`. It finds damage,
mistakes and edits. It cannot find a forger who writes everything anew so that it fits: only
training a row again does.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from minbert.base.errors import UserError, printable
from minbert.data.digests import ids_digest, labels_digest
from minbert.data.parquet import read_file
from minbert.evaluate.scoring import score_task
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS
from minbert.spec.yaml import validated
from minbert.store.node import digest
from minbert.store.plans import ADOPTED, read_record

_SAME, _NEAR = 1e-6, 0.01
"""How much scores may differ from the history's: on a CPU, and on a GPU, where a run that was
interrupted may have predicted twice."""


@contextmanager
def refusing(what: object) -> Iterator[None]:
    """Turn whatever is wrong with what a stranger may have written to a `UserError` on `what`."""
    try:
        yield
    except Exception as error:
        plain = isinstance(error, UserError | OSError | ValueError)
        said = str(error) if plain else repr(error)
        raise UserError(f"{what}: {printable(said)}") from error


def upgraded(stage: Mapping[str, Any]) -> dict[str, Any]:
    """Return a described stage with the defaults of settings that it lacks.

    Raises `UserError` for a setting that is unknown, or a value that is not allowed.
    """
    return validated(StageSpec, stage, "describes a stage").model_dump(mode="json")


def check_run(folder: Path, described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of the run in `folder`, a seed's, of the node that is `described`.

    Raises `UserError` if settings, seed, code or data of the record differ, or if the
    predictions on dev do not score what the history has, in the best and in the last epoch.
    """
    with refusing(f"train {folder.parent.name} {folder.name}"):
        record, stage = read_record(folder / "run.json"), described["spec"]["stage"]
        predictions, history = (
            read_file(folder / f"{name}.parquet").to_pandas() for name in ("predictions", "history")
        )
        code, adopted = digest(described["code"]), (folder / ADOPTED).exists()
        for wrong, why in (
            (f"seed{record['seed']}" != folder.name, "has the record of another seed"),
            (upgraded(record["spec"]) != upgraded(stage), "has settings that do not match its key"),
            (record["code"] != code and not adopted, "has code that does not match its key"),
        ):
            if wrong:
                raise ValueError(why)
        for task, how in stage["tasks"].items():
            rows, own = (table[table["task"] == task] for table in (predictions, history))
            _check_task(task, how.get("trained", True), rows, own, record)
    return record


def _check_task(
    task: str,
    trained: bool,
    predictions: pd.DataFrame,
    history: pd.DataFrame,
    record: Mapping[str, Any],
) -> None:
    """Check that a task's examples are those of the record's digests, and what they score on dev.

    Half of dev may be for selection alone.
    """
    is_test = predictions["split"] == "test"
    dev = predictions[~is_test]
    for name, rows in (("dev", dev), ("test", predictions[is_test])):
        found = {
            "ids": ids_digest([*rows["id"]]),
            "labels": labels_digest(rows["label"].to_numpy()),
        }
        if not found.items() <= record["data"][task][name].items():
            raise ValueError(f"examples of '{task}' on {name} are not those of its record")
    own = history[history["metric"] == TASKS[task].metric]
    measured = own.set_index(["epoch", "split"])["value"]
    epochs = {"prediction": record["outcome"]["best_epoch"], "last": own["epoch"].max()}
    close = _SAME if record["environment"]["device"] == "cpu" else _NEAR
    for split, rows in dev.groupby("split") if trained else ():
        for column, epoch in epochs.items():
            score = score_task(task, rows[column].to_numpy(), rows["label"].to_numpy())
            if not abs(score - measured[epoch, split]) <= close:
                raise ValueError(
                    f"scores {score:.6f} on {split} of '{task}' ({column}), and the history has "
                    f"{measured[epoch, split]:.6f}: one of them was edited"
                )


def put(made: Path, target: Path) -> None:
    """Move a finished result to its place in a store, over what a job that failed has left."""
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    made.rename(target)
