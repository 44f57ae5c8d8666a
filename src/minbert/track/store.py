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
from urllib.parse import urlsplit

from minbert.base.errors import UserError
from minbert.base.files import whole
from minbert.base.locks import FOREVER, take
from minbert.base.process import lines_of

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.store.entities import PagedList
    from mlflow.tracking import MlflowClient

_Found = TypeVar("_Found")
VIEW, CURVES = "minbert", "minbert-curves"
"""The views of a paper's experiment: its table, and the runs with their curves."""
GRID = "grid"
"""The kind, and the stage, of the run that has a paper's tables, figures and best model."""
ROW = "row"
"""The kind of the run that has what a paper's table says of a variant."""
MODE = "?workflowType=machine_learning"
"""Without it, MLflow's page opens with its table for language models."""


class Tag:
    """The tags of a run that more than one module knows."""

    ATTEMPT = "minbert.attempt"
    OFFSET = "minbert.offset"
    KEY = "minbert.key"
    SEED = "minbert.seed"
    STAGE = "minbert.stage"
    RULE = "minbert.select"
    ROW = "minbert.row"
    GRID = "minbert.grid"
    PARENT = "mlflow.parentRunId"
    COMPLETE = "minbert.complete"
    COMMIT = "mlflow.source.git.commit"
    SUPERSEDED = "minbert.superseded"
    KIND = "minbert.kind"
    BEST = "minbert.best"
    BEST_SEED = "minbert.best_seed"
    BEST_SCORE = "minbert.best_score"
    NOTE = "mlflow.note.content"


_SQLITE = "sqlite:///"
ARTIFACTS = "mlartifacts"
_HOME = "SELECT artifact_location FROM experiments WHERE experiment_id = 0"
_PATHS = (
    *(("experiments", "artifact_location"), ("runs", "artifact_uri")),
    *(("model_versions", "source"), ("model_versions", "storage_location")),
    ("logged_models", "artifact_location"),
)
"""The columns of MLflow's store that hold paths of files."""
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
    # Weights are safetensors: nothing here ever needs a pickle.
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
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


def check_sqlite(path: Path) -> None:
    """Raise `UserError` if what is at `path` is no SQLite database; it need not be there."""
    if not path.exists():
        return
    try:
        if not path.is_file():
            raise sqlite3.DatabaseError("it is no regular file")
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA schema_version")
    except sqlite3.OperationalError:
        pass  # It is busy, or may not be opened.
    except sqlite3.DatabaseError as error:
        raise UserError(
            f"{path}: expected MLflow's SQLite database ({error}); move it away, and the next "
            "workflow stores all runs anew"
        ) from None


def check_store(root: Path, *, ask: bool = True) -> None:
    """Raise `UserError`, with the reason, if the URI of `root`'s store can never be one.

    That is also one of a server that, if we `ask` it, answers that it takes no request of ours; one
    that does not answer may do so later. Imports mlflow for a server that is asked, or a database
    other than sqlite.
    """
    root = Path(root).resolve()
    uri = tracking_uri(root)
    path = sqlite_path(uri)
    if path is not None:
        check_sqlite(path)
    if uri == own_store(root):
        return
    try:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            place = path if path.exists() else path.parent
            if not os.access(place, os.W_OK):
                raise PermissionError(f"{place} is not writable")
        elif is_remote(uri):
            server = urlsplit(uri)
            if not server.hostname or server.port == 0:
                raise ValueError("it has no host, or no port")
            if ask:
                open_store(root).client.search_experiments(max_results=1)
        else:
            from mlflow.store.db.utils import create_sqlalchemy_engine

            create_sqlalchemy_engine(uri).dispose()  # Finds the driver, and does not connect.
    except Exception as error:
        answered = getattr(error, "get_http_status_code", lambda: 0)()
        if answered >= 500:
            return
        install = "install it, or " if isinstance(error, ImportError) else ""
        why = first_line(error).partition(". ")[0].rstrip(".")
        raise UserError(
            shown(
                f"MLFLOW_TRACKING_URI is '{uri}', where no run can be stored: {why}; {install}set "
                "it to a server (http://HOST:PORT) or a database (sqlite:////FOLDER/mlflow.db), or "
                f"unset it: runs are then stored in {root / 'mlflow.db'}"
            )
        ) from None


