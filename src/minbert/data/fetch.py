"""Downloads that are verified, and appear under their name only when whole."""

import http.client
import logging
import shutil
import time
import urllib.request
from pathlib import Path
from typing import BinaryIO

from minbert.base.errors import FULL, UserError
from minbert.base.files import whole
from minbert.data.identity import checksum
from minbert.store.job import Job

log = logging.getLogger(__name__)

_BUSY = {408, 425, 429}
"""Answers, besides those from 500, after which a server is asked again."""


def make(job: Job) -> None:
    """Download the job's file and verify its checksum."""
    fetch(job.extra["url"], job.out / job.spec["name"], job.spec["checksum"])


def fetch(
    url: str, out: Path, pin: str, attempts: int = 5, timeout: float = 30.0, wait: float = 1.0
) -> None:
    """Download `url` (http, https, file) to `out`, and verify its checksum `pin`.

    There are up to `attempts` attempts, at first `wait` seconds apart, then twice as long each
    time; `timeout` seconds of silence end one. Raises `UserError` if the download fails (naming two
    ways without this server) or the checksum is another one.
    """
    with whole(out) as temporary:
        with temporary.open("wb") as file:
            _download(url, out, file, attempts, timeout, wait)
        if (found := checksum(temporary, pin)) != pin:
            raise UserError(
                f"{url}: the checksum of what came is {found}, expected {pin}; it was deleted. Try "
                f"again, or get the right file elsewhere and put it at {out}"
            )


def _download(
    url: str, out: Path, file: BinaryIO, attempts: int, timeout: float, wait: float
) -> None:
    for attempt in range(1, attempts + 1):
        try:
            with urllib.request.urlopen(url, timeout=timeout) as response:
                file.seek(0)
                file.truncate()
                shutil.copyfileobj(response, file)
                if missing := getattr(response, "length", None):  # `read` of a part says nothing.
                    raise ConnectionError(f"the server sent {missing:,} bytes too few")
                return
        except (OSError, http.client.HTTPException) as error:
            reason, code = str(error) or type(error).__name__, getattr(error, "code", 500)
            if error.args and error.args[0] in FULL:
                raise
            if url.startswith("file:") or (code < 500 and code not in _BUSY):
                break
        if attempt < attempts:
            log.warning("%s: %s; trying again", url, reason)
            time.sleep(wait * 2 ** (attempt - 1))
    raise UserError(
        f"cannot download {url}: {reason} ({attempt} attempts). Without this server: name a folder "
        "that holds the file as the data's source in config.yaml, or get it on another machine and "
        f"put it at {out}"
    )
