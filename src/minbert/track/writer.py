"""One attempt into the store: its run, its points, its end. Every step may be repeated."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from minbert.common.errors import UserError
from minbert.track.attempts import Attempt, Row, best_score
from minbert.track.describe import SCORE_TAG, SUPERSEDED_TAG
from minbert.track.store import ATTEMPT_TAG, Store, say

if TYPE_CHECKING:
    from mlflow.entities import Metric

METRICS_PER_BATCH = 1000
WEIGHTS_TAG = "minbert.weights"
_PARAMS_PER_BATCH = 100
_PARAM_LENGTH = 6000
_DIGEST_LENGTH = 32
_UPLOAD_SECONDS = "300"
_CONTEXTS = {"train": "training", "dev": "validation", "test": "test"}
_CURVES = "figures/curves.png"


@dataclass
class StoredRun:
    """What the store holds of an attempt's run."""

    run_id: str
    artifacts: str
    superseded: str | None
    described: bool
    offset: int


def metric_name(row: Row) -> str:
    """Return MLflow's name of a row's metric, `SPLIT/TASK/METRIC`; other signs become `_`."""
    return re.sub(r"[^\w/. :-]", "_", f"{row.split}/{row.task}/{row.metric}")


def known_runs(store: Store, experiment_id: str) -> dict[str, StoredRun]:
    """Return the runs of an experiment by the name of their attempt."""
    return {
        run.data.tags[ATTEMPT_TAG]: StoredRun(
            run.info.run_id,
            run.info.artifact_uri,
            run.data.tags.get(SUPERSEDED_TAG),
            described=False,
            offset=0,
        )
        for run in store.runs(experiment_id)
        if ATTEMPT_TAG in run.data.tags
    }


def create(store: Store, attempt: Attempt) -> StoredRun:
    """Make the attempt's run. Only a process that holds the follower's lock may call this."""
    run = attempt.run
    tags = {
        **_strings(run["tags"]),
        ATTEMPT_TAG: attempt.name,
        "minbert.key": str(run["key"]),
        "minbert.seed": str(run["seed"]),
        "minbert.host": str(run["host"]),
        "mlflow.source.name": "minbert",
        "mlflow.source.type": "JOB",
    }
    made = store.client.create_run(
        store.experiment(run["experiment"]),
        start_time=_milliseconds(run["started"]),
        tags=tags,
        run_name=run["name"],
    )
    return StoredRun(made.info.run_id, made.info.artifact_uri, None, described=False, offset=0)


def describe(store: Store, attempt: Attempt, stored: StoredRun) -> None:
    """Give the run its params and data sets."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    _log_params(store, stored.run_id, attempt.run["params"])
    inputs = [
        DatasetInput(
            Dataset(
                # MLflow knows a data set by name and digest, and each split has a context.
                name=" ".join(filter(None, (str(data["name"]), data.get("split", "")))),
                # MLflow takes 36 characters; the whole SHA-256 is in the profile.
                digest=str(data["digest"])[:_DIGEST_LENGTH],
                source_type="local",
                source=json.dumps({"uri": str(data.get("source", ""))}),
                profile=json.dumps({"num_rows": data.get("rows"), "sha256": data["digest"]}),
            ),
            [InputTag("mlflow.data.context", _CONTEXTS[data.get("split", "train")])],
        )
        for data in attempt.run["datasets"]
    ]
    if inputs:
        store.client.log_inputs(stored.run_id, datasets=inputs)
    stored.described = True


def log_rows(store: Store, attempt: Attempt, stored: StoredRun) -> bool:
    """Send one batch of the attempt's new rows; return whether there were any."""
    rows, offset = attempt.rows(stored.offset, METRICS_PER_BATCH)
    if rows:
        store.client.log_batch(stored.run_id, metrics=[_metric(row) for row in rows])
    stored.offset = offset
    return bool(rows)


