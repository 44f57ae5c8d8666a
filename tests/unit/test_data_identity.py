"""Checksums of files, and the cache of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from minbert.base.errors import UserError
from minbert.data import identity
from minbert.data.identity import DigestCache, checksum

HELLO = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
OTHERS = {
    "md5": "5d41402abc4b2a76b9719d911017c592",
    "git": "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0",  # printf hello | git hash-object --stdin
}


@pytest.fixture
def hello(tmp_path: Path) -> Path:
    return written(tmp_path / "hello", "hello")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Each file that is read, when it is."""
    found: list[Path] = []

    def count(path: Path, like: str) -> str:
        found.append(path)
        return checksum(path, like)

    monkeypatch.setattr(identity, "checksum", count)
    return found


def written(path: Path, text: str, second: int = 0) -> Path:
    """Write a file with a time of long ago."""
    path.write_text(text)
    os.utime(path, (1_700_000_000 + second,) * 2)
    return path


def kept(path: Path, file: Path, kind: str = "sha256") -> str:
    """Return a checksum by a cache that is read, and written again."""
    cache = DigestCache(path)
    found = cache.checksum(file, kind)
    cache.save()
    return found


def test_known_checksums(hello: Path, tmp_path: Path) -> None:
    assert checksum(hello, "sha256:") == HELLO
    for kind, value in OTHERS.items():
        assert checksum(hello, f"{kind}:00") == f"{kind}:{value}"
    with pytest.raises(UserError, match=r"cannot read .*absent: No such file"):
        checksum(tmp_path / "absent", "git")


def test_an_unchanged_file_is_read_once(hello: Path, tmp_path: Path, reads: list[Path]) -> None:
    for _ in range(3):
        assert kept(tmp_path / "c.json", hello) == HELLO
    assert len(reads) == 1
    assert kept(tmp_path / "c.json", hello, "git").startswith("git:b6fc")
    assert kept(tmp_path / "c.json", hello) == HELLO
    assert len(reads) == 2  # another kind does not push the first one out


def test_a_file_with_another_time_or_place_on_disk_is_read(
    hello: Path, tmp_path: Path, reads: list[Path]
) -> None:
    cache = DigestCache(tmp_path / "c.json")
    assert cache.checksum(hello, "sha256") == HELLO
    written(hello, "jello", 1)  # as long as before
    assert cache.checksum(hello, "sha256") != HELLO
    os.replace(written(tmp_path / "other", "hello", 1), hello)
    assert cache.checksum(hello, "sha256") == HELLO and len(reads) == 3


def test_what_changed_just_now_is_not_kept(hello: Path, tmp_path: Path) -> None:
    hello.write_bytes(b"fresh")
    kept(tmp_path / "c.json", hello)
    assert not (tmp_path / "c.json").exists()


def test_content_that_kept_size_and_time_is_seen_if_all_is_verified(
    hello: Path, tmp_path: Path
) -> None:
    assert kept(tmp_path / "c.json", hello) == HELLO
    written(hello, "jello")
    assert DigestCache(tmp_path / "c.json").checksum(hello, "sha256") == HELLO
    verified = DigestCache(tmp_path / "c.json", verify=True).checksum(hello, "sha256")
    assert verified == checksum(hello, "sha256") != HELLO


@pytest.mark.parametrize("content", ["{", "[]", '{"a": 1}'])
def test_a_damaged_cache_is_replaced(hello: Path, tmp_path: Path, content: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(content)
    assert kept(path, hello) == HELLO
    assert json.loads(path.read_text())[f"sha256 {hello}"].endswith(HELLO)
