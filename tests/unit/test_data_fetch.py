"""Downloads from a server that breaks off, lies, ignores Range, or serves the wrong file."""

from __future__ import annotations

import hashlib
import resource
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from http_server import Behaviour, serving

from minbert.base.errors import UserError
from minbert.data.fetch import fetch

CONTENT = bytes(range(256)) * 4096  # 1 MiB
PIN = "sha256:" + hashlib.sha256(CONTENT).hexdigest()


def get(url: str, out: Path, pin: str = PIN, **options: Any) -> Path:
    return fetch(url, out, pin, **{"wait": 0.001, "attempts": 3, **options})


def partial(out: Path) -> Path:
    return out.with_name(f".{out.name}.part")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "thing.csv"


def test_whole_file_arrives_and_leaves_nothing_else(out: Path) -> None:
    with serving(Behaviour(CONTENT)) as server:
        assert get(server.url, out) == out
    assert out.read_bytes() == CONTENT
    assert [p.name for p in out.parent.iterdir()] == ["thing.csv"]


def test_broken_connection_continues_where_it_broke(out: Path) -> None:
    with serving(Behaviour(CONTENT, break_after=600_000)) as server:
        get(server.url, out)
        assert server.requests == [None, "bytes=600000-"]
    assert out.read_bytes() == CONTENT


def test_failed_fetch_is_resumed_by_the_next_call(out: Path) -> None:
    with serving(Behaviour(CONTENT, break_after=300_000)) as server:
        with pytest.raises(UserError, match=r"sent 300,000 of 1,048,576 bytes"):
            get(server.url, out, attempts=1)
        assert not out.exists()
        assert partial(out).read_bytes() == CONTENT[:300_000]
        get(server.url, out)
        assert server.requests[-1] == "bytes=300000-"
    assert out.read_bytes() == CONTENT


def test_leftover_part_of_another_file_is_replaced(out: Path) -> None:
    out.parent.mkdir()
    partial(out).write_bytes(b"x" * 1000)
    with serving(Behaviour(CONTENT)) as server:
        get(server.url, out)
        assert server.requests == ["bytes=1000-", None]
    assert out.read_bytes() == CONTENT


@pytest.mark.parametrize("extra", [0, 5])
def test_leftover_part_that_is_whole_or_too_long(out: Path, extra: int) -> None:
    out.parent.mkdir()
    partial(out).write_bytes(CONTENT + b"x" * extra)
    with serving(Behaviour(CONTENT)) as server:
        get(server.url, out)
        assert len(server.requests) == (2 if extra else 1)
    assert out.read_bytes() == CONTENT


@pytest.mark.parametrize("fault", [{"ranges": False}, {"wrong_range": True}])
def test_server_that_ignores_or_misreads_range(out: Path, fault: dict[str, bool]) -> None:
    with serving(Behaviour(CONTENT, break_after=500_000, **fault)) as server:
        get(server.url, out)
        assert server.requests[1] == "bytes=500000-"
    assert out.read_bytes() == CONTENT


def test_file_that_changed_between_attempts_is_not_patched_together(out: Path) -> None:
    other = b"y" * len(CONTENT)

    class Changing(Behaviour):
        @property
        def content(self) -> bytes:  # type: ignore[override]
            return CONTENT if len(self.requests) > 1 else other

        @content.setter
        def content(self, value: bytes) -> None:
            pass

    with serving(Changing(CONTENT, break_after=500_000)) as server:
        get(server.url, out)
        assert server.requests == [None, "bytes=500000-", None]
    assert out.read_bytes() == CONTENT


def test_length_too_large_is_never_a_whole_file(out: Path) -> None:
    lie = len(CONTENT) + 7
    with (
        serving(Behaviour(CONTENT, claimed_length=lie, ranges=False)) as server,
        pytest.raises(UserError, match=r"sent 1,048,576 of 1,048,583 bytes \(3 attempts\)"),
    ):
        get(server.url, out)
    assert not out.exists()


def test_length_too_small_gives_the_wrong_file(out: Path) -> None:
    with (
        serving(Behaviour(CONTENT, claimed_length=1000)) as server,
        pytest.raises(UserError, match="not the one expected"),
    ):
        get(server.url, out)
    assert [path.stat().st_size for path in out.parent.iterdir()] == [0]


def test_wrong_file_names_both_sums_and_is_removed(out: Path) -> None:
    with (
        serving(Behaviour(b"<html>Sign in</html>")) as server,
        pytest.raises(UserError) as caught,
    ):
        get(server.url, out)
    message = str(caught.value)
    found = hashlib.sha256(b"<html>Sign in</html>").hexdigest()
    assert server.url in message and PIN in message and f"found sha256:{found}" in message
    assert f"put it at {out}" in message
    assert [path.stat().st_size for path in out.parent.iterdir()] == [0]


def test_missing_file_fails_at_once(out: Path) -> None:
    with serving(Behaviour(CONTENT, errors=[404])) as server:
        with pytest.raises(UserError, match="answered 404 Not Found"):
            get(server.url, out)
        assert len(server.requests) == 1


def test_busy_server_is_asked_again(out: Path) -> None:
    with serving(Behaviour(CONTENT, errors=[503, 429])) as server:
        get(server.url, out)
        assert len(server.requests) == 3
    assert out.read_bytes() == CONTENT


def test_no_connection_names_both_ways_out(out: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/thing.csv"
        with pytest.raises(UserError) as caught:
            get(url, out)
    message = str(caught.value)
    assert url in message and "(3 attempts)" in message
    assert "folder that holds thing.csv" in message and f"put it at {out}" in message


def test_silent_server_times_out(out: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/thing.csv"
        with pytest.raises(UserError, match="timed out"):
            get(url, out, timeout=0.05, attempts=1)


def test_a_full_disk_is_named_and_what_came_is_kept(out: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, before[1]))
    try:
        with serving(Behaviour(CONTENT)) as server, pytest.raises(OSError) as caught:
            get(server.url, out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.filename == str(partial(out))
    assert partial(out).read_bytes() == CONTENT[:300_000]


def test_file_url(out: Path, tmp_path: Path) -> None:
    source = tmp_path / "source.csv"
    source.write_bytes(CONTENT)
    get(source.as_uri(), out)
    assert out.read_bytes() == CONTENT
    with pytest.raises(UserError, match=r"cannot read file://.*nothing\.csv"):
        get((tmp_path / "nothing.csv").as_uri(), tmp_path / "other")


def test_file_in_place_is_used_without_a_request(out: Path) -> None:
    out.parent.mkdir()
    out.write_bytes(CONTENT)
    with serving(Behaviour(b"")) as server:
        get(server.url, out)
        assert server.requests == []


def test_other_file_in_place_is_refused_and_kept(out: Path) -> None:
    out.parent.mkdir()
    out.write_bytes(b"mine")
    with pytest.raises(UserError, match=r"exists, but is not .*Delete it"):
        get("http://127.0.0.1:9/thing.csv", out)
    assert out.read_bytes() == b"mine"


def test_two_at_once_download_once(out: Path) -> None:
    with serving(Behaviour(CONTENT)) as server:
        threads = [threading.Thread(target=get, args=(server.url, out)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(server.requests) == 1
    assert out.read_bytes() == CONTENT
    assert [p.name for p in out.parent.iterdir()] == ["thing.csv"]
