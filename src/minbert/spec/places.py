"""Where data lie: paths and URLs."""

import os
from typing import Annotated

from pydantic import AfterValidator, Field

from minbert.spec.protocol import COURSE_URL

URLS = ("http://", "https://", "file://")


def to_path(value: str) -> str:
    """Expand `~`."""
    path = os.path.expanduser(value)
    if path.startswith("~"):
        raise ValueError(f"{value!r}: there is no such home folder")
    return path


def _to_source(value: str) -> str:
    """Take what is no URL as a path; refuse a URL that nothing can be downloaded from."""
    if value.startswith(URLS):
        return value
    if "://" in value:
        raise ValueError(
            f"{value!r} cannot be downloaded from; give a folder or file, or a URL such as "
            f"{COURSE_URL} ({', '.join(URLS)})"
        )
    return to_path(value)


Text = Annotated[str, Field(min_length=1)]
Location = Annotated[Text, AfterValidator(to_path)]
Source = Annotated[Text, AfterValidator(_to_source)]
