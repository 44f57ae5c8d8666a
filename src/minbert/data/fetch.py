"""Downloads that are verified, and appear under their name only when whole."""

import http.client
import logging
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from minbert.base.errors import UserError
from minbert.base.files import whole
from minbert.data.identity import checksum
from minbert.store.job import Job

log = logging.getLogger(__name__)


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
        temporary.write_bytes(_download(url, out, attempts, timeout, wait))
        if (found := checksum(temporary, pin)) != pin:
            raise UserError(
                f"{url}: the file is not the one expected: found {found}, expected {pin}. What "
                "came was deleted. Try again; if this happens again, the publisher changed the "
                f"file or something on the way did: get the right file and put it at {out}"
            )


def _download(url: str, out: Path, attempts: int, timeout: float, wait: float) -> bytes:
    for attempt in range(1, attempts + 1):
        try:
            with urllib.request.urlopen(url, timeout=timeout) as response:
                content: bytes = response.read()
                return content
        except (OSError, http.client.HTTPException) as error:
            reason = str(error) or type(error).__name__
            if url.startswith("file:") or getattr(error, "code", 500) < 500:
                break
        if attempt < attempts:
            log.warning("%s: %s; trying again", url, reason)
            time.sleep(wait * 2 ** (attempt - 1))
    name = urlsplit(url).path.rpartition("/")[2]
    raise UserError(
        f"cannot download {url}: {reason} ({attempt} attempts). Two ways without this server: "
        f"name a folder that holds {name} as the data's source in config.yaml; or get the file on "
        f"another machine and put it at {out}"
    )
