"""What must be true of a finished run, whoever brings it: record, tables and scores fit together.

It finds damage, mistakes and edits. It cannot find a forger who writes everything anew so that it
fits: only training a row again does.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from minbert.base.errors import UserError
from minbert.data.digests import ids_digest, labels_digest
from minbert.data.parquet import read_file
from minbert.evaluate.scoring import score_task
from minbert.spec.model import RENAMED
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS
from minbert.spec.yaml import validated
from minbert.store.node import digest
from minbert.store.plans import ADOPTED, read_record

_SAME, _NEAR = 1e-6, 0.01
"""How much scores may differ from the history's: on a CPU, and on a GPU, where a run that was
interrupted may have predicted twice."""


def upgraded(stage: Mapping[str, Any]) -> dict[str, Any]:
    """Return a described stage with today's names, and with the defaults of settings that it lacks.

    Raises `UserError` for a setting that is unknown, or a value that is not allowed.
    """
    return validated(StageSpec, _renamed(stage), "describes a stage").model_dump(mode="json")


def _renamed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {RENAMED.get(name, name): _renamed(of) for name, of in value.items()}
    return value


def check_run(folder: Path, described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of the run in `folder`, a seed's, of the node that is `described`.

    Raises `UserError` if the record is of other settings, another seed, code or data, or if the
    predictions on dev do not score what the history has, in the best and in the last epoch.
    """
    stage, record = described["spec"]["stage"], read_record(folder / "run.json")
    code = digest(described["code"])
    predictions = read_file(folder / "predictions.parquet")
    predicted = {*pc.unique(predictions["task"]).to_pylist()}
    for wrong, why in (
        (stage["tasks"].keys() - TASKS.keys(), "has tasks that are unknown here"),
        (predicted - stage["tasks"].keys(), "predicts tasks that the stage lacks"),
        (f"seed{record.get('seed')}" != folder.name, "has the record of another seed"),
        (upgraded(record.get("spec", {})) != upgraded(stage), "has settings not those of its key"),
        (
            record.get("code", code) != code and not (folder / ADOPTED).exists(),
            "is of other code than its key",
        ),
    ):
        if wrong:
            raise UserError(f"{folder}: {why}")
    for task, how in stage["tasks"].items():
        of_task = predictions.filter(pc.equal(predictions["task"], task))
        _check_examples(of_task, task, record, folder)
        if how.get("trained", True):
            try:
                _check_scores(of_task, task, record, folder)
            except (KeyError, ValueError) as error:
                raise UserError(f"{folder}: '{task}' cannot be scored: {error}") from None
    return record


def _check_examples(
    predictions: pa.Table, task: str, record: Mapping[str, Any], folder: Path
) -> None:
    """Check that the examples of a task are those of the record's digests."""
    is_test = pc.equal(predictions["split"], "test")
    for split, chosen in (("dev", pc.invert(is_test)), ("test", is_test)):
        rows = predictions.filter(chosen)
        found = {
            "ids": ids_digest(rows["id"].to_pylist()),
            "labels": labels_digest(rows["label"].to_numpy()),
        }
        said = record.get("data", {}).get(task, {}).get(split, {})
        for what in found.keys() & said.keys():
            if found[what] != said[what]:
                raise UserError(
                    f"{folder}: predicts examples of '{task}' with other {what} on {split} than "
                    "those that its record says it was trained on"
                )


def _check_scores(
    predictions: pa.Table, task: str, record: Mapping[str, Any], folder: Path
) -> None:
    """Check what a task's predictions on dev score; half of it may be for selection alone."""
    history = read_file(
        folder / "history.parquet", None, {"task": task, "metric": TASKS[task].metric}
    )
    measured = {(row["epoch"], row["split"]): row["value"] for row in history.to_pylist()}
    best, last = record["outcome"].get("best_epoch"), max(measured)[0]
    if (best, "dev") not in measured:
        raise KeyError(f"its history has no dev score in the best epoch, {best}")
    close = _SAME if record.get("environment", {}).get("device") == "cpu" else _NEAR
    for split in ("dev", "selection"):
        rows = predictions.filter(pc.equal(predictions["split"], split))
        for column, epoch in (("prediction", best), ("last", last)):
            if (epoch, split) not in measured:
                continue
            score = score_task(task, rows[column].to_numpy(), rows["label"].to_numpy())
            if not abs(score - measured[epoch, split]) <= close:
                raise UserError(
                    f"{folder}: scores {score:.6f} on {split} of '{task}' ({column}), and the "
                    f"history has {measured[epoch, split]:.6f}: one of them was edited"
                )
