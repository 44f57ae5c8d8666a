"""What a file is by its content: checksums, and a cache of them."""

import hashlib
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError, no_file
from minbert.base.files import read_json, write_json

# A file that changed this recently can change again without a new modification time.
_SETTLED_NS = 2_000_000_000


def checksum(path: Path, like: str) -> str:
    """Return the checksum of the file, of the same kind as the checksum `like`.

    `sha256:`; `md5:` (an old publisher's pin); or `git:`, as `git hash-object --no-filters`.
    """
    kind = like.partition(":")[0]
    digest = hashlib.new("sha1" if kind == "git" else kind, usedforsecurity=False)
    if not path.is_file():
        raise no_file(path)
    try:
        with path.open("rb") as file:
            if kind == "git":
                digest.update(b"blob %d\0" % path.stat().st_size)
            return f"{kind}:{hashlib.file_digest(file, lambda: digest).hexdigest()}"
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


def check_unchanged(path: Path, planned: str) -> None:
    """Refuse data whose checksum is not the `planned` one, whose key it would get."""
    if (found := checksum(path, planned)) != planned:
        raise UserError(
            f"{path} changed since the plan (planned {planned}, found {found}); run snakemake again"
        )


class DigestCache:
    """Checksums of files, cached: valid while size, modification time and inode stay the same."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, Any] = {}
        with suppress(OSError, UserError):
            self._known = read_json(self.path)

    def checksum(self, path: Path, like: str) -> str:
        """Return the checksum of `path`, of the same kind as `like` (see `checksum`)."""
        if not path.is_file():
            raise no_file(path)
        stat, entry = path.stat(), f"{like.partition(':')[0]} {path.absolute()}"
        state = f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ino}"
        before, _, known = self._known.get(entry, "").partition(": ")
        if before == state:
            return known
        found = checksum(path, like)
        if abs(time.time_ns() - stat.st_mtime_ns) > _SETTLED_NS:
            self._known[entry] = f"{state}: {found}"
        return found

    def save(self) -> None:
        """Write the file; if two processes save at once, an entry may be lost."""
        write_json(self.path, self._known)
