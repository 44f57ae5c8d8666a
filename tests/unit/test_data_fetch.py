"""Downloads from a server that breaks off, is busy, is silent, or serves the wrong file."""

from __future__ import annotations

import hashlib
import resource
import socket
from pathlib import Path
from typing import Any

import pytest
from http_server import Behaviour, serving

from minbert.base.errors import UserError
from minbert.data import fetch as module
from minbert.data.fetch import fetch

CONTENT = bytes(range(256)) * 4096  # 1 MiB
PIN = "sha256:" + hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(module, "WAITS", (0.001, 0.001))
    return tmp_path / "folder" / "thing.csv"


@pytest.mark.parametrize(
    ("how", "requests", "message"),
    [
        ({"breaks": 2}, 3, None),
        ({"errors": [503, 429]}, 3, None),
        ({"breaks": 9}, 3, "the server sent 448,576 bytes too few"),
        ({"errors": [404]}, 1, "404: Not Found"),
        ({"content": b"<html>Sign in</html>"}, 1, f"checksum of what came.*expected {PIN}"),
    ],
)
def test_a_file_arrives_whole_or_not_at_all(
    how: dict[str, Any], requests: int, message: str | None, out: Path
) -> None:
    with serving(Behaviour(**{"content": CONTENT, **how})) as server:
        if message:
            with pytest.raises(UserError, match=f"{server.url}.*{message}.*put it at {out}"):
                fetch(server.url, out, PIN)
        else:
            fetch(server.url, out, PIN)
        assert server.requests == requests
    found = {path.name: path.read_bytes() for path in out.parent.iterdir()}
    assert found == ({} if message else {"thing.csv": CONTENT})


@pytest.mark.parametrize("listens", [False, True], ids=["nobody", "silent"])
def test_a_server_that_does_not_answer(listens: bool, out: Path) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if listens:
            server.listen()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/thing.csv"
        reason = "timed out" if listens else "refused"
        with pytest.raises(UserError, match=rf"{url}: .*{reason}.* Without this server: name a fo"):
            fetch(url, out, PIN, timeout=0.05)


def test_a_full_disk_is_named(out: Path, tmp_path: Path) -> None:
    (tmp_path / "source.csv").write_bytes(CONTENT)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, before[1]))
    try:
        with pytest.raises(OSError) as caught:
            fetch((tmp_path / "source.csv").as_uri(), out, PIN)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.filename == str(out)
