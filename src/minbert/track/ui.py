"""MLflow's UI on the store of a results folder.

One worker and no job runner: 2 processes and half a gigabyte instead of 15 and three.
"""

import http.client
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from minbert.base.errors import UserError
from minbert.track import store
from minbert.track.journal import TRACKING, attempts
from minbert.track.papers import CURVES, VIEW, table_url, view_tag

HOST = "127.0.0.1"
_START_SECONDS = 120.0
_STOP_SECONDS = 10


def serve(root: Path | str, port: int = 5000) -> None:
    """Serve the store of `root` to this machine until Ctrl-C; print each paper's addresses.

    If the store is itself a server, this prints its addresses and returns. Raises `UserError` if
    there is no store yet, the port is taken, or the server does not start, or ends by itself, and
    for a URI that is no store (`store.check_store`).
    """
    root = Path(root).resolve()
    uri = store.tracking_uri(root)
    store.check_store(root, ask=False)
    if store.is_remote(uri):
        _print_tables(root, uri.rstrip("/"))
        return
    if (path := store.sqlite_path(uri)) is not None and not path.exists():
        how = "run the pipeline first (`make demo`, or `snakemake --cores 2 all`)"
        if attempts(root):
            again = shlex.join(["minbert", "follow", "--once", "--results", str(root)])
            how = f"`{again}` makes it from the runs in {root / TRACKING}"
        raise UserError(f"no MLflow store at {path}: {how}, or name its results folder")
    check_port(port)
    print("starting MLflow, which takes about 10 seconds", flush=True)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    # MLflow warns of the server that `command` asks for.
    environment = {"PYTHONWARNINGS": "ignore::FutureWarning", **store.environment()}
    # With its workers it is a process group, so that all of it ends.
    server = subprocess.Popen(command(root, uri, port), env=environment, process_group=0)
    try:
        _wait(server, port)
        _print_tables(root, f"http://{HOST}:{port}")
        print("Ctrl-C stops it", flush=True)
        server.wait()
        raise _ended(server)
    except KeyboardInterrupt:
        pass
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(server.pid, number)
                server.wait(_STOP_SECONDS)


def command(root: Path, uri: str, port: int) -> list[str]:
    """Return the command that serves store `uri` of results `root`."""
    words = [sys.executable, "-m", "mlflow", "server", "--workers", "1"]
    words += ["--backend-store-uri", uri, "--registry-store-uri", uri]
    words += ["--artifacts-destination", str(root / store.ARTIFACTS)]
    words += ["--host", HOST, "--port", str(port)]
    # MLflow's usual server has an assistant, which may run commands for whoever reaches the port;
    # this one lacks it. Browsers open connections that they do not use: one thread would wait.
    return [*words, "--gunicorn-opts", "--log-level warning --threads 8"]


def check_port(port: int) -> None:
    """Raise `UserError` if a server here cannot have the port."""
    try:
        socket.create_server((HOST, port)).close()
    except OSError as error:
        raise UserError(
            f"port {port} is not free ({error}); choose a different one with --port"
        ) from None


def _wait(server: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        try:
            connection = http.client.HTTPConnection(HOST, port, timeout=2)
            connection.request("GET", "/health")
            connection.getresponse()
            return
        except OSError:
            time.sleep(0.2)
    raise _ended(server)


def _ended(server: subprocess.Popen[bytes]) -> UserError:
    status = server.poll()
    how = "does not answer" if status is None else f"ended with status {status}"
    return UserError(f"MLflow's server {how}; its own message is above")


def _print_tables(root: Path, address: str) -> None:
    """Print the addresses of each paper's rows and curves, and else that of the server."""
    public = store.shown(address)
    try:
        found = store.open_store(root).client.search_experiments()
        ours = sorted((e for e in found if view_tag(VIEW) in e.tags), key=lambda one: one.name)
    except Exception:  # One that requires a login: the browser can still ask for it.
        ours = []
    for experiment in ours:
        for view, said in ((VIEW, experiment.name), (CURVES, "  curves")):
            print(f"{said}: {table_url(public, experiment.experiment_id, view)}", flush=True)
    if not ours:
        print(f"MLflow: {public}/#/experiments (no run is stored yet)", flush=True)
