"""Files that appear under their name only when they are complete."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from minbert.base.errors import FULL, UserError


@contextmanager
def whole(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path beside `path`; flush and rename it to `path` if the block succeeds.

    After an error it is deleted. A full disk raises `OSError` with the file's name, even if a
    library reports it by its own error.
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
        # Rust libraries quote the system's error; torch raises its own after it.
        said = f"{error!r} {error.__context__!r}"
        for number in FULL:
            if os.strerror(number) in said:
                raise OSError(number, os.strerror(number), str(path)) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path | str, text: str) -> None:
    """Write `text` (UTF-8) to `path`, completely or not at all."""
    with whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path | str, value: Any) -> None:
    """Write `value` as indented JSON with sorted keys, completely or not at all."""
    write_text(path, json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def read_json(path: Path | str) -> dict[str, Any]:
    """Read the JSON object in the file at `path`; `UserError` if it holds none."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise UserError(f"{path}: expected a JSON object, found {type(found).__name__}")
    return found
