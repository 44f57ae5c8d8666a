"""What a file is, by its bytes: digests, pinned checksums, and a cache of digests."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from minbert.common.errors import UserError, nearest
from minbert.common.files import write_json

Kind = Literal["sha256", "md5", "git_blob"]

_CHUNK = 1 << 20
# A file changed this recently can change again without its times showing it.
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
    """Return the id that git gives the content: SHA-1 of `blob SIZE\\0` and the bytes, 40 digits.

    A repository's tree lists these ids, so a file can be pinned without being downloaded. Equal
    to `git hash-object --no-filters PATH`.
    """
    path = Path(path)
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as handle:
        while chunk := handle.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


DIGESTS: dict[Kind, Callable[[Path | str], str]] = {
    "sha256": sha256,
    "md5": md5,
    "git_blob": git_blob,
}
_PREFIXES: dict[str, tuple[Kind, int]] = {
    "sha256": ("sha256", 64),
    "md5": ("md5", 32),
    "git": ("git_blob", 40),
}


def split_checksum(checksum: str) -> tuple[Kind, str]:
    """Return the kind and the hex digits of `sha256:...`, `md5:...` or `git:...`.

    Raises `UserError` for an unknown prefix or digits that are no such digest.
    """
    prefix, _, digits = checksum.strip().partition(":")
    if prefix not in _PREFIXES:
        raise UserError(
            f"checksum '{checksum}': expected sha256:HEX, md5:HEX or git:HEX (a blob id)."
            f"{nearest(prefix, _PREFIXES)}"
        )
    kind, length = _PREFIXES[prefix]
    digits = digits.lower()
    if len(digits) != length or set(digits) - set("0123456789abcdef"):
        raise UserError(
            f"checksum '{checksum}': {prefix} has {length} hex digits, "
            f"found {len(digits)} characters"
        )
    return kind, digits


def checksum_of(path: Path | str, like: str) -> str:
    """Return the checksum of `path`, prefix and all, of the same kind as the checksum `like`."""
    kind, _ = split_checksum(like)
    return f"{like.strip().partition(':')[0]}:{DIGESTS[kind](path)}"


def checksum_matches(path: Path | str, checksum: str) -> bool:
    """Tell whether the file's content has `checksum` (`sha256:...`, `md5:...`, `git:...`)."""
    kind, digits = split_checksum(checksum)
    return DIGESTS[kind](path) == digits


class DigestCache:
    """Digests of files, remembered in one JSON file, so that a plan need not read 440 MB again.

    A digest is remembered with the file's size, modification time and inode; when one of them
    differs the file is read again. The cache may be deleted at any time, and two processes may
    use it at once: the worst that can happen is that a file is read once more.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def digest(self, path: Path | str, kind: Kind = "sha256") -> str:
        """Return the digest of `path`; it is read only if it is not the file remembered.

        Raises `UserError` where there is no such file.
        """
        path = Path(path).absolute()
        try:
            stat = path.stat()
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}") from error
        state = [stat.st_size, stat.st_mtime_ns, stat.st_ino]
        known = self._read().get(str(path), {})
        if known.get("state") == state and isinstance(known.get(kind), str):
            return str(known[kind])
        value = DIGESTS[kind](path)
        if abs(time.time_ns() - stat.st_mtime_ns) > _SETTLED_NS:
            self._remember(str(path), state, kind, value)
        return value

    def tree(self, folder: Path) -> str:
        """Return the SHA-256 of the names and contents of all text files (`.txt`) below `folder`.

        They are read only if names, sizes or modification times are not those remembered.
        """
        files = sorted(path for path in folder.absolute().rglob("*.txt") if path.is_file())
        stats = [path.stat() for path in files]
        names = [path.relative_to(folder.absolute()).as_posix() for path in files]
        seen = [[n, s.st_size, s.st_mtime_ns] for n, s in zip(names, stats, strict=True)]
        state = [hashlib.sha256(json.dumps(seen).encode()).hexdigest()]
        known = self._read().get(f"{folder.absolute()}/", {})
        if known.get("state") == state:
            return str(known["sha256"])
        contents = [[name, sha256(path)] for name, path in zip(names, files, strict=True)]
        value = hashlib.sha256(json.dumps(contents).encode()).hexdigest()
        newest = max((s.st_mtime_ns for s in stats), default=0)
        if abs(time.time_ns() - newest) > _SETTLED_NS:
            self._remember(f"{folder.absolute()}/", state, "sha256", value)
        return value

    def _remember(self, path: str, state: Sequence[int | str], kind: Kind, value: str) -> None:
        entries = self._read()  # again: another process may have added to it meanwhile
        entry = entries.get(path, {})
        if entry.get("state") != state:
            entry = {"state": state}
        entries[path] = {**entry, kind: value}
        write_json(self.path, entries)

    def _read(self) -> dict[str, dict[str, object]]:
        try:
            entries = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        if not isinstance(entries, dict):
            return {}
        return {path: entry for path, entry in entries.items() if isinstance(entry, dict)}
