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
    ("how", "requests"), [({}, 1), ({"breaks": 2}, 3), ({"errors": [503, 429]}, 3)]
)
def test_a_file_arrives_whole_and_leaves_nothing_else(
    how: dict[str, Any], requests: int, out: Path
) -> None:
    with serving(Behaviour(CONTENT, **how)) as server:
        get(server.url, out)
        assert server.requests == requests
    assert out.read_bytes() == CONTENT
    assert [path.name for path in out.parent.iterdir()] == ["thing.csv"]


@pytest.mark.parametrize(
    ("how", "requests", "message"),
    [
        ({"breaks": 9}, 3, r"the server sent 448,576 bytes too few \(3 attempts\)"),
        ({"errors": [404]}, 1, r"404: Not Found \(1 attempts\)"),
        ({"content": b"<html>Sign in</html>"}, 1, f"found sha256:.*expected {PIN}.*deleted"),
    ],
)
def test_what_does_not_arrive_is_told(
    how: dict[str, Any], requests: int, message: str, out: Path
) -> None:
    with serving(Behaviour(**{"content": CONTENT, **how})) as server:
        with pytest.raises(UserError, match=message) as caught:
            get(server.url, out)
        assert server.requests == requests and server.url in str(caught.value)
    assert f"put it at {out}" in str(caught.value)
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize("listens", [False, True], ids=["nobody", "silent"])
def test_a_server_that_does_not_answer(listens: bool, out: Path) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if listens:
            server.listen()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/thing.csv"
        reason = "timed out" if listens else "refused"
        with pytest.raises(UserError, match=rf"{url}: .*{reason}.*folder that holds thing\.csv"):
            get(url, out, timeout=0.05, attempts=2)


def test_a_full_disk_is_named(out: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, before[1]))
    try:
        with serving(Behaviour(CONTENT)) as server, pytest.raises(OSError) as caught:
            get(server.url, out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.filename == str(out)


def test_a_file_url(out: Path, tmp_path: Path) -> None:
    source = tmp_path / "source.csv"
    source.write_bytes(CONTENT)
    get(source.as_uri(), out)
    assert out.read_bytes() == CONTENT
    with pytest.raises(UserError, match=r"cannot download file://.*nothing\.csv: .*\(1 attempts\)"):
        get((tmp_path / "nothing.csv").as_uri(), tmp_path / "other")
