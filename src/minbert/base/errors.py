"""The exception that users are meant to read, and messages for files that cannot be written."""

import difflib
import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_CLOSED = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.EISDIR}
_CLOSED |= {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}  # a disk without locks


class UserError(ValueError):
    """An error that the user can fix: the message says what was found and what to do.

    The command line prints it without a traceback and exits with status 2. Pydantic adds the key.
    """


def no_file(path: Path, kind: str = "file") -> UserError:
    """Return the message for a missing file or folder, with the most similar name beside it."""
    beside = (p.name for p in path.parent.glob("*") if p.is_dir() == (kind == "folder"))
    return UserError(f"{path}: there is no such {kind}.{did_you_mean(path.name, beside)}")


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return `" Did you mean 'x'?"` for the closest of `choices`, or "" if none is close."""
    known = {str(choice).lower(): choice for choice in choices}
    match = difflib.get_close_matches(str(word).lower()[:100], known, n=1, cutoff=0.65)
    return f" Did you mean '{known[match[0]]}'?" if match else ""


def printable(text: str) -> str:
    """Return `text`, which may quote anything, with control characters as escapes."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode("ascii")
        for c in text
    )


def explain_os_error(error: OSError) -> str | None:
    """Return why a file could not be written or read, and what to do; None for other errors."""
    # Of a file that is renamed, the second name is the one that people know.
    path = error.filename2 or error.filename or "a file"
    if error.errno in FULL:
        return (
            f"cannot write {path}: {error.strerror}; make room (`minbert gc` lists what is no "
            "longer needed) and run the same command again: finished results are kept"
        )
    if error.errno in _CLOSED:
        return (
            f"cannot read or write {path}: {error.strerror}; make it readable and its folder "
            "writable, or choose another place (`results` in config.yaml)"
        )
    return None


@contextmanager
def reraise_as(kind: type[Exception]) -> Iterator[None]:
    """Raise the block's errors that users are meant to read as errors of a different kind."""
    try:
        yield
    except UserError as error:
        raise kind(str(error)) from None
    except OSError as error:
        raise kind(explain_os_error(error) or str(error)) from None
