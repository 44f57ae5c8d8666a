"""Where data lie: paths and URLs, checked as they are read."""

import os
import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from minbert.spec.protocol import COURSE_URL

URLS = ("http://", "https://", "file://")

LONGEST_NAME = 255
"""Bytes of the longest name in a path that file systems allow."""


def to_path(value: str) -> str:
    """Expand `~`; refuse what no file system takes."""
    path = os.path.expanduser(value)
    if path.startswith("~"):
        raise ValueError(f"{value!r}: there is no such home folder")
    if not path.isprintable() or max(map(len, os.fsencode(path).split(b"/"))) > LONGEST_NAME:
        found = f"{path[:100]!r} ..." if len(path) > 100 else repr(path)
        raise ValueError(f"{found} is no path: it is too long, or has control characters")
    return path


def _to_source(value: str) -> str:
    """Take what is no URL as a path; refuse a URL that nothing can be downloaded from."""
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", value):
        return to_path(value)
    problem = ""
    try:
        parts = urlsplit(value)
        if not value.startswith(URLS):
            problem = f"it begins with '{value.partition('/')[0]}'"
        elif parts.scheme != "file" and not parts.hostname:
            problem = "it names no server"
        elif " " in value or not value.isprintable() or parts.port == 0:
            problem = "it has a space, a control character, or port 0"
    except ValueError as error:
        problem = str(error)
    if problem:
        raise ValueError(
            f"{value!r} cannot be downloaded from: {problem}; give a folder or file, or a URL "
            f"such as {COURSE_URL} ({', '.join(URLS)})"
        )
    return value


Text = Annotated[str, Field(min_length=1)]
Location = Annotated[Text, AfterValidator(to_path)]
Source = Annotated[Text, AfterValidator(_to_source)]
