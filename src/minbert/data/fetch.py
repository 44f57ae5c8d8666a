"""Downloads that resume, are verified, and appear under their final name only when whole."""

import http.client
import logging
import os
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from minbert.base.errors import FULL, UserError, naming
from minbert.base.locks import FOREVER, take
from minbert.data.identity import checksum
from minbert.store.job import Job

log = logging.getLogger(__name__)

_CHUNK = 1 << 18
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
"""Status codes after which a server is asked again."""


def make(job: Job) -> None:
    """Download the job's file and verify its checksum."""
    fetch(job.extra["url"], job.out / job.spec["name"], job.spec["checksum"])


def fetch(
    url: str,
    out: Path,
    pin: str,
    *,
    attempts: int = 5,
    timeout: float = 30.0,
    wait: float = 1.0,
) -> Path:
    """Download `url` (http, https, file) to `out`, verify its checksum `pin`, and return `out`.

    Received bytes are kept in `.NAME.part` beside `out`, and a later attempt or call continues
    from there (a Range request). There are up to `attempts` attempts, at first `wait` seconds
    apart, then twice as long each time; `timeout` seconds of silence end one. A file that is there
    already is only verified. A second process that fetches the same file waits for the first.

    Raises `UserError` if the download fails (naming two ways without this server) or the checksum
    is another one (a download is then deleted).
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.part")
    if not out.exists():
        with naming(partial), partial.open("a+b") as handle:
            take(handle, partial, FOREVER)
            if not out.exists():  # which the process that was waited for may have made
                _download(url, out, handle, partial, pin, (attempts, timeout, wait))
    if (found := checksum(out, pin)) != pin:
        raise UserError(
            f"{out} exists, but is not the file expected from {url}: found {found}, expected "
            f"{pin}. Delete it to download it again"
        )
    return out


def _download(
    url: str,
    out: Path,
    handle: BinaryIO,
    partial: Path,
    pin: str,
    patience: tuple[int, float, float],
) -> None:
    resumed = _transfer(url, out, handle, *patience)
    if (found := checksum(partial, pin)) != pin and resumed:
        log.warning("%s: the earlier part does not fit; starting over", url)
        handle.truncate(0)
        _transfer(url, out, handle, *patience)
        found = checksum(partial, pin)
    if found != pin:
        handle.truncate(0)  # not deleted, since others may wait for its lock
        raise UserError(
            f"{url}: the file is not the one expected: found {found}, expected {pin}. What came "
            "was deleted. Try again; if this happens again, the publisher changed the file or "
            f"something on the way did: get the right file and put it at {out}"
        )
    os.fsync(handle.fileno())
    os.replace(partial, out)


def _transfer(
    url: str, out: Path, handle: BinaryIO, attempts: int, timeout: float, wait: float
) -> bool:
    """Append what is missing to `handle`; return whether an earlier part was continued."""
    resumed, reason = False, ""
    for attempt in range(attempts):
        if attempt:
            log.warning("%s: %s; trying again", url, reason)
            time.sleep(wait * 2 ** (attempt - 1))
        start = handle.seek(0, os.SEEK_END)
        resumed |= start > 0
        asked = {"Range": f"bytes={start}-"} if start else {}
        request = urllib.request.Request(url, headers={"Accept-Encoding": "identity", **asked})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                _receive(response, handle, start)
            return resumed
        except urllib.error.HTTPError as error:
            if error.code == 416 and start:  # No bytes follow; the checksum tells if it is whole.
                return resumed
            reason = f"the server answered {error.code} {error.reason}"
            if error.code not in _TRANSIENT:
                break
        except (OSError, http.client.HTTPException) as error:
            if url.startswith("file:"):
                raise UserError(f"cannot read {url}: {error}") from error
            if isinstance(error, OSError) and error.errno in FULL:
                raise
            reason = str(getattr(error, "reason", "") or error or type(error).__name__)
    name = urlsplit(url).path.rpartition("/")[2]
    raise UserError(
        f"cannot download {url}: {reason} ({attempt + 1} attempts). Two ways without this server: "
        f"name a folder that holds {name} as the data's source in config.yaml; or get the file on "
        f"another machine and put it at {out}"
    )


def _receive(response: http.client.HTTPResponse, handle: BinaryIO, start: int) -> None:
    """Append what the server sends; it sends the whole file if it cannot resume."""
    sent = response.headers.get("Content-Range", "")
    if response.status != 206 or not sent.startswith(f"bytes {start}-"):
        handle.truncate(0)
        start = 0
    if response.status == 206 and not start:
        raise OSError(f"the server sent '{sent}', which is not the range it was asked for")
    length = response.headers.get("Content-Length", "")
    total = start + int(length) if length.isdigit() else None
    while chunk := response.read(_CHUNK):
        handle.write(chunk)
    handle.flush()
    if total is not None and handle.tell() != total:
        raise OSError(f"the server sent {handle.tell():,} of {total:,} bytes")
