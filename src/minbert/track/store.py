"""The MLflow store: where it is, how MLflow should run, how it is made, and our names in it.

mlflow is imported only when a store is opened.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from minbert.base.errors import UserError
from minbert.base.files import whole
from minbert.base.locks import FOREVER, take
from minbert.base.process import lines_of

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.store.entities import PagedList
    from mlflow.tracking import MlflowClient

_Found = TypeVar("_Found")


class Tag:
    """The tags of a run that more than one module knows."""

    ATTEMPT = "minbert.attempt"
    OFFSET = "minbert.offset"
    KEY = "minbert.key"
    SEED = "minbert.seed"
    FOLDER = "minbert.folder"
    KIND = "minbert.kind"
    ROW = "minbert.row"
    PAGE = "minbert.page"
    STORED = "minbert.stored"
    SUPERSEDED = "minbert.superseded"
    COMMIT = "mlflow.source.git.commit"
    PARENT = "mlflow.parentRunId"
    NOTE = "mlflow.note.content"


ARTIFACTS = "mlartifacts"
"""The folder of MLflow's files in a results folder."""
_SQLITE = "sqlite:///"
_PROXIED = "mlflow-artifacts:/"
"""The address of MLflow's files: those of whatever folder `minbert ui` serves, so that a results
folder may be moved."""
_NETWORK = {"nfs", "cifs", "smb", "smb2", "lustre", "gpfs", "fhgfs", "beegfs", "ceph", "afs"}
"""As `stat` calls network file systems."""
_PAGE = 200  # so that a server answers in time
_ENVIRONMENT = {
    # With MLflow's own settings a call to a dead server hangs for minutes.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "3",
    # Nothing leaves the machine.
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    # The server needs no job runner: 2 processes instead of 15.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
}


def environment() -> dict[str, str]:
    """Return this process's environment, with our settings for MLflow where the user set none."""
    return {**_ENVIRONMENT, **os.environ}


def own_store(root: Path) -> str:
    """Return the URI of the store in a results folder."""
    return f"{_SQLITE}{root / 'mlflow.db'}"


def tracking_uri(root: Path, uri: str | None = None) -> str:
    """Return `uri`, else `MLFLOW_TRACKING_URI`, else sqlite under `root`; a path is absolute."""
    uri = uri or os.environ.get("MLFLOW_TRACKING_URI") or own_store(root)
    path = sqlite_path(uri)
    return uri if path is None else f"{_SQLITE}{path}"


def sqlite_path(uri: str) -> Path | None:
    """Return the file of a sqlite URI, absolute, or None for another kind of store."""
    return Path(uri.removeprefix(_SQLITE)).resolve() if uri.startswith(_SQLITE) else None


def is_remote(uri: str) -> bool:
    """Whether `uri` is a server, which itself decides where files are."""
    return uri.startswith(("http://", "https://"))


def check_store(root: Path, *, ask: bool = True) -> None:
    """Raise `UserError`, with the reason, if the URI of `root`'s store can never be one.

    That is also one of a server that, if we `ask` it, answers that it takes no request of ours; one
    that does not answer may do so later. Imports mlflow for a server that is asked, or a database
    other than sqlite.
    """
    root = Path(root).resolve()
    uri = tracking_uri(root)
    path = sqlite_path(uri)
    try:
        if path is not None:
            _check_sqlite(path)
        elif not is_remote(uri):
            from mlflow.store.db.utils import create_sqlalchemy_engine

            create_sqlalchemy_engine(uri).dispose()  # Finds the driver, and does not connect.
        elif ask:
            open_store(root).client.search_experiments(max_results=1)
    except Exception as error:
        if getattr(error, "get_http_status_code", int)() >= 500:
            return
        why = first_line(error).partition(". ")[0].rstrip(".")
        raise UserError(
            shown(
                f"no run can be stored at '{uri}': {why}. Move a file that is no SQLite database "
                "away; set MLFLOW_TRACKING_URI to a server (http://HOST:PORT) or a database "
                "(sqlite:////FOLDER/mlflow.db) whose driver is installed, or unset it: runs are "
                f"then stored in {root / 'mlflow.db'}"
            )
        ) from None


