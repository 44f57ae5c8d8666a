"""The MLflow store: made once, its experiments, and the view that their table opens with."""

from __future__ import annotations

import fcntl
import json
import logging
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from minbert.common.files import whole
from minbert.track.location import (
    apply_environment,
    is_remote,
    network_disk,
    shown,
    sqlite_path,
    tracking_uri,
)

if TYPE_CHECKING:
    from mlflow.entities import Experiment, Run
    from mlflow.tracking import MlflowClient

VIEW_TAG = "mlflow.sharedViewState.minbert"
NOTE_TAG = "mlflow.note.content"
ATTEMPT_TAG = "minbert.attempt"
SUPERSEDED_TAG = "minbert.superseded"
SCORE_TAG = "minbert.score"
_SCORES = ("dev/overall/normalised", "dev/sst/accuracy", "dev/para/accuracy", "dev/sts/pearson")
_NOTE = """One run for each stage and seed of this paper's grid.

`train/` and `dev/` hold the curves (step: optimiser steps). The tag `minbert.score` is the best
overall dev score over the epochs, that of the weights that were kept. A run that was done again
carries `minbert.superseded` and is left out of the table's view.
"""


def say(message: str) -> None:
    """Print one line about tracking to standard error, or nothing if its disk is full."""
    with suppress(OSError):
        print(f"tracking: {shown(message)}", file=sys.stderr, flush=True)


def shared_view() -> str:
    """Return the table's view as JSON: its columns, its order, and no superseded runs."""
    columns = [f"params.`{name}`" for name in ("variant", "tasks", "seed")]
    columns += [f"metrics.`{name}`" for name in _SCORES]
    columns.append(f"tags.`{SCORE_TAG}`")
    view = {
        "selectedColumns": columns,
        "searchFilter": f"tags.`{SUPERSEDED_TAG}` IS NULL",
        "orderByKey": f"metrics.`{_SCORES[0]}`",
        "orderByAsc": False,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
    }
    return json.dumps(view)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold `flock` on `path` for the block, waiting for it if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@dataclass
class Store:
    """An open store. `client` is MLflow's; every method may raise its exceptions."""

    root: Path
    uri: str
    client: MlflowClient
    _experiments: dict[str, str] = field(default_factory=dict)

    def experiment(self, name: str) -> str:
        """Return the id of experiment `name`, made, described and given its view if need be."""
        if name not in self._experiments:
            self._experiments[name] = self._prepare(name)
        return self._experiments[name]

    def runs(self, experiment_id: str) -> Iterator[Run]:
        """Yield every run of an experiment, deleted ones too."""
        from mlflow.entities import ViewType

        token = None
        while True:
            page = self.client.search_runs(
                [experiment_id], run_view_type=ViewType.ALL, max_results=1000, page_token=token
            )
            yield from page
            token = page.token
            if not token:
                return

    def _create(self, name: str) -> Experiment:
        from mlflow.exceptions import MlflowException

        folder = None if is_remote(self.uri) else str(self.root / "mlartifacts" / name)
        try:
            made = self.client.create_experiment(name, artifact_location=folder)
        except MlflowException as error:
            # Another user of the store made it since we looked.
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            found = self.client.get_experiment_by_name(name)
            assert found is not None
            return found
        return self.client.get_experiment(made)

    def _prepare(self, name: str) -> str:
        found = self.client.get_experiment_by_name(name) or self._create(name)
        if found.lifecycle_stage == "deleted":
            self.client.restore_experiment(found.experiment_id)
            say(f"experiment '{name}' had been deleted in the store and is back: it has new runs")
        experiment_id = str(found.experiment_id)
        if NOTE_TAG not in found.tags:
            self.client.set_experiment_tag(experiment_id, NOTE_TAG, _NOTE)
        if found.tags.get(VIEW_TAG) != shared_view():
            self.client.set_experiment_tag(experiment_id, VIEW_TAG, shared_view())
        return experiment_id


def open_store(root: Path | str, uri: str | None = None) -> Store:
    """Open the store of results `root` (see `location.tracking_uri`); make it if it is sqlite.

    Raises MLflow's exceptions when the store cannot be opened. A server is not contacted here.
    """
    root = Path(root).resolve()
    uri = tracking_uri(root, uri)
    apply_environment()
    from mlflow.tracking import MlflowClient

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    path = sqlite_path(uri)
    if path is not None and not path.exists():
        _create(path, root / "mlartifacts")
    return Store(root, uri, MlflowClient(tracking_uri=uri, registry_uri=uri))


def _create(path: Path, artifacts: Path) -> None:
    """Make a sqlite store under a lock and a temporary name: two first users at once break it."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    with locked(path.with_name(f".{path.name}.lock")):
        if path.exists():
            return
        network = network_disk(path.parent.resolve())
        if network:
            say(
                f"{path} is on a network disk, where sqlite is slow and may break; set "
                "MLFLOW_TRACKING_URI to a server, or to sqlite:////LOCAL/DISK/mlflow.db"
            )
        with whole(path) as temporary:
            SqlAlchemyStore(f"sqlite:///{temporary}", str(artifacts))._dispose_engine()
            connection = sqlite3.connect(temporary)
            try:
                if not network:  # The write-ahead log needs shared memory, which NFS has not.
                    connection.execute("PRAGMA journal_mode=WAL")
            finally:
                connection.close()
