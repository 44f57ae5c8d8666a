"""Files that a user names: each appears whole, or the one that was there stays."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from minbert.base.errors import UserError
from minbert.base.files import whole


@contextmanager
def written(path: Path) -> Iterator[TextIO]:
    """Yield a text file (UTF-8) that appears at `path` when the block has succeeded.

    A link to a file stays. Raises `UserError` if `path` cannot be written, or is no regular file.
    """
    try:
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(path.stat().st_mode):
                raise UserError(f"cannot write {path}: it is no regular file; choose another --out")
        with (
            whole(os.path.realpath(path)) as temporary,
            temporary.open("w", encoding="utf-8") as file,
        ):
            yield file
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; choose another --out") from None
