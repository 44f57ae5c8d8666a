"""MLflow's UI on the store of a results folder.

One worker and no job runner: 2 processes and half a gigabyte instead of 15 and three.
"""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from minbert.base.errors import UserError
from minbert.track import store

HOST = "127.0.0.1"


def serve(root: Path | str, port: int = 5000) -> None:
    """Serve the store of `root` to this machine until Ctrl-C; print each paper's addresses.

    If the store is itself a server, this prints its addresses and returns. Raises `UserError` if
    there is no store yet, the port is taken, or the server ends by itself, and for a URI that is no
    store (`store.check_store`).
    """
    root = Path(root).resolve()
    uri = store.tracking_uri(root)
    if uri.startswith("http"):
        _print_tables(root, uri.rstrip("/"))
        return
    store.check_store(root)
    if (path := store.sqlite_path(uri)) and not path.exists():
        raise UserError(
            f"no MLflow store at {path}: run the pipeline first (`make demo`, or `snakemake "
            "--cores 2 all`), or name its results folder; `minbert follow --once --results "
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
    server = subprocess.Popen(command(uri, port), env=store.environment(), process_group=0)
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


def command(uri: str, port: int) -> list[str]:
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
    public = store.shown(address)
    try:
        found = store.open_store(root).search_experiments(order_by=["name"])
        ours = [experiment for experiment in found if store.view_tag(store.VIEW) in experiment.tags]
    except Exception:  # One that requires a login: the browser can still ask for it.
        ours = []
    for experiment in ours:
        for view, said in ((store.VIEW, experiment.name), (store.CURVES, "  curves")):
            print(f"{said}: {table_url(public, experiment.experiment_id, view)}", flush=True)
    if not ours:
        print(f"MLflow: {public}/#/experiments (no run is stored yet)", flush=True)


def table_url(server: str, experiment_id: str, view: str = store.VIEW) -> str:
    """Return the address that opens an experiment's table, or the curves of its runs."""
    # Without the type, the page opens with its table for language models.
    view += "&compareRunsMode=CHART" if view == store.CURVES else ""
    runs = f"{server}/#/experiments/{experiment_id}/runs"
    return f"{runs}?workflowType=machine_learning&viewStateShareKey={view}"
