"""One attempt into the store: its run, its points, its end. Every step may be repeated."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from minbert.base.errors import UserError
from minbert.base.process import variable
from minbert.spec.protocol import Measured
from minbert.track.journal import BEST, COST, FLOOR, TEST, Attempt
from minbert.track.store import Store, Tag, say

if TYPE_CHECKING:
    from mlflow.entities import Metric, Run

Draw = Callable[[Path, str, str, Path], None]
"""Draws a history (parquet) with a title and the overall rule to a PNG file."""

METRICS_PER_BATCH = 1000
_PARAMS_PER_BATCH = 100
_PARAM_LENGTH = 6000
_DIGEST_LENGTH = 32
_TIMEOUT = "MLFLOW_HTTP_REQUEST_TIMEOUT"
_UPLOAD_SECONDS = "300"
_CONTEXTS = {"train": "training", "dev": "validation", "test": "test"}
_CURVES = "figures/curves.png"


@dataclass
class StoredRun:
    """What the store holds of an attempt's run."""

    run_id: str
    artifacts: str
    deleted: bool = False
    superseded: str | None = None
    parent: str | None = None
    described: bool = False
    offset: int = 0


def metric_name(row: Measured) -> str:
    """Return MLflow's name of a metric; characters that it does not take become `_`.

    `SPLIT/TASK/METRIC`; `best/TASK`, `floor/TASK` and `test/TASK`, as a task's own metric is meant.
    """
    last = row.split in (BEST, FLOOR, TEST, COST)
    words = [row.split, row.task, *([] if last else [row.metric])]
    return re.sub(r"[^\w/. :-]", "_", "/".join(words))


def known_runs(store: Store, experiment: str) -> dict[str, StoredRun]:
    """Return the runs of an experiment, deleted ones too, by the name of their attempt."""
    found = store.client.get_experiment_by_name(experiment)
    return {
        run.data.tags[Tag.ATTEMPT]: _known(run)
        for run in (store.runs(found.experiment_id) if found else ())
        if Tag.ATTEMPT in run.data.tags
    }


def known_run(store: Store, run_id: str) -> StoredRun | None:
    """Return the run of an id, whatever experiment it is in; None if there is none."""
    from mlflow.exceptions import MlflowException

    try:
        return _known(store.client.get_run(run_id))
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return None


def _known(run: Run) -> StoredRun:
    info, tags = run.info, run.data.tags
    deleted = info.lifecycle_stage == "deleted"
    return StoredRun(
        info.run_id, info.artifact_uri, deleted, tags.get(Tag.SUPERSEDED), tags.get(Tag.PARENT)
    )


def create(store: Store, attempt: Attempt) -> StoredRun:
    """Make the attempt's run. Only a process that holds the follower's lock may call this."""
    run = attempt.run
    tags = {
        **_strings(run["tags"]),
        Tag.ATTEMPT: attempt.name,
        Tag.KEY: str(run["key"]),
        Tag.SEED: str(run["seed"]),
        "minbert.host": str(run["host"]),
        "mlflow.source.name": "minbert",
        "mlflow.source.type": "JOB",
    }
    made = store.client.create_run(
        store.experiment(run["experiment"]),
        start_time=milliseconds(run["started"]),
        tags=tags,
        run_name=run["name"],
    )
    return StoredRun(made.info.run_id, made.info.artifact_uri)


def describe(store: Store, attempt: Attempt, stored: StoredRun) -> None:
    """Give the run its params and data sets."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    _log_params(store, stored.run_id, attempt.run["params"])
    inputs = []
    for data in attempt.run["datasets"]:
        used = Dataset(
            # MLflow tells data sets apart by name and digest; each split has its own context.
            name=" ".join(filter(None, (str(data["name"]), data.get("split", "")))),
            # MLflow takes 36 characters; the profile has the whole SHA-256.
            digest=str(data["digest"])[:_DIGEST_LENGTH],
            source_type="local",
            source=json.dumps({"uri": str(data.get("source", ""))}),
            profile=json.dumps({"num_rows": data.get("rows"), "sha256": data["digest"]}),
        )
        context = InputTag("mlflow.data.context", _CONTEXTS[data.get("split", "train")])
        inputs.append(DatasetInput(used, [context]))
    if inputs:
        store.client.log_inputs(stored.run_id, datasets=inputs)
    stored.described = True


def log_rows(store: Store, attempt: Attempt, stored: StoredRun) -> bool:
    """Send one batch of the attempt's new values; return whether there were any."""
    rows, stored.offset = attempt.rows(stored.offset, METRICS_PER_BATCH)
    if rows:
        store.client.log_batch(stored.run_id, metrics=_metrics(rows))
    return bool(rows)


