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
from minbert.data.fetch import fetch

CONTENT = bytes(range(256)) * 4096  # 1 MiB
PIN = "sha256:" + hashlib.sha256(CONTENT).hexdigest()


def get(url: str, out: Path, **options: Any) -> None:
    fetch(url, out, PIN, **{"wait": 0.001, "attempts": 3, **options})


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "thing.csv"


@pytest.mark.parametrize(
    ("how", "requests", "message"),
    [
        ({}, 1, None),
        ({"breaks": 2}, 3, None),
        ({"errors": [503, 429]}, 3, None),
        ({"breaks": 9}, 3, r"the server sent 448,576 bytes too few \(3 attempts\)"),
        ({"errors": [404]}, 1, r"404: Not Found \(1 attempts\)"),
        ({"content": b"<html>Sign in</html>"}, 1, f"checksum of what came.*expected {PIN}; it"),
    ],
)
def test_a_file_arrives_whole_or_not_at_all(
    how: dict[str, Any], requests: int, message: str | None, out: Path
) -> None:
    with serving(Behaviour(**{"content": CONTENT, **how})) as server:
        if message:
            with pytest.raises(UserError, match=f"{server.url}.*{message}.*put it at {out}"):
                get(server.url, out)
        else:
            get(server.url, out)
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
            get(url, out, timeout=0.05, attempts=2)


def test_a_full_disk_is_named_and_a_file_url_is_read(out: Path, tmp_path: Path) -> None:
    source = tmp_path / "source.csv"
    source.write_bytes(CONTENT)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, before[1]))
    try:
        with pytest.raises(OSError) as caught:
            get(source.as_uri(), out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.filename == str(out)
    get(source.as_uri(), out)
    assert out.read_bytes() == CONTENT
    with pytest.raises(UserError, match=r"cannot download file://.*nothing\.csv: .*\(1 attempts\)"):
        get((tmp_path / "nothing.csv").as_uri(), tmp_path / "other")
