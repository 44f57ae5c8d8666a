"""Checksums of files, and the cache of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from minbert.base.errors import UserError
from minbert.data.identity import DigestCache, checksum

HELLO = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
OTHERS = {
    "md5": "5d41402abc4b2a76b9719d911017c592",
    "git": "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0",  # printf hello | git hash-object --stdin
}


def written(path: Path, text: str, second: int = 0) -> Path:
    """Write a file with a time of long ago."""
    path.write_text(text)
    os.utime(path, (1_700_000_000 + second,) * 2)
    return path


def kept(cache: Path, file: Path, kind: str = "sha256") -> str:
    """Return a checksum by a cache that is read, and written again."""
    digests = DigestCache(cache)
    found = digests.checksum(file, kind)
    digests.save()
    return found


def test_known_checksums(tmp_path: Path) -> None:
    hello = written(tmp_path / "hello", "hello")
    assert checksum(hello, "sha256:") == HELLO
    for kind, value in OTHERS.items():
        assert checksum(hello, f"{kind}:00") == f"{kind}:{value}"
    for absent in (checksum, DigestCache(tmp_path / "c.json").checksum):
        with pytest.raises(UserError, match="absent: there is no such file"):
            absent(tmp_path / "absent", "git")


def test_a_file_is_read_again_when_it_changed(tmp_path: Path) -> None:
    hello, cache = written(tmp_path / "hello", "hello"), tmp_path / "c.json"
    assert kept(cache, hello) == HELLO and kept(cache, hello, "md5").startswith("md5")
    written(hello, "jello")  # as long and as old as before
    assert kept(cache, hello) == HELLO, "one kind does not push the other out"
    written(hello, "hallo", 1)
    assert kept(cache, hello) == checksum(hello, "sha256")
    os.replace(written(tmp_path / "other", "hello", 1), hello)
    assert kept(cache, hello) == HELLO


def test_what_changed_just_now_is_not_kept_and_damage_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minbert.data.identity._SETTLED_NS", 10**15)  # a test may be held up
    hello, cache = tmp_path / "hello", tmp_path / "c.json"
    hello.write_bytes(b"fresh")
    kept(cache, hello)
    assert json.loads(cache.read_text()) == {}
    cache.write_text("{")
    assert kept(cache, written(hello, "hello")) == HELLO
    assert json.loads(cache.read_text())[f"sha256 {hello}"].endswith(HELLO)