def close(
    store: Store, attempt: Attempt, stored: StoredRun, end: dict[str, Any] | None, draw: Draw | None
) -> str:
    """Attach what the job left, and end the run; without `end` it was killed.

    `draw` draws the run's curves, if given. Returns the status: FINISHED, FAILED or KILLED.
    """
    from mlflow.entities import RunTag

    client, run_id = store.client, stored.run_id
    killed: dict[str, Any] = {"status": "KILLED", "ended": attempt.changed(), "error": None}
    end = end or killed | {"params": {}, "tags": {}, "artifacts": {}}
    given = attempt.run["params"]
    _log_params(store, run_id, {k: v for k, v in end["params"].items() if k not in given})
    tags = _strings(end["tags"])
    if end["error"]:
        tags["minbert.error"] = str(end["error"])
    files: dict[str, Path] = end["artifacts"]
    for name, path in files.items():
        if _attach(store, stored, name, path) and name.endswith(".safetensors"):
            tags[Tag.WEIGHTS] = name.partition("/")[0]
    history = files.get("history.parquet")
    if draw is not None and history is not None and history.is_file():
        with TemporaryDirectory() as folder:
            target = Path(folder) / Path(_CURVES).name
            rule = attempt.run["tags"].get(Tag.RULE, "normalised")
            try:
                draw(history, attempt.run["name"], rule, target)
            except (UserError, ValueError, KeyError) as error:
                say(f"{history}: its curves cannot be drawn: {error}")
            else:
                _attach(store, stored, _CURVES, target)
    client.log_batch(run_id, tags=[RunTag(name, value) for name, value in tags.items()])
    client.set_terminated(run_id, end["status"], milliseconds(end["ended"]))
    return str(end["status"])


def _metrics(rows: Iterable[Measured]) -> list[Metric]:
    from mlflow.entities import Metric

    return [Metric(metric_name(row), row.value, milliseconds(row.time), row.step) for row in rows]


def _attach(store: Store, stored: StoredRun, name: str, path: Path) -> bool:
    """Put the file among the run's artifacts as `name`; return whether there is such a file."""
    if not path.is_file():
        say(f"{path}: not attached to its run: the file is missing")
        return False
    place = urlparse(stored.artifacts)
    if place.scheme in {"", "file"}:
        target = Path(unquote(place.path) if place.scheme else stored.artifacts) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        with suppress(OSError):  # Across disks there are no links.
            target.hardlink_to(path)  # So that weights are not copied.
            return True
    above, _, last = name.rpartition("/")
    # The server answers once the file is stored.
    with variable(_TIMEOUT, _UPLOAD_SECONDS), TemporaryDirectory() as folder:
        if last != path.name:  # MLflow takes the file's own name
            path = Path(shutil.copyfile(path, Path(folder) / last))
        store.client.log_artifact(stored.run_id, str(path), above or None)
    return True


def _log_params(store: Store, run_id: str, params: Mapping[str, Any]) -> None:
    from mlflow.entities import Param

    entries = (Param(name, value[:_PARAM_LENGTH]) for name, value in _strings(params).items())
    while batch := list(islice(entries, _PARAMS_PER_BATCH)):
        store.client.log_batch(run_id, params=batch)


def _strings(values: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in values.items()}


def milliseconds(seconds: float) -> int:
    """Return a time as MLflow has it."""
    return round(seconds * 1000)
