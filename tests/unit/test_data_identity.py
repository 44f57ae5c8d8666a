"""Digests of files, pinned checksums, and the cache of digests."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from minbert.base.errors import UserError
from minbert.data import identity
from minbert.data.identity import DIGESTS, DigestCache, checksum, git_blob, md5, sha256

HELLO = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"


@pytest.fixture
def hello(tmp_path: Path) -> Path:
    path = tmp_path / "hello"
    path.write_bytes(b"hello")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return path


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    read: list[Path] = []

    def count(path: Path | str) -> str:
        read.append(Path(path))
        return sha256(path)

    monkeypatch.setitem(identity.DIGESTS, "sha256", count)
    return read


def test_known_digests(hello: Path) -> None:
    assert sha256(hello) == HELLO
    assert md5(hello) == "5d41402abc4b2a76b9719d911017c592"
    # `printf hello | git hash-object --stdin`
    assert git_blob(hello) == "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0"


def test_checksums_by_prefix(hello: Path) -> None:
    for prefix, value in DIGESTS.items():
        assert checksum(hello, f"{prefix}:00") == f"{prefix}:{value(hello)}"


def digest(cache: DigestCache, path: Path) -> str:
    return cache.checksum(path, "sha256").removeprefix("sha256:")


def kept(path: Path, file: Path, kind: str = "sha256") -> str:
    """Return a digest by a cache that is read, and written again."""
    cache = DigestCache(path)
    found = cache.checksum(file, kind).partition(":")[2]
    cache.save()
    return found


def test_cache_reads_an_unchanged_file_once(
    hello: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = counted(monkeypatch)
    for _ in range(3):
        assert kept(tmp_path / "cache.json", hello) == HELLO
    assert len(read) == 1
    assert kept(tmp_path / "cache.json", hello, "git").startswith("b6fc")
    assert kept(tmp_path / "cache.json", hello) == HELLO
    assert len(read) == 1  # another kind does not push the first one out


def test_touched_file_keeps_its_digest_and_changed_content_does_not(
    hello: Path, tmp_path: Path
) -> None:
    cache = DigestCache(tmp_path / "cache.json")
    digest(cache, hello)
    os.utime(hello, (1_700_000_100, 1_700_000_100))
    assert digest(cache, hello) == HELLO
    hello.write_bytes(b"jello")  # as long as before
    os.utime(hello, (1_700_000_200, 1_700_000_200))
    assert digest(cache, hello) != HELLO


def test_replaced_file_with_the_same_size_and_time_is_read(hello: Path, tmp_path: Path) -> None:
    cache = DigestCache(tmp_path / "cache.json")
    digest(cache, hello)
    other = tmp_path / "other"
    other.write_bytes(b"jello")
    os.utime(other, (1_700_000_000, 1_700_000_000))
    os.replace(other, hello)
    assert digest(cache, hello) == sha256(hello) != HELLO


def test_file_changed_just_now_is_not_remembered(hello: Path, tmp_path: Path) -> None:
    hello.write_bytes(b"fresh")
    kept(tmp_path / "cache.json", hello)
    assert not (tmp_path / "cache.json").exists()


def test_nothing_is_written_before_it_is_asked_for(hello: Path, tmp_path: Path) -> None:
    cache = DigestCache(tmp_path / "results" / "cache.json")
    digest(cache, hello)
    assert not (tmp_path / "results").exists()


def test_content_that_kept_size_and_time_is_seen_if_all_is_verified(
    hello: Path, tmp_path: Path
) -> None:
    assert kept(tmp_path / "cache.json", hello) == HELLO
    hello.write_bytes(b"jello")
    os.utime(hello, (1_700_000_000, 1_700_000_000))
    assert digest(DigestCache(tmp_path / "cache.json"), hello) == HELLO
    assert digest(DigestCache(tmp_path / "cache.json", verify=True), hello) == sha256(hello)


@pytest.mark.parametrize("content", ["{", "[]", '{"a": 1}', "\x00"])
def test_damaged_cache_is_replaced(hello: Path, tmp_path: Path, content: str) -> None:
    path = tmp_path / "cache.json"
    path.write_text(content)
    assert kept(path, hello) == HELLO
    assert json.loads(path.read_text())[str(hello)]["sha256"] == HELLO


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*absent: No such file"):
        DigestCache(tmp_path / "cache.json").checksum(tmp_path / "absent", "git")
