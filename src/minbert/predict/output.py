"""Files that a user names: a regular file appears whole, anything else is written into."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from minbert.base.errors import UserError
from minbert.base.files import whole

_DESCRIPTORS = Path("/dev/fd")


@contextmanager
def written(path: Path) -> Iterator[TextIO]:
    """Yield a text file (UTF-8) that goes to `path`; `UserError` if it cannot be written.

    A regular or new file appears when the block has succeeded, and links to it stay. A FIFO, a
    device and an open file (`/dev/stdout`, `/dev/fd/3`) are written into.
    """
    try:
        new = not _exists(path)
        if (number := _descriptor(path)) is not None:
            with os.fdopen(os.dup(number), "w", encoding="utf-8") as file:
                yield file
        elif new or path.is_file():
            with whole(os.path.realpath(path)) as temporary, _open(temporary) as file:
                yield file
        else:
            with _open(path) as file:
                yield file
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; choose another --out") from None


def _open(path: Path) -> TextIO:
    return path.open("w", encoding="utf-8", newline="\n")


def _exists(path: Path) -> bool:
    """Return whether there is something behind `path`; links in a circle raise `OSError`."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    return True


def _descriptor(path: Path) -> int | None:
    """Return the number of this process's open file that `path` stands for, or None."""
    while path.is_symlink():
        if path.parent.resolve() == _DESCRIPTORS.resolve():
            return int(path.name)
        path = path.parent / path.readlink()
    return None
