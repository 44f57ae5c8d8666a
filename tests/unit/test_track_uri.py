"""A URI where no run can ever be stored is refused; a server that is only away is not."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from following import log, start
from http_server import in_thread

from minbert.base.errors import UserError
from minbert.commands.cli import main
from minbert.track.store import check_store

NO_URL = "Could not parse SQLAlchemy URL"
PERMANENT = {
    "./runs": NO_URL,
    "localhost:5000": NO_URL,
    "databricks": NO_URL,
    "file:///{root}/runs": "Can't load plugin: sqlalchemy.dialects:file",
    "mysql://me:secret@127.0.0.1:9/runs": "No module named 'MySQLdb'; install it, or",
    "sqlite:////proc/none/runs.db": "No such file or directory: '/proc/none'",
    "http://": "it has no host",
    "http://host:port": "Port could not be cast to integer",
}


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def finish(root: Path) -> None:
    journal = start(root, "k")
    log(journal, range(3))
    journal.end("FINISHED")


def ended(words: list[str]) -> int | str | None:
    with pytest.raises(SystemExit) as end:
        main(words)
    return end.value.code


@pytest.mark.parametrize("uri", PERMANENT)
def test_where_no_run_can_be_stored(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "results"
    finish(root)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.format(root=root))
    assert ended(["follow", "--once", "--results", str(root)]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    shown = uri.format(root=root).replace("me:secret", "***")
    assert line.startswith(f"minbert: MLFLOW_TRACKING_URI is '{shown}', where no run can be stored")
    assert PERMANENT[uri] in line and "secret" not in line
    assert line.endswith(f"or unset it: runs are then stored in {root / 'mlflow.db'}")
    assert ended(["ui", "--results", str(root)]) == 2
    assert capfd.readouterr().err == f"{line}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results"]
    assert sorted(path.name for path in root.iterdir()) == ["tracking"]


@contextmanager
def answering(status: int) -> Iterator[str]:
    """Yield the address of a server that gives this answer to everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_error(status)

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            pass

    with in_thread(Handler) as address:
        yield address.replace("//", "//me:secret@")


@pytest.mark.parametrize("status", [401, 404])
def test_a_server_that_refuses_us(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with answering(status) as uri:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        with pytest.raises(UserError, match=rf"no run can be .* failed with error code {status} "):
            check_store(tmp_path)
        main(["ui", "--results", str(tmp_path)])  # A browser can still ask for a login.
    told = capfd.readouterr()
    assert "/#/experiments" in told.out and "secret" not in told.out + told.err


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_may_answer_later(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    finish(tmp_path)
    with answering(status) as uri:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        check_store(tmp_path)
        assert ended(["follow", "--once", "--results", str(tmp_path)]) == 1
    told = capfd.readouterr().err
    assert "does not answer; jobs go on" in told
    assert "secret" not in told


@pytest.mark.parametrize("listens", [False, True])
def test_a_server_that_is_away(
    listens: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        if listens:
            taken.listen()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{taken.getsockname()[1]}")
        check_store(tmp_path)
