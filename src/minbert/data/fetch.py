"""Downloads that resume, are verified, and appear under their final name only when whole."""

import http.client
import logging
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from tqdm import tqdm

from minbert.base.errors import UserError, naming
from minbert.base.locks import FOREVER, take
from minbert.data.identity import checksum
from minbert.store.job import Job

log = logging.getLogger(__name__)

_CHUNK = 1 << 18
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
"""Status codes after which a server is asked again."""


def make(job: Job) -> None:
    """Download the job's file and verify its checksum."""
    name = job.spec["name"]
    fetch(job.extra["url"], job.out / name, job.spec["checksum"])


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
    with naming(partial), _sole(partial, out) as handle:
        if handle is None:
            if (found := checksum(out, pin)) != pin:
                raise UserError(
                    f"{out} exists, but is not the file expected from {url}: found {found}, "
                    f"expected {pin}. Delete it to download it again"
                )
            return out
        transfer = _Transfer(url, out, handle, timeout)
        transfer.run(attempts, wait)
        if (found := checksum(partial, pin)) != pin and transfer.resumed:
            log.warning("%s: the earlier part does not fit; starting over", url)
            handle.truncate(0)
            transfer.run(attempts, wait)
            found = checksum(partial, pin)
        if found != pin:
            partial.unlink()
            raise UserError(
                f"{url}: the file is not the one expected: found {found}, expected {pin}. What "
                "came was deleted. Try again; if this happens again, the publisher changed the "
                f"file or something on the way did: get the right file and put it at {out}"
            )
        os.fsync(handle.fileno())
        os.replace(partial, out)
    return out


class _BrokeOff(Exception):
    """An attempt failed, but another one may succeed."""


@contextmanager
def _sole(partial: Path, out: Path) -> Iterator[BinaryIO | None]:
    """Yield `partial`, locked and open to append, or None as soon as `out` exists."""
    while not out.exists():
        with partial.open("a+b") as handle:
            take(handle, partial, FOREVER)
            # Another process may have renamed or deleted the file while this one waited.
            same = partial.exists() and os.path.samestat(os.fstat(handle.fileno()), partial.stat())
            if same and not out.exists():
                yield handle
                return
    yield None


@dataclass
class _Transfer:
    """The attempts to download one file; `resumed` if one of them continued an earlier part."""

    url: str
    out: Path
    handle: BinaryIO
    timeout: float
    resumed: bool = False

    def run(self, attempts: int, wait: float) -> None:
        for attempt in range(1, attempts + 1):
            try:
                self._attempt()
                return
            except _BrokeOff as error:
                if attempt == attempts:
                    raise self._unreachable(f"{error} ({attempts} attempts)") from error
                pause = wait * 2 ** (attempt - 1)
                log.warning("%s: %s; trying again in %g s", self.url, error, pause)
                time.sleep(pause)

    def _attempt(self) -> None:
        request = urllib.request.Request(self.url, headers={"Accept-Encoding": "identity"})
        start = self.handle.seek(0, os.SEEK_END)
        if start:
            request.add_header("Range", f"bytes={start}-")
            self.resumed = True
        try:
            response = urllib.request.urlopen(request, timeout=self.timeout)
        except urllib.error.HTTPError as error:
            if error.code == 416 and start:  # No bytes follow; the checksum tells if it is whole.
                return
            reason = f"the server answered {error.code} {error.reason}"
            if error.code in _TRANSIENT:
                raise _BrokeOff(reason) from error
            raise self._unreachable(reason) from error
        except urllib.error.URLError as error:
            if self.url.startswith("file:"):
                raise UserError(f"cannot read {self.url}: {error.reason}") from error
            raise _BrokeOff(str(error.reason)) from error
        except (OSError, http.client.HTTPException) as error:
            raise _BrokeOff(str(error) or type(error).__name__) from error
        with response:
            self._receive(response, start)

    def _receive(self, response: http.client.HTTPResponse, start: int) -> None:
        """Append what the server sends; it sends the whole file if it cannot resume."""
        sent = response.headers.get("Content-Range", "")
        if response.status != 206 or not sent.startswith(f"bytes {start}-"):
            self.handle.truncate(0)
            start = 0
        if response.status == 206 and not start:
            raise _BrokeOff(f"the server sent '{sent}', which is not the range it was asked for")
        length = response.headers.get("Content-Length", "")
        total = start + int(length) if length.isdigit() else None
        with tqdm(
            desc=self.url.rpartition("/")[2],
            total=total,
            initial=start,
            unit="B",
            unit_scale=True,
            disable=None,  # off, except on a terminal
            leave=False,
        ) as bar:
            while chunk := _read(response):
                self.handle.write(chunk)
                bar.update(len(chunk))
        self.handle.flush()
        if total is not None and self.handle.tell() != total:
            raise _BrokeOff(f"the server sent {self.handle.tell():,} of {total:,} bytes")

    def _unreachable(self, reason: str) -> UserError:
        name = urlsplit(self.url).path.rpartition("/")[2]
        return UserError(
            f"cannot download {self.url}: {reason}. Two ways without this server: name a folder "
            f"that holds {name} as the data's source in config.yaml; or get the file on another "
            f"machine and put it at {self.out}"
        )


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(_CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _BrokeOff(str(error) or type(error).__name__) from error
