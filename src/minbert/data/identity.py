"""What a file is by its content: digests, checksums, and a cache of digests."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError
from minbert.base.files import read_json, write_json

# A file that changed this recently can change again without a new modification time.
_SETTLED_NS = 2_000_000_000


def sha256(path: Path | str) -> str:
    """Return the SHA-256 of the file's content, 64 hex digits."""
    with Path(path).open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def md5(path: Path | str) -> str:
    """Return the MD5 of the file's content, 32 hex digits (an old publisher's pin, no security)."""
    with Path(path).open("rb") as handle:
        return hashlib.file_digest(handle, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def git_blob(path: Path | str) -> str:
    """Return the id by which git's trees list the content, as `git hash-object --no-filters`."""
    digest = hashlib.sha1(b"blob %d\0" % Path(path).stat().st_size, usedforsecurity=False)
    with Path(path).open("rb") as handle:
        return hashlib.file_digest(handle, lambda: digest).hexdigest()


DIGESTS: dict[str, Callable[[Path | str], str]] = {"sha256": sha256, "md5": md5, "git": git_blob}
"""Digests by the prefix of a checksum, as in `md5:7c2a...`."""


def checksum(path: Path | str, like: str) -> str:
    """Return the checksum of the file, of the same kind as the checksum `like`."""
    kind = like.partition(":")[0]
    try:
        return f"{kind}:{DIGESTS[kind](path)}"
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


def tree(files: Mapping[str, Path]) -> str:
    """Return the SHA-256 of the names and contents of `files`, by name."""
    return _of_json([[name, sha256(path)] for name, path in files.items()])


def check_unchanged(path: Path | str, found: str, planned: str) -> None:
    """Refuse data whose checksum is another one than in the plan, whose key it would get."""
    if found != planned:
        raise UserError(
            f"{path} changed since the plan (planned {planned}, found {found}); run "
            "snakemake again, which plans anew"
        )


class DigestCache:
    """Digests of files, cached in one JSON file, so that a plan need not read 440 MB each time.

    A digest is valid while the file's size, modification time and inode are the same, unless
    `verify`: then every file is read. `save` writes what was found; if two processes do so at once,
    an entry may be lost, and its file is read again.
    """

    def __init__(self, path: Path | str, *, verify: bool = False) -> None:
        self.path = Path(path)
        self._found: dict[str, dict[str, object]] = {}
        self._known = {} if verify else self._read()

    def digest(self, path: Path | str, kind: str = "sha256") -> str:
        """Return the digest of `path`, of a kind in `DIGESTS`; `UserError` if there is no file."""
        path = Path(path).absolute()
        try:
            stat = path.stat()
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}") from error
        state = [stat.st_size, stat.st_mtime_ns, stat.st_ino]
        return self._cached(str(path), state, kind, stat.st_mtime_ns, lambda: DIGESTS[kind](path))

    def tree(self, folder: Path, files: Mapping[str, Path]) -> str:
        """Return the digest (`tree`) of `files` below `folder`, by name."""
        stats = {name: path.stat() for name, path in files.items()}
        seen = [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()]
        newest = max((stat.st_mtime_ns for stat in stats.values()), default=0)
        state = [_of_json(seen)]
        return self._cached(f"{folder.absolute()}/", state, "sha256", newest, lambda: tree(files))

    def _cached(
        self, name: str, state: list[Any], kind: str, changed_ns: int, compute: Callable[[], str]
    ) -> str:
        known = self._known.get(name, {})
        if known.get("state") == state and isinstance(known.get(kind), str):
            return str(known[kind])
        value = compute()
        kept = known if known.get("state") == state else {"state": state}
        self._known[name] = {**kept, kind: value}
        if abs(time.time_ns() - changed_ns) > _SETTLED_NS:
            self._found[name] = self._known[name]
        return value

    def save(self) -> None:
        """Write what was found to the file, beside what others wrote there."""
        if self._found:
            write_json(self.path, self._read() | self._found)

    def _read(self) -> dict[str, dict[str, object]]:
        try:
            entries = read_json(self.path)
        except (OSError, UserError):
            return {}
        return {path: entry for path, entry in entries.items() if isinstance(entry, dict)}


def _of_json(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
