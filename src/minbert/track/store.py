"""The MLflow store: made once, and its experiments."""

from __future__ import annotations

import fcntl
import logging
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minbert.common.files import whole
from minbert.track.describe import describe
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

ATTEMPT_TAG = "minbert.attempt"


def say(message: str) -> None:
    """Print one line about tracking to standard error, or nothing if its disk is full."""
    with suppress(OSError):
        print(f"tracking: {shown(message)}", file=sys.stderr, flush=True)


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
    papers: Mapping[str, Any] = field(default_factory=dict)
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
        describe(self.client, found, self.papers.get(name), self.root)
        return experiment_id

    def describe_again(self, name: str) -> None:
        """Bring an experiment's description up to what the store holds of it now."""
        found = self.client.get_experiment(self.experiment(name))
        describe(self.client, found, self.papers.get(name), self.root)


def open_store(
    root: Path | str, uri: str | None = None, papers: Mapping[str, Any] | None = None
) -> Store:
    """Open the store of results `root` (see `location.tracking_uri`); make it if it is sqlite.

    `papers` are the plan's facts on each, for their descriptions.

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
    return Store(root, uri, MlflowClient(tracking_uri=uri, registry_uri=uri), papers or {})


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
