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


def test_a_file_is_read_once_until_it_changes(
    hello: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Path] = []
    monkeypatch.setattr(
        identity, "checksum", lambda path, like: reads.append(path) or checksum(path, like)
    )
    cache = tmp_path / "c.json"
    for kind in ("sha256", "git", "sha256", "git"):
        assert kept(cache, hello, kind).startswith(kind)
    assert len(reads) == 2, "one kind does not push the other out"
    written(hello, "jello", 1)  # as long as before
    assert kept(cache, hello) != HELLO
    os.replace(written(tmp_path / "other", "hello", 1), hello)
    assert kept(cache, hello) == HELLO and len(reads) == 4


def test_what_changed_just_now_is_not_kept_and_damage_is_replaced(
    hello: Path, tmp_path: Path
) -> None:
    path = tmp_path / "c.json"
    hello.write_bytes(b"fresh")
    kept(path, hello)
    assert not path.exists()
    path.write_text("{")
    assert kept(path, written(hello, "hello")) == HELLO
    assert json.loads(path.read_text())[f"sha256 {hello}"].endswith(HELLO)


def test_content_that_kept_size_and_time_is_seen_if_all_is_verified(
    hello: Path, tmp_path: Path
) -> None:
    assert kept(tmp_path / "c.json", hello) == HELLO
    written(hello, "jello")
    assert DigestCache(tmp_path / "c.json").checksum(hello, "sha256") == HELLO
    verified = DigestCache(tmp_path / "c.json", verify=True).checksum(hello, "sha256")
    assert verified == checksum(hello, "sha256") != HELLO