def _check_sqlite(path: Path) -> None:
    """Raise an error if no database can be at `path`, or what is there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PermissionError(f"{path} is not writable")
    if path.exists():
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA schema_version")


def shown(text: str) -> str:
    """Return `text` with the passwords of the URIs in it struck out."""
    return re.sub(r"(?<=://)[^/@\s]+@", "***@", text)


def first_line(error: Exception) -> str:
    """Return what an exception says in its first line, or else its type."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


def say(message: str) -> None:
    """Print one line about tracking to standard error; nothing if its disk is full."""
    with suppress(OSError):
        print(f"tracking: {shown(message)}", file=sys.stderr, flush=True)


@dataclass
class Store:
    """An open store. `client` is MLflow's; every method may raise its exceptions."""

    root: Path
    uri: str
    client: MlflowClient

    def experiment(self, name: str) -> str:
        """Return the id of experiment `name`, which is made, or restored, if need be."""
        found = self.client.get_experiment_by_name(name)
        if found is None:
            place = None if is_remote(self.uri) else f"{_PROXIED}{name}"
            return str(self.client.create_experiment(name, artifact_location=place))
        if found.lifecycle_stage == "deleted":
            gone = [run.info.run_id for run in self.runs("", found.experiment_id)]
            self.client.restore_experiment(found.experiment_id)
            for run_id in gone:  # MLflow restores them too.
                self.client.delete_run(run_id)
            say(f"experiment '{name}' was deleted in MLflow; restored, as it has new runs")
        return str(found.experiment_id)

    def runs(self, query: str = "", *experiments: str) -> Iterator[Run]:
        """Yield every run that a query finds, of some experiments or all, deleted ones too."""
        from mlflow.entities import ViewType

        if not experiments:
            search_all = partial(self.client.search_experiments, ViewType.ALL)
            experiments = tuple(each.experiment_id for each in _every(search_all))
        search = self.client.search_runs
        return _every(partial(search, list(experiments), query, ViewType.ALL, max_results=_PAGE))


def _every(search: Callable[..., PagedList[_Found]]) -> Iterator[_Found]:
    """Yield what a search of MLflow's finds, page by page."""
    token = None
    while True:
        page = search(page_token=token)
        yield from page
        if not (token := page.token):
            return


def open_store(root: Path | str, uri: str | None = None) -> Store:
    """Open the store of results `root` (see `tracking_uri`); make it if it is sqlite.

    Raises MLflow's exceptions if that fails. A server is not contacted here.
    """
    root = Path(root).resolve()
    uri = tracking_uri(root, uri)
    os.environ.update(environment())
    from mlflow.tracking import MlflowClient

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    path = sqlite_path(uri)
    if path is not None and not path.exists():
        _create(path)
    return Store(root, uri, MlflowClient(tracking_uri=uri, registry_uri=uri))


def _create(path: Path) -> None:
    """Make a sqlite store under a lock and a temporary name: two first users at once break it."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(f".{path.name}.lock")
    with lock.open("a", encoding="utf-8") as handle:
        take(handle, FOREVER)
        if path.exists():
            return
        network = on_network_disk(path.parent.resolve())
        if network:
            say(
                f"{path} is on a network disk, where sqlite is slow and may break; set "
                "MLFLOW_TRACKING_URI to a server, or to sqlite:////LOCAL/DISK/mlflow.db"
            )
        for end in ("-wal", "-shm"):  # of a deleted store: sqlite would play it into the new one
            path.with_name(path.name + end).unlink(missing_ok=True)
        with whole(path) as temporary:
            SqlAlchemyStore(f"{_SQLITE}{temporary}", _PROXIED)._dispose_engine()
            with closing(sqlite3.connect(temporary)) as connection:
                if not network:  # The write-ahead log needs shared memory, which NFS lacks.
                    connection.execute("PRAGMA journal_mode=WAL")


def on_network_disk(path: Path) -> bool:
    """Whether `path` is on a network file system."""
    return bool(_NETWORK.intersection(lines_of("stat", "--file-system", "--format=%T", str(path))))
