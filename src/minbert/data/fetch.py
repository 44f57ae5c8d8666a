"""Downloads that are verified, and appear under their name only when whole."""

import http.client
import logging
import shutil
import time
import urllib.request
from pathlib import Path

from minbert.base.errors import FULL, UserError
from minbert.base.files import whole
from minbert.data.identity import checksum
from minbert.store.job import Job

WAITS = (1.0, 2.0, 4.0, 8.0)
"""Seconds between attempts."""


def make(job: Job) -> None:
    """Download the job's file and verify its checksum."""
    fetch(job.extra["url"], job.out / job.spec["name"], job.spec["checksum"])


def fetch(url: str, out: Path, pin: str, timeout: float = 30.0) -> None:
    """Download `url` (http, https, file) to `out`, and verify its checksum `pin`.

    After each of `WAITS` there is one more attempt; `timeout` seconds of silence end one. Raises
    `UserError` if the download fails or the checksum differs.
    """
    with whole(out) as temporary:
        for wait in (*WAITS, None):
            try:
                with urllib.request.urlopen(url, timeout=timeout) as response:
                    with temporary.open("wb") as file:
                        shutil.copyfileobj(response, file)
                    # `read` of a part says nothing.
                    if missing := getattr(response, "length", None):
                        raise ConnectionError(f"the server sent {missing:,} bytes too few")
                break
            except (OSError, http.client.HTTPException) as error:
                if getattr(error, "errno", None) in FULL:
                    raise
                # Who is busy says 429 or above.
                if wait is None or getattr(error, "code", 500) < 429:
                    raise UserError(
                        f"cannot download {url}: {error or type(error).__name__}. Without this "
                        f"server: name a folder with the file in config.yaml, or put it at {out}"
                    ) from None
                logging.getLogger(__name__).warning("%s: %s; trying again", url, error)
                time.sleep(wait)
        if (found := checksum(temporary, pin)) != pin:
            way = f"Try again, or get the right file elsewhere and put it at {out}"
            raise UserError(f"{url}: the checksum of what came is {found}, expected {pin}. {way}")
