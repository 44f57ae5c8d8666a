"""The UI's server, and a follower that writes to a server that comes and goes."""

from __future__ import annotations

import json
import math
import socket
import sqlite3
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from following import results, wait_for
from serving import free_port, serving, ui

from minbert.base.errors import UserError
from minbert.base.files import write_json
from minbert.spec.protocol import Measured
from minbert.track.follower import Follower
from minbert.track.journal import Journal
from minbert.track.rows import ROWS
from minbert.track.store import GRID, Tag, check_sqlite, open_store, table_url
from minbert.track.ui import check_port, serve


@pytest.fixture
def served(tmp_path: Path, mlflow_store: Path) -> Iterator[tuple[Path, int]]:
    """Results with a store that has a run, and a port that is free."""
    root = (tmp_path / "served").resolve()
    root.mkdir()
    results(root, mlflow_store)
    journal = Journal.start(root, {"experiment": "local", "key": "a", "seed": 0, "name": "a . s0"})
    journal.end("FINISHED")
    Follower(root).finish()
    return root, free_port()


def ask(address: str, path: str, body: dict[str, Any] | None = None) -> bytes:
    request = urllib.request.Request(
        f"{address}{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as reply:
        answer: bytes = reply.read()
    return answer


def test_the_ui_answers_and_a_follower_catches_up_with_it(
    served: tuple[Path, int], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root, port = served
    address = f"http://127.0.0.1:{port}"
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"weights")
    journal = Journal.start(
        tmp_path / "jobs",
        {"experiment": "remote", "key": "b", "seed": "all", "name": "b", "params": {"seed": "1"}}
        | {"tags": {Tag.KIND: GRID, Tag.COMPLETE: "True"}},
    )
    values = [0.5, math.nan, math.inf]
    for step, value in enumerate(values, 1):
        journal.log(Measured(step, step, "dev", "overall", "normalised", value, 1.7e9))
    write_json(journal.folder / ROWS, {"rows": [], "keys": []})
    best = {Tag.BEST: "b", Tag.BEST_SEED: "1", Tag.BEST_SCORE: "0.5", Tag.NOTE: "card"}
    journal.end("FINISHED", artifacts={"model/model.safetensors": weights}, tags=best)

    follower = Follower(tmp_path / "jobs", address)
    for _ in range(2):
        follower.sweep()
    told = capfd.readouterr().err
    assert told.count("does not answer") == 1
    assert len(follower.pending()) == 1

    with serving(root, port) as lines:
        with pytest.raises(urllib.error.HTTPError, match="404"):  # It runs commands.
            ask(address, "/ajax-api/3.0/mlflow/assistant/config")
        with sqlite3.connect(root / "mlflow.db") as connection:
            ids = dict(connection.execute("SELECT name, experiment_id FROM experiments"))
        assert f"local: {table_url(address, str(ids['local']))}" in lines
        assert b"<title>MLflow" in ask(address, "/")

        wait_for(lambda: not (follower.sweep() or follower.failing), "the server")
        told = capfd.readouterr().err
        assert "answers again" in told
        assert "FutureWarning" not in told, "of a server that was chosen"
        assert follower.pending() == []
        found = json.loads(
            ask(address, "/api/2.0/mlflow/registered-models/alias?name=remote&alias=best")
        )
        assert found["model_version"]["source"].endswith("/artifacts/model")
    with sqlite3.connect(root / "mlflow.db") as connection:
        points = connection.execute(
            "SELECT step, value, is_nan FROM metrics WHERE key LIKE 'dev/%'"
        )
        largest = sys.float_info.max
        assert points.fetchall() == [(1, 0.5, 0), (2, 0.0, 1), (3, largest, 0)]
    (kept,) = (root / "mlartifacts").rglob("model.safetensors")
    assert kept.read_bytes() == b"weights"
    with pytest.raises(OSError, match=r"refused|reset"):  # the latter by one that is about to end
        ask(address, "/")


def test_a_killed_ui_takes_its_server_along(
    served: tuple[Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, port = served
    monkeypatch.setenv("UI_OF", str(root))
    words = [sys.executable, "-m", "minbert", "ui", "--results", str(root), "--port", str(port)]
    with ui(words) as (server, lines):
        address = f"http://127.0.0.1:{port}"
        assert lines[-1].startswith("Ctrl-C") and ask(address, "/health") == b"OK"
        assert processes(f"UI_OF={root}") > 2, "the UI, MLflow and its worker"
        server.kill()
        server.wait()
        wait_for(lambda: not processes(f"UI_OF={root}"), "the server's end")
    with pytest.raises(OSError, match=r"refused|reset"):
        ask(address, "/health")


def processes(variable: str) -> int:
    """Return how many other processes were started with an environment variable, `NAME=VALUE`."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            found += variable.encode() in path.read_bytes().split(b"\0")
    return found


def test_without_a_store_the_ui_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no MLflow store at .*mlflow.db.*run the pipeline first"):
        serve(tmp_path)
    Journal.start(tmp_path, {"experiment": "p", "key": "a", "seed": 0, "name": "a"}).end("FINISHED")
    with pytest.raises(UserError, match=r"`minbert follow --once --results .*` makes it from"):
        serve(tmp_path)


@pytest.mark.parametrize("junk", [None, b"", b"junk" * 500])
def test_a_store_that_is_no_database_is_refused(tmp_path: Path, junk: bytes | None) -> None:
    path = tmp_path / "mlflow.db"
    if junk is None:
        path.mkdir()
    else:
        path.write_bytes(junk)
    if junk == b"":
        check_sqlite(path)  # MLflow fills it.
        return
    wrong = rf"{path}: expected MLflow's SQLite database \((it|file) is no.*\); move it away"
    with pytest.raises(UserError, match=wrong):
        serve(tmp_path)
    with pytest.raises(UserError, match=wrong):
        open_store(tmp_path)


def test_a_taken_port_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=rf"port {port} is not free.*--port"):
            check_port(port)


BRIEF = """
import os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Brief(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def do_POST(self):
        os._exit(3)

HTTPServer(("127.0.0.1", int(sys.argv[1])), Brief).serve_forever()
"""


def test_a_proxy_is_not_asked_for_the_own_server_whose_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # nobody answers there
    # urllib keeps the proxies of its first request: those of other tests, and these for them.
    monkeypatch.setattr(urllib.request, "_opener", None)
    monkeypatch.setattr("minbert.track.ui._START_SECONDS", 20.0)
    monkeypatch.setattr("minbert.track.ui.signal.signal", lambda *_: None)
    monkeypatch.setattr(
        "minbert.track.ui.command", lambda *given: [sys.executable, "-c", BRIEF, str(given[-1])]
    )
    (tmp_path / "mlflow.db").touch()
    with pytest.raises(UserError, match="MLflow's server ended with status 3; its own message"):
        serve(tmp_path, port=free_port())
    assert "Ctrl-C stops it" in capsys.readouterr().out


def test_with_a_server_of_ones_own_only_its_address_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://me:secret@127.0.0.1:{port}/")
    serve(tmp_path)
    assert capsys.readouterr().out == f"MLflow: http://***@127.0.0.1:{port}/#/experiments\n"
