"""Files that appear under their name only when they are whole."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_CLOSED = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST}


@contextmanager
def whole(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` if the block succeeds.

    The temporary file is flushed to disk before the rename and deleted after an error, so a
    reader sees the old file, or the new one, and never a part of it. A disk that is full raises
    `OSError` with the file's name, also where a library writes that has errors of its own.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        with temporary.open("rb") as handle:
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    except Exception as error:
        if (number := _number(error)) in _FULL:
            raise OSError(number, os.strerror(number), str(path)) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Give an `OSError` of the block the name of the file that it is about, if it has none."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise


def _number(error: Exception) -> int:
    """Return the system's number of an error; libraries in Rust have it in their text alone."""
    if isinstance(error, OSError):
        return error.errno or 0
    found = re.search(r"\(os error (\d+)\)", str(error))
    return int(found[1]) if found else 0


def unwritable(error: OSError) -> str | None:
    """Return in words why a file could not be written and what to do, or None for another error.

    So for a file that is there and may not be read.
    """
    path = Path(error.filename or "")
    if error.errno in _CLOSED and path.is_file() and not os.access(path, os.R_OK):
        return f"cannot read {path}: {error.strerror}; make it readable"
    what = f"cannot write {error.filename or 'a file'}: {error.strerror}"
    if error.errno in _FULL:
        return (
            f"{what}; make room (`minbert gc` lists what is no longer needed) and run the same "
            "command again: what was finished is kept"
        )
    if error.errno in _CLOSED:
        return f"{what}; make its folder writable, or choose another (`results` in config.yaml)"
    return None


def write_text(path: Path | str, text: str) -> None:
    """Write `text` (UTF-8) to `path`, whole or not at all."""
    with whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path | str, value: Any) -> None:
    """Write `value` as indented JSON with sorted keys, whole or not at all."""
    write_text(path, json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def read_json(path: Path | str) -> Any:
    """Read the JSON file at `path`."""
    return json.loads(Path(path).read_text(encoding="utf-8"))
