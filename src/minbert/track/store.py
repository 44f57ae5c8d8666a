"""The MLflow store: where it is, how MLflow runs, how it is made, our names in it, and its UI.

A paper is an experiment there, with a description, and the views of its rows and of its curves.
mlflow is imported only when a store is opened. Its UI has one worker and no job runner: 2 processes
and half a gigabyte instead of 15 and three.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minbert.base.errors import UserError
from minbert.base.files import whole
from minbert.base.locks import check_results
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.task import TASKS
from minbert.track.journal import BEST, TEST

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient


class Tag:
    """The tags of a run that more than one module knows."""

    ATTEMPT = "minbert.attempt"
    OFFSET = "minbert.offset"
    PAPER = "minbert.paper"
    ROW = "minbert.row"
    HOST = "minbert.host"
    NOT_LEARNED = "not_learned"
    SUPERSEDED = "minbert.superseded"
    COMMIT = "mlflow.source.git.commit"


_SQLITE = "sqlite:///"
PROXIED = "mlflow-artifacts:/"
"""The address of MLflow's files: those of whatever server shows them, as folders may be moved."""
_ENVIRONMENT = {
    # With MLflow's own settings a call to a dead server hangs for minutes.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "3",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    # Nothing leaves the machine.
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    # The server needs no job runner: 2 processes instead of 15.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    # MLflow warns of the server that `server_command` asks for, and this of one of its libraries.
    "PYTHONWARNINGS": "ignore",
}


def environment() -> dict[str, str]:
    """Return this process's environment, with our settings for MLflow where the user set none."""
    return {**_ENVIRONMENT, **os.environ}


def tracking_uri(root: Path) -> str:
    """Return `MLFLOW_TRACKING_URI`, or else that of the sqlite store in results `root`."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"{_SQLITE}{root.resolve() / 'mlflow.db'}"


def sqlite_path(uri: str) -> Path | None:
    """Return the absolute path of a sqlite URI's file, or None for other kinds of store."""
    return Path(uri.removeprefix(_SQLITE)).resolve() if uri.startswith(_SQLITE) else None


def check_store(root: Path) -> None:
    """Raise `UserError`, with the reason, if the URI of `root`'s store can never be one.

    That is also one of a server that answers that it takes no request of ours; one that does not
    answer may do so later. Imports mlflow, but for sqlite.
    """
    uri = tracking_uri(root)
    try:
        if path := sqlite_path(uri):
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                with closing(sqlite3.connect(path)) as connection:
                    connection.execute("PRAGMA schema_version")
        elif not uri.startswith("http"):
            from mlflow.store.db.utils import create_sqlalchemy_engine

            create_sqlalchemy_engine(uri).dispose()  # Finds the driver, and does not connect.
        else:
            open_store(root).search_experiments(max_results=1)
    except Exception as error:
        if getattr(error, "get_http_status_code", int)() >= 500:
            return
        raise UserError(
            shown(
                f"no run can be stored at '{uri}': {first_line(error)}. Move a file that is no "
                "SQLite database away; set MLFLOW_TRACKING_URI to a server (http://HOST:PORT) or a "
                "database (sqlite:////FOLDER/mlflow.db) whose driver is installed, or unset it: "
                f"runs are then stored in {root / 'mlflow.db'}"
            )
        ) from None


def shown(text: str) -> str:
    """Return `text` with the passwords of the URIs in it struck out."""
    return re.sub(r"(?<=://)[^/@\s]+@", "***@", text)


