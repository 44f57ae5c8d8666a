"""One attempt into the store: its run, its points, its end. Every step may be repeated."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
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
    from mlflow.entities import Run

Draw = Callable[[Path, str, str, Path], None]
"""Draws a history (parquet) with a title and the overall rule to a PNG file."""

METRICS_PER_BATCH = 999  # MLflow takes 1000 values at once, tags among them.
ENDED = "ended"
"""The value of `Tag.OFFSET` of a run of which nothing is left to be stored."""
_PARAMS_PER_BATCH = 100
_PARAM_LENGTH = 6000
_DIGEST_LENGTH = 32
_TIMEOUT = "MLFLOW_HTTP_REQUEST_TIMEOUT"
_UPLOAD_SECONDS = "300"
_CONTEXTS = {"train": "training", "dev": "validation", "test": "test"}
_CURVES = "figures/curves.png"


@dataclass
class StoredRun:
    """What the store holds of an attempt's run.

    `offset` is how many bytes of its history are there. It is `ended` once its end is there too,
    with all that comes with that.
    """

    run_id: str
    experiment: str
    artifacts: str
    status: str = "RUNNING"
    deleted: bool = False
    superseded: str | None = None
    parent: str | None = None
    described: bool = False
    offset: int = 0
    ended: bool = False


def metric_name(row: Measured) -> str:
    """Return MLflow's name of a metric; characters that it does not take become `_`.

    Final metrics, which earlier versions have among the rows of a history, are named without it.
    """
    final = row.split in (BEST, FLOOR, TEST, COST)
    name = f"{row.split}/{row.task}" if final else f"{row.split}/{row.task}/{row.metric}"
    return re.sub(r"[^\w/. :-]", "_", name)


def known_runs(store: Store, attempt: str = "") -> dict[str, StoredRun]:
    """Return the runs, deleted ones too, by the name of their attempt: all, or that of one."""
    named = f"= '{attempt}'" if attempt else "IS NOT NULL"
    found = store.runs(f"tags.`{Tag.ATTEMPT}` {named}")
    return {run.data.tags[Tag.ATTEMPT]: _known(run) for run in found}


def _known(run: Run) -> StoredRun:
    info, tags = run.info, run.data.tags
    place = tags.get(Tag.OFFSET)
    return StoredRun(
        info.run_id,
        info.experiment_id,
        info.artifact_uri,
        info.status,
        info.lifecycle_stage == "deleted",
        tags.get(Tag.SUPERSEDED),
        tags.get(Tag.PARENT),
        described=place is not None,
        offset=int(place) if place and place != ENDED else 0,
        ended=place == ENDED,
    )


def create(store: Store, attempt: Attempt, experiment: str) -> StoredRun:
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
    started = milliseconds(run["started"])
    return _known(store.client.create_run(experiment, started, tags, run_name=run["name"]))


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
    store.client.set_tag(stored.run_id, Tag.OFFSET, "0")
    stored.described = True


def log_rows(store: Store, attempt: Attempt, stored: StoredRun) -> bool:
    """Send one batch of the attempt's new values, and how far that is; return whether it moved."""
    from mlflow.entities import Metric, RunTag

    rows, offset = attempt.rows(stored.offset, METRICS_PER_BATCH)
    if offset == stored.offset:
        return False
    metrics = [Metric(metric_name(r), r.value, milliseconds(r.time), r.step) for r in rows]
    tags = [RunTag(Tag.OFFSET, str(offset))]
    store.client.log_batch(stored.run_id, metrics=metrics, tags=tags)
    stored.offset = offset
    return True


def close(
    store: Store, attempt: Attempt, stored: StoredRun, end: dict[str, Any] | None, draw: Draw | None
) -> None:
    """Attach what the job left, and end the run; without `end` it was killed.

    `draw` draws the run's curves, if given.
    """
    from mlflow.entities import Metric, RunTag

    client, run_id = store.client, stored.run_id
    end = end or {"status": "KILLED", "ended": attempt.changed(), "error": None}
    end = {"params": {}, "tags": {}, "artifacts": {}, "metrics": {}, **end}
    ended = milliseconds(end["ended"])
    given = attempt.run["params"]
    _log_params(store, run_id, {k: v for k, v in end["params"].items() if k not in given})
    tags = _strings(end["tags"])
    if end["error"]:
        tags["minbert.error"] = str(end["error"])
    files: dict[str, Path] = end["artifacts"]
    for name, path in files.items():
        _attach(store, stored, name, path)
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
    client.log_batch(
        run_id,
        metrics=[Metric(name, value, ended, end["step"]) for name, value in end["metrics"].items()],
        tags=[RunTag(name, value) for name, value in tags.items()],
    )
    client.set_terminated(run_id, end["status"], ended)
    stored.status = end["status"]


def set_ended(store: Store, stored: StoredRun) -> None:
    """Note that nothing is left to be stored of a run. Last: what was interrupted is done again."""
    store.client.set_tag(stored.run_id, Tag.OFFSET, ENDED)
    stored.ended = True


def _attach(store: Store, stored: StoredRun, name: str, path: Path) -> None:
    """Put the file, if it is there, among the run's artifacts as `name`."""
    if not path.is_file():
        say(f"{path}: not attached to its run: the file is missing")
        return
    place = urlparse(stored.artifacts)
    if place.scheme in {"", "file"}:
        target = Path(unquote(place.path) if place.scheme else stored.artifacts) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        with suppress(OSError):  # Across disks there are no links.
            target.hardlink_to(path)  # So that weights are not copied.
            return
    above, _, last = name.rpartition("/")
    # The server answers once the file is stored.
    with variable(_TIMEOUT, _UPLOAD_SECONDS), TemporaryDirectory() as folder:
        if last != path.name:  # MLflow takes the file's own name
            path = Path(shutil.copyfile(path, Path(folder) / last))
        store.client.log_artifact(stored.run_id, str(path), above or None)


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
