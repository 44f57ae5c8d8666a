"""The UI's server, servers that come and go, and URIs where no run can be stored."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from chaos.compare import written_points
from following import finish, log, results, start, stored, write_rows
from http_server import in_thread
from pipeline.project import wait_for
from serving import free_port, serving

from minbert.base.errors import UserError
from minbert.base.files import write_text
from minbert.commands.cli import main
from minbert.track.follower import Follower
from minbert.track.journal import attempts
from minbert.track.store import VIEW, check_store, open_store, serve, table_url


def ask(address: str, path: str) -> bytes:
    with urllib.request.urlopen(f"{address}{path}", timeout=120) as reply:
        answer: bytes = reply.read()
    return answer


def test_the_ui_answers_and_a_follower_catches_up_with_it(
    tmp_path: Path,
    mlflow_store: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """After a server that ended in the middle of a run."""
    (root := tmp_path / "served").mkdir()
    results(root, mlflow_store)
    finish(root, "a", experiment="local")
    Follower(root).follow()
    experiment = open_store(root).get_experiment_by_name("local").experiment_id
    port, jobs = free_port(), tmp_path / "jobs"
    address = f"http://127.0.0.1:{port}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    follower = Follower(jobs)
    log(journal := start(jobs, "b"), range(3))

    def caught_up() -> bool:
        follower.sweep()
        return not follower.failing

    with serving(root, port):
        wait_for(caught_up, "the server")
    capfd.readouterr()
    assert stored(root, journal.path).points.total() == 3
    log(journal, range(3, 6))
    journal.end("FINISHED")
    write_rows(jobs, "b", b={"best/sst": 0.5})
    for _ in range(2):
        follower.sweep()
    assert capfd.readouterr().err.count("does not answer") == 1
    assert follower.failing

    with serving(root, port) as lines:
        with pytest.raises(urllib.error.HTTPError, match="404"):  # It runs commands.
            ask(address, "/ajax-api/3.0/mlflow/assistant/config")
        assert f"local: {table_url(address, experiment, VIEW)}" in lines
        assert b"<title>MLflow" in ask(address, "/")
        wait_for(caught_up, "the server")
        assert "FutureWarning" not in capfd.readouterr().err, "of a server that was chosen"
        assert follower.follow() == 0
    for attempt in attempts(jobs):
        run = stored(root, attempt.path)
        assert run.status == "FINISHED" and run.points == written_points(attempt)
    with pytest.raises(OSError, match=r"refused|reset"):  # the latter by one that is about to end
        ask(address, "/")


def test_without_a_store_or_a_port_the_ui_says_what_to_do(
    tmp_path: Path, mlflow_store: Path
) -> None:
    with pytest.raises(UserError, match=r"no MLflow store at .*mlflow.db.*run the pipeline first"):
        serve(tmp_path, 5000)
    results(tmp_path, mlflow_store)
    with pytest.raises(UserError, match=r"port 99999 is not free.*must be 0-65535"):
        serve(tmp_path, 99999)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=rf"port {port} is not free.*--port"):
            serve(tmp_path, port)


PERMANENT = {
    "": "file is not a database",
    "localhost:5000": "Could not parse SQLAlchemy URL",
    "file:///{root}/runs": "Can't load plugin: sqlalchemy.dialects:file",
    "mysql://me:secret@127.0.0.1:9/runs": "No module named 'MySQLdb'",
    "sqlite:////proc/none/runs.db": "No such file or directory: '/proc/none'",
}


@pytest.mark.parametrize("uri", PERMANENT)
def test_where_no_run_can_be_stored(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    finish(tmp_path, "k")
    if uri:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.format(root=tmp_path))
    else:
        write_text(tmp_path / "mlflow.db", "junk" * 500)
    for command in (["follow"], ["ui"]):
        with pytest.raises(SystemExit) as ended:
            main([*command, "--results", str(tmp_path)])
        (line,) = capfd.readouterr().err.splitlines()
        assert ended.value.code == 2 and "secret" not in line
        assert line.startswith("minbert: no run can be stored at '") and PERMANENT[uri] in line
        assert "MLFLOW_TRACKING_URI" in line
    assert {path.name for path in tmp_path.iterdir()} <= {"tracking", "mlflow.db"}


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


@pytest.mark.parametrize("status", [401, 503, None])
def test_a_server_that_refuses_us_or_may_answer_later(
    status: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    finish(tmp_path, "k")
    with answering(status) if status else nullcontext(f"http://127.0.0.1:{free_port()}") as uri:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        if status == 401:
            with pytest.raises(UserError, match=r"no run can .* failed with error code 401"):
                check_store(tmp_path)
        else:
            check_store(tmp_path)
            with pytest.raises(SystemExit):
                main(["follow", "--results", str(tmp_path)])
            assert "does not answer; jobs go on" in capfd.readouterr().err
        main(["ui", "--results", str(tmp_path)])  # A browser can still ask for a login.
    told = capfd.readouterr()
    assert "/#/experiments (" in told.out and "no run is stored" not in told.out
    assert "secret" not in told.out + told.err
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert written and not any(b"secret" in content for content in written)
