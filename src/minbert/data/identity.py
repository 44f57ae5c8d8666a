"""What a file is by its content: digests, checksums, and a cache of digests."""

import hashlib
import time
from collections.abc import Callable
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


def check_unchanged(path: Path | str, planned: str) -> None:
    """Refuse data whose checksum is another one than `planned`, whose key it would get."""
    if (found := checksum(path, planned)) != planned:
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
        self._found: dict[str, dict[str, Any]] = {}
        self._known = {} if verify else self._read()

    def checksum(self, path: Path | str, like: str) -> str:
        """Return the checksum of `path`, of the same kind as `like` (see `checksum`)."""
        path = Path(path).absolute()
        try:
            stat = path.stat()
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}") from error
        state, kind = [stat.st_size, stat.st_mtime_ns, stat.st_ino], like.partition(":")[0]
        entry = self._known.get(str(path), {})
        if entry.get("state") != state:
            entry = {"state": state}
        if not isinstance(entry.get(kind), str):
            entry = {**entry, kind: checksum(path, like).removeprefix(f"{kind}:")}
            self._known[str(path)] = entry
            if abs(time.time_ns() - stat.st_mtime_ns) > _SETTLED_NS:
                self._found[str(path)] = entry
        return f"{kind}:{entry[kind]}"

    def save(self) -> None:
        """Write what was found to the file, beside what others wrote there."""
        if self._found:
            write_json(self.path, self._read() | self._found)

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            entries = read_json(self.path)
        except (OSError, UserError):
            return {}
        return {path: entry for path, entry in entries.items() if isinstance(entry, dict)}