def relocate_store(root: Path, uri: str) -> None:
    """Let the store in results `root` name its files there, if the folder was moved or copied.

    MLflow keeps absolute paths: those of a copy are the original's. Where they began when they were
    written is known from the experiment that every store has. A store elsewhere is left as it is.
    All changes are one transaction. Raises `UserError` if the file may not be written.
    """
    path = sqlite_path(uri)
    if uri != own_store(root) or path is None or not path.exists() or not path.stat().st_size:
        return
    new = str(root / ARTIFACTS)
    try:
        with closing(sqlite3.connect(path, timeout=20)) as connection, connection:
            ((home,),) = connection.execute(_HOME)
            old = str(home).removesuffix("/0")
            if old == new or not old.endswith(f"/{ARTIFACTS}"):
                return
            for table, column in _PATHS:
                connection.execute(
                    f"UPDATE {table} SET {column} = ? || substr({column}, ?)"
                    f" WHERE substr({column}, 1, ?) = ?",
                    (new, len(old) + 1, len(old) + 1, f"{old}/"),
                )
    except sqlite3.OperationalError as error:
        raise UserError(
            f"{path} cannot be opened and changed ({error}), which MLflow needs: make it and its "
            "folder writable, or copy the results folder"
        ) from None
    say(f"{root} was made as {Path(old).parent}; the paths in {path.name} are put right")


def is_remote(uri: str) -> bool:
    """Whether `uri` is a server, which itself decides where artifacts are."""
    return uri.startswith(("http://", "https://"))


def view_tag(view: str) -> str:
    """Return the tag of an experiment that holds a view."""
    return f"mlflow.sharedViewState.{view}"


def table_url(server: str, experiment_id: str, view: str = VIEW) -> str:
    """Return the address that opens an experiment's table, or the curves of its runs."""
    mode = "&compareRunsMode=CHART" if view == CURVES else ""
    return f"{server}/#/experiments/{experiment_id}/runs{MODE}&viewStateShareKey={view}{mode}"


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
            folder = None if is_remote(self.uri) else str(self.root / ARTIFACTS / name)
            return str(self.client.create_experiment(name, artifact_location=folder))
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

    def supersede(self, run_id: str, by: str | None) -> None:
        """Mark a run that no longer counts with what took its place; None takes the mark away."""
        if by is None:
            self.client.delete_tag(run_id, Tag.SUPERSEDED)
        else:
            self.client.set_tag(run_id, Tag.SUPERSEDED, by)


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
    if path is not None:
        check_sqlite(path)
        if not path.exists():
            _create(path, root / ARTIFACTS)
        relocate_store(root, uri)
    return Store(root, uri, MlflowClient(tracking_uri=uri, registry_uri=uri))


def _create(path: Path, artifacts: Path) -> None:
    """Make a sqlite store under a lock and a temporary name: two first users at once break it."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(f".{path.name}.lock")
    with lock.open("a", encoding="utf-8") as handle:
        take(handle, lock, FOREVER)
        if path.exists():
            return
        if network := network_disk(path.parent.resolve()):
            say(
                f"{path} is on a network disk, where sqlite is slow and may break; set "
                "MLFLOW_TRACKING_URI to a server, or to sqlite:////LOCAL/DISK/mlflow.db"
            )
        with whole(path) as temporary:
            SqlAlchemyStore(f"{_SQLITE}{temporary}", str(artifacts))._dispose_engine()
            with closing(sqlite3.connect(temporary)) as connection:
                if not network:  # The write-ahead log needs shared memory, which NFS lacks.
                    connection.execute("PRAGMA journal_mode=WAL")


def network_disk(path: Path) -> bool:
    """Whether `path` is on a network file system."""
    return bool(_NETWORK.intersection(lines_of("stat", "--file-system", "--format=%T", str(path))))
