"""The one exception that a user is meant to read."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something that the user can put right: the message says what was found and what to do.

    The command line prints it without a traceback and exits with status 2.
    """


def nearest(word: str, choices: Iterable[str]) -> str:
    """Return `" Did you mean 'x'?"` for the closest of `choices`, or an empty string."""
    match = difflib.get_close_matches(str(word), [str(c) for c in choices], n=1, cutoff=0.5)
    return f" Did you mean '{match[0]}'?" if match else ""


def printable(text: str) -> str:
    """Return `text` with control characters written out, so that it cannot steer a terminal.

    Messages quote what was found, and that may be anything.
    """
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode("ascii")
        for c in text
    )