def close(store: Store, attempt: Attempt, stored: StoredRun, end: dict[str, Any] | None) -> str:
    """Attach what the job left, and end the run; without `end` it was killed.

    Returns the run's status: FINISHED, FAILED or KILLED.
    """
    client = store.client
    rule = attempt.run["tags"].get("minbert.select", "normalised")
    best = best_score(attempt.rows(0, 1 << 62)[0], rule)
    if best is not None:
        _log_tags(
            store,
            stored.run_id,
            {SCORE_TAG: f"{best[0]:.6f}", "minbert.best_epoch": str(best[1])},
        )
    if end is None:
        client.set_terminated(stored.run_id, "KILLED", _milliseconds(attempt.changed()))
        return "KILLED"
    given = attempt.run["params"]
    _log_params(store, stored.run_id, {k: v for k, v in end["params"].items() if k not in given})
    tags = _strings(end["tags"])
    if end["error"]:
        tags["minbert.error"] = str(end["error"])
    for name, path in end["artifacts"].items():
        if _attach(store, stored, name, Path(path)) and name.endswith(".safetensors"):
            tags[WEIGHTS_TAG] = name.partition("/")[0]
    _attach_curves(store, stored, attempt, end["artifacts"].get("history.parquet"))
    _log_tags(store, stored.run_id, tags)
    status = str(end["status"])
    client.set_terminated(stored.run_id, status, _milliseconds(end["ended"]))
    return status


def _attach_curves(store: Store, stored: StoredRun, attempt: Attempt, history: str | None) -> None:
    """Draw the run's curves and attach them; a figure that fails costs the run nothing else."""
    if history is None or not Path(history).is_file():
        return
    from minbert.figures.one_run import draw_run

    rule = attempt.run["tags"].get("minbert.select", "normalised")
    with TemporaryDirectory() as folder:
        target = Path(folder) / Path(_CURVES).name
        try:
            draw_run(Path(history), attempt.run["name"], rule, target)
        except (UserError, ValueError, KeyError) as error:
            say(f"{history}: its curves cannot be drawn: {error}")
            return
        _attach(store, stored, _CURVES, target)


def _attach(store: Store, stored: StoredRun, name: str, path: Path) -> bool:
    """Put the file among the run's artifacts as `name`; return whether it was there to be put."""
    if not path.is_file():
        say(f"{path}: not attached to its run, there is no such file any more")
        return False
    place = urlparse(stored.artifacts)
    if place.scheme in {"", "file"}:
        folder = Path(unquote(place.path) if place.scheme else stored.artifacts)
        if _link(path, folder / name):
            return True
    above, _, last = name.rpartition("/")
    with _patience(), TemporaryDirectory() as folder_of_one:
        if last != path.name:  # MLflow takes the file's own name
            path = Path(shutil.copyfile(path, Path(folder_of_one) / last))
        store.client.log_artifact(stored.run_id, str(path), above or None)
    return True


def _link(path: Path, target: Path) -> bool:
    """Give the file a second name: weights take no second copy. False across disks."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    temporary.unlink(missing_ok=True)
    try:
        os.link(path, temporary)
    except OSError:
        return False
    os.replace(temporary, target)
    # Replacing a name by another of the same file does nothing, and leaves both.
    temporary.unlink(missing_ok=True)
    return True


@contextmanager
def _patience() -> Iterator[None]:
    """Wait longer for the server than a metric may: it answers when the file is stored."""
    name = "MLFLOW_HTTP_REQUEST_TIMEOUT"
    before = os.environ.get(name)
    os.environ[name] = _UPLOAD_SECONDS
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def _log_params(store: Store, run_id: str, params: Mapping[str, Any]) -> None:
    from mlflow.entities import Param

    pending = iter(_strings(params).items())
    while chunk := list(islice(pending, _PARAMS_PER_BATCH)):
        entries = [Param(name, value[:_PARAM_LENGTH]) for name, value in chunk]
        store.client.log_batch(run_id, params=entries)


def _log_tags(store: Store, run_id: str, tags: Mapping[str, str]) -> None:
    from mlflow.entities import RunTag

    pending = iter(tags.items())
    while chunk := list(islice(pending, _PARAMS_PER_BATCH)):
        store.client.log_batch(run_id, tags=[RunTag(name, value) for name, value in chunk])


def _metric(row: Row) -> Metric:
    from mlflow.entities import Metric

    return Metric(metric_name(row), row.value, _milliseconds(row.time), row.step)


def _strings(values: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in values.items()}


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
