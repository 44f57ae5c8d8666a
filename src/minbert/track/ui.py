"""MLflow's UI on the store of a results folder.

Nothing here imports mlflow, but to check a store that is neither sqlite nor a server.

One worker and no job runner: 2 processes and half a gigabyte instead of 15 and three.
"""

import http.client
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError
from minbert.base.locks import is_held
from minbert.base.process import variable
from minbert.track import store
from minbert.track.journal import FOLLOWER, TRACKING, attempts

HOST = "127.0.0.1"
_START_SECONDS = 120.0
_STOP_SECONDS = 10
_GUARD = f"read _; trap '' TERM; kill 0; sleep {_STOP_SECONDS}; kill -9 0"
"""Ends its process group when its input closes, as it does when this process ends, or is killed."""


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
        _print_tables(uri.rstrip("/"))
        return
    if (path := store.sqlite_path(uri)) is not None and not path.exists():
        why = (
            f": nothing has been trained under {root} yet; run the pipeline first (`make demo`, or "
            "`snakemake --cores 2 all`), or name its results folder"
        )
        if attempts(root):
            again = shlex.join(["minbert", "follow", "--once", "--results", str(root)])
            why = f"; `{again}` makes it from the runs in {root / TRACKING}"
        raise UserError(f"no MLflow store at {path}{why}")
    if not is_held(root / FOLLOWER):  # else it has done so, by the name that it knows `root` by
        store.relocate_store(root, uri)
    check_port(port)
    print("starting MLflow, which takes about 10 seconds", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    # The server and its workers are a process group, which the guard joins.
    # MLflow warns of the server that `command` asks for.
    environment = {"PYTHONWARNINGS": "ignore::FutureWarning", **store.environment()}
    server = subprocess.Popen(command(root, uri, port), env=environment, process_group=0)
    guard = subprocess.Popen(["sh", "-c", _GUARD], stdin=subprocess.PIPE, process_group=server.pid)
    try:
        address = f"http://{HOST}:{port}"
        with variable("no_proxy", "*"):  # A proxy does not reach this machine's own server.
            _wait(server, address)
            _print_tables(address)
        print("Ctrl-C stops it", flush=True)
        server.wait()
        raise _ended(server)
    except KeyboardInterrupt:
        pass
    finally:
        assert guard.stdin is not None
        guard.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            server.wait(_STOP_SECONDS)
        with suppress(ProcessLookupError):  # what is left, the guard at least
            os.killpg(server.pid, signal.SIGKILL)


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


def _wait(server: subprocess.Popen[bytes], address: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise _ended(server)
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise UserError(f"MLflow's server did not answer at {address} within {_START_SECONDS:.0f} s")


def _ended(server: subprocess.Popen[bytes]) -> UserError:
    return UserError(
        f"MLflow's server ended with status {server.returncode}; its own message is above"
    )


def _print_tables(address: str) -> None:
    public = store.shown(address)
    request = urllib.request.Request(
        f"{address}/api/2.0/mlflow/experiments/search",
        data=json.dumps({"max_results": 1000}).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            found: list[dict[str, Any]] = json.load(reply).get("experiments", [])
    except (OSError, ValueError, http.client.HTTPException):
        # A server that requires a login: the browser can still ask for it.
        print(f"MLflow: {public}/#/experiments", flush=True)
        return
    ours = [e for e in found if store.view_tag(store.VIEW) in {t["key"] for t in e.get("tags", [])}]
    for experiment in sorted(ours, key=lambda one: str(one["name"])):
        for view, said in ((store.VIEW, experiment["name"]), (store.CURVES, "  curves")):
            url = store.table_url(public, experiment["experiment_id"], view)
            print(f"{said}: {url}", flush=True)
    if not ours:
        print(f"MLflow: {public}/#/experiments (no run is stored yet)", flush=True)