def first_line(error: Exception) -> str:
    """Return an exception's type, and what it says in its first line."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def say(message: str) -> None:
    """Print one line about tracking to standard error; nothing if its disk is full."""
    with suppress(OSError):
        print(f"tracking: {shown(message)}", file=sys.stderr, flush=True)


def open_store(root: Path) -> MlflowClient:
    """Open the store of results `root`; make it if it is sqlite.

    Only a process that holds the follower's lock may do so before it is made. Raises MLflow's
    exceptions if that fails. A server is not contacted here.
    """
    uri = tracking_uri(root)
    os.environ.update(environment())
    from mlflow.tracking import MlflowClient

    if (path := sqlite_path(uri)) and not path.exists():
        _create(path)
    return MlflowClient(uri)


def _create(path: Path) -> None:
    """Make a sqlite store under a temporary name: half of one would be broken for good."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    for end in ("-wal", "-shm"):  # of a deleted store: sqlite would play it into the new one
        path.with_name(path.name + end).unlink(missing_ok=True)
    with whole(path) as temporary:
        SqlAlchemyStore(f"{_SQLITE}{temporary}", PROXIED)._dispose_engine()
        with closing(sqlite3.connect(temporary)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")


def attempt_runs(client: MlflowClient) -> dict[str, Run]:
    """Return all runs, deleted ones too, by the attempt whose they are."""
    from mlflow.entities import ViewType

    papers = client.search_experiments(ViewType.ALL, max_results=50_000)
    places, query = [of.experiment_id for of in papers], f"tags.`{Tag.ATTEMPT}` IS NOT NULL"
    found: dict[str, Run] = {}
    token: str | None = ""
    while token is not None:
        # Few at once, so that a server answers in time.
        page = client.search_runs(places, query, ViewType.ALL, 200, page_token=token)
        found |= {run.data.tags[Tag.ATTEMPT]: run for run in page}
        token = page.token
    return found


VIEW, CURVES = "minbert", "minbert-curves"
"""The views of a paper's experiment: its rows, until there are any its runs; all runs' curves."""
_SCORE = f"{BEST}/overall"
_LEGEND = """One run for each row of the paper's table, with the runs of its stages and seeds \
below it.

`best/TASK` is the dev score of the weights that were kept (best epoch), `test/TASK` their test \
score. A row has the mean over its `n` seeds, and the 95 % interval in `best/TASK/low` and \
`best/TASK/high`. The tag `not_learned` names the tasks whose score is not clearly above the \
floor. `train/` and `dev/` hold the curves (step: optimiser steps). A \
run that was repeated, or that no variant needs any more, says so in its tag `minbert.superseded` \
and is left out of both views.
"""


def view_tag(view: str) -> str:
    """Return the tag of an experiment that holds a view."""
    return f"mlflow.sharedViewState.{view}"


def note(facts: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the tag with the description (Markdown) of a paper's experiment.

    `facts` are the plan's (`Plan.publication`); nobody need know them.
    """
    said = ""
    if facts is not None:
        said = f"""**{facts["title"]}.** {" ".join(facts["description"].split())}

- Grid: `{facts["file"]}`
- Data: {facts["source"]}; backbone: {facts["encoder"]}
- Overall score: `{facts["rule"]}` (see the documentation's statistics)

"""
    return {"mlflow.note.content": said + _LEGEND}


def views(facts: Mapping[str, Any] | None, *, rows: bool = False) -> dict[str, str]:
    """Return the tags with the views of a paper's experiment; its table shows `rows`, or else runs.

    Both are ordered by the overall score, the highest first. Runs that are nested below rows would
    hide their curves.
    """
    tasks = facts["datasets"] if facts else OVERALL_TASKS
    names = ["overall", *(task for task in TASKS if task in tasks)]
    best, test = ([f"metrics.`{split}/{name}`" for name in names] for split in (BEST, TEST))
    runs = [*best, "params.`variant`", "params.`stage`", "params.`tasks`", "params.`seed`"]
    mean = [*best, f"metrics.`{_SCORE}/low`", f"metrics.`{_SCORE}/high`", "metrics.`n`", *test]
    shown = {CURVES: (runs, "IS NULL"), VIEW: (mean, "IS NOT NULL") if rows else (runs, "IS NULL")}
    return {
        view_tag(name): json.dumps(
            {
                "selectedColumns": [*columns, f"tags.`{Tag.NOT_LEARNED}`"],
                "searchFilter": f"tags.`{Tag.ROW}` {kind} AND tags.`{Tag.SUPERSEDED}` = 'no'",
                "orderByKey": f"metrics.`{_SCORE}`",
                "chartsSearchFilter": "^(dev|train)/",
            }
        )
        for name, (columns, kind) in shown.items()
    }


HOST = "127.0.0.1"


def serve(root: Path, port: int) -> None:
    """Serve the store of `root` to this machine until Ctrl-C; print each paper's addresses.

    If the store is itself a server, this prints its addresses and returns. Raises `UserError` if
    there is no store yet, the port is taken, or the server ends by itself, and for a URI that is no
    store (`check_store`).
    """
    root = root.resolve()
    uri = tracking_uri(root)
    if uri.startswith("http"):
        _print_tables(root, uri.rstrip("/"))
        return
    check_results(root)
    check_store(root)
    if (path := sqlite_path(uri)) and not path.exists():
        raise UserError(
            f"no MLflow store at {path}: run the pipeline first (`make demo`, or `snakemake "
            "--cores 2 all`), or name its results folder; `minbert follow --results "
            f"{root}` restores a lost one"
        )
    try:
        socket.create_server((HOST, port)).close()
    except (OSError, OverflowError) as error:
        why = f"port {port} is not free ({error}); choose a different one with --port"
        raise UserError(why) from None
    print("starting MLflow, which takes about 10 seconds", flush=True)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    # It ends its workers. Ctrl-C, or a terminal that closes, is for this process alone.
    server = subprocess.Popen(server_command(uri, port), env=environment(), process_group=0)
    try:
        while server.poll() is None and not _answers(port):
            time.sleep(0.2)
        if server.returncode is None:
            _print_tables(root, f"http://{HOST}:{port}")
            print("Ctrl-C stops it", flush=True)
        raise UserError(
            f"MLflow's server ended with status {server.wait()}; its own message is above"
        )
    except KeyboardInterrupt:
        pass
    finally:
        server.terminate()
        server.wait()


def server_command(uri: str, port: int) -> list[str]:
    """Return the command that serves the store at `uri`."""
    words = [sys.executable, "-m", "mlflow", "server", "--workers", "1"]
    words += ["--backend-store-uri", uri, "--registry-store-uri", uri]
    words += ["--host", HOST, "--port", str(port)]
    # MLflow's usual server has an assistant, which may run commands for whoever reaches the port;
    # this one lacks it. Browsers open connections that they do not use: one thread would wait.
    return [*words, "--gunicorn-opts", "--log-level warning --threads 8 --graceful-timeout 1"]


def _answers(port: int) -> bool:
    """Whether the server takes connections; it answers them as soon as it can."""
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def _print_tables(root: Path, address: str) -> None:
    """Print the addresses of each paper's rows and curves, and else that of the server."""
    public, why = shown(address), "no run is stored yet"
    try:
        found = open_store(root).search_experiments(order_by=["name"])
        ours = [experiment for experiment in found if view_tag(VIEW) in experiment.tags]
    except Exception as error:  # One that requires a login: the browser can still ask for it.
        ours, why = [], shown(first_line(error))
    for experiment in ours:
        for view, said in ((VIEW, experiment.name), (CURVES, "  curves")):
            print(f"{said}: {table_url(public, experiment.experiment_id, view)}", flush=True)
    if not ours:
        print(f"MLflow: {public}/#/experiments ({why})", flush=True)


def table_url(server: str, experiment_id: str, view: str) -> str:
    """Return the address that opens an experiment's table, or the curves of its runs."""
    # Without the type, the page opens with its table for language models.
    view += "&compareRunsMode=CHART" if view == CURVES else ""
    runs = f"{server}/#/experiments/{experiment_id}/runs"
    return f"{runs}?workflowType=machine_learning&viewStateShareKey={view}"
