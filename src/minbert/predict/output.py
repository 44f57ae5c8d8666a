"""Files that a user names: a regular file appears whole, anything else is written into."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from minbert.base.errors import UserError
from minbert.base.files import whole


@contextmanager
def written(path: Path) -> Iterator[TextIO]:
    """Yield a text file (UTF-8) that goes to `path`; `UserError` if it cannot be written.

    A regular or new file appears when the block has succeeded, and links to it stay. A FIFO, a
    device and an open file (`/dev/stdout`, `/dev/fd/3`) are written into.
    """
    try:
        try:
            regular = stat.S_ISREG(path.stat().st_mode)
        except FileNotFoundError:
            regular = True
        number = _descriptor(path)
        if number is None and regular:
            with (
                whole(os.path.realpath(path)) as temporary,
                temporary.open("w", encoding="utf-8") as file,
            ):
                yield file
        else:
            number = os.open(path, os.O_WRONLY) if number is None else os.dup(number)
            with os.fdopen(number, "w", encoding="utf-8") as file:
                yield file
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; choose another --out") from None


def _descriptor(path: Path) -> int | None:
    """Return the number of this process's open file that `path` stands for, or None."""
    while path.is_symlink():
        if path.parent.resolve() == Path("/dev/fd").resolve():
            return int(path.name)
        path = path.parent / path.readlink()
    return None
