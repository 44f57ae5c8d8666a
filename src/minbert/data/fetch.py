"""Downloads that resume, verify, and appear under their final name only when whole."""

from __future__ import annotations

import fcntl
import http.client
import logging
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from tqdm import tqdm

from minbert.common.errors import UserError
from minbert.data.identity import checksum_matches, checksum_of, split_checksum

log = logging.getLogger(__name__)

_CHUNK = 1 << 18
_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")
# What a server may say of itself for a while: worth another try.
_PASSING = {408, 425, 429, 500, 502, 503, 504}


class _BrokeOff(Exception):
    """An attempt failed in a way that another one may not."""


def fetch(
    url: str,
    out: Path,
    checksum: str | None = None,
    progress: bool = True,
    *,
    attempts: int = 5,
    timeout: float = 30.0,
    wait: float = 1.0,
) -> Path:
    """Download `url` (http, https, file) to `out`, whole and verified, and return `out`.

    What has come is kept beside `out` as `.NAME.part`. After a break the download goes on from
    there (a Range request), within a call always, in a later call only if `checksum` (`sha256:`,
    `md5:` or `git:` and hex digits) can prove the result. `attempts` are tried, `wait` seconds
    apart, then twice that and so on; a server silent for `timeout` seconds has broken off. An
    `out` that exists is used as it is if it has the checksum. Of two processes that fetch the
    same file the second waits for the first.

    Raises `UserError` if the file cannot be had (naming the ways to do without), if its content
    has another checksum (the partial file is removed), or if `out` holds something else.
    """
    scheme = urlsplit(url).scheme
    if scheme not in ("http", "https", "file"):
        raise UserError(f"cannot fetch '{url}': expected http://, https:// or file://")
    if checksum:
        split_checksum(checksum)  # a malformed pin shows before the download, not after it
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.part")
    with _sole(partial, out) as handle:
        if handle is None:
            _check_existing(out, url, checksum)
            return out
        size = handle.seek(0, os.SEEK_END)
        if not checksum and size:
            handle.truncate(0)
        resumed = bool(checksum and size)
        transfer = _Transfer(url, handle, timeout, progress)
        transfer.run(attempts, wait, out)
        if checksum and resumed and not checksum_matches(partial, checksum):
            log.warning("%s: the earlier part does not fit, starting again", url)
            transfer.start_again()
            transfer.run(attempts, wait, out)
        if checksum and not checksum_matches(partial, checksum):
            found = checksum_of(partial, checksum)
            partial.unlink()
            raise UserError(
                f"{url}: the file is not the one expected: found {found}, expected {checksum}. "
                "What came was deleted. Try again; if it stays, the publisher changed the file "
                f"or something on the way did: get the right one and put it at {out}"
            )
        os.fsync(handle.fileno())
        os.replace(partial, out)
    return out


@contextmanager
def _sole(partial: Path, out: Path) -> Iterator[BinaryIO | None]:
    """Yield `partial`, open to append and locked, or None as soon as `out` exists."""
    while not out.exists():
        with partial.open("a+b") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            try:
                same = os.path.samestat(os.fstat(handle.fileno()), partial.stat())
            except FileNotFoundError:
                same = False
            # The process before us may have renamed or removed the file while we waited.
            if same and not out.exists():
                yield handle
                return
    yield None


def _check_existing(out: Path, url: str, checksum: str | None) -> None:
    if checksum and not checksum_matches(out, checksum):
        raise UserError(
            f"{out} is there already, but is not the file expected of {url}: found "
            f"{checksum_of(out, checksum)}, expected {checksum}. Delete it to fetch it anew"
        )


class _Transfer:
    """The attempts to bring one URL into one file."""

    def __init__(self, url: str, handle: BinaryIO, timeout: float, progress: bool) -> None:
        self.url = url
        self.handle = handle
        self.timeout = timeout
        self.progress = progress
        self.validator: str | None = None
        self.length: int | None = None

    @property
    def offset(self) -> int:
        return self.handle.seek(0, os.SEEK_END)

    def start_again(self) -> None:
        """Forget what has come."""
        self.handle.truncate(0)
        self.validator = self.length = None

    def run(self, attempts: int, wait: float, out: Path) -> None:
        """Try until the file is whole; after the last attempt raise `UserError`."""
        for attempt in range(1, attempts + 1):
            try:
                self._attempt(out)
                return
            except _BrokeOff as error:
                if attempt == attempts:
                    raise UserError(_unreachable(self.url, out, str(error), attempts)) from error
                pause = wait * 2 ** (attempt - 1)
                log.warning("%s: %s; trying again in %g s", self.url, error, pause)
                time.sleep(pause)

    def _attempt(self, out: Path) -> None:
        request = urllib.request.Request(self.url, headers={"Accept-Encoding": "identity"})
        start = self.offset
        if start and not self.url.startswith("file:"):
            request.add_header("Range", f"bytes={start}-")
            if self.validator:
                request.add_header("If-Range", self.validator)
        try:
            response = urllib.request.urlopen(request, timeout=self.timeout)
        except urllib.error.HTTPError as error:
            if error.code == 416 and start:
                self._past_the_end(error.headers.get("Content-Range"), start)
                return
            if error.code in _PASSING:
                raise _BrokeOff(f"the server answered {error.code} {error.reason}") from error
            reason = f"the server answered {error.code} {error.reason}"
            raise UserError(_unreachable(self.url, out, reason, 1)) from error
        except urllib.error.URLError as error:
            if self.url.startswith("file:"):
                raise UserError(f"cannot read {self.url}: {error.reason}") from error
            raise _BrokeOff(str(error.reason)) from error
        except (OSError, http.client.HTTPException) as error:
            raise _BrokeOff(_told(error)) from error
        with response:
            self._receive(response, start)

    def _past_the_end(self, content_range: str | None, start: int) -> None:
        """Settle a 416: the file has no byte at `start`, so all of it is here, or a wrong one."""
        match = _CONTENT_RANGE.fullmatch(content_range or "")
        if match and match[3] == str(start) and self.length in (None, start):
            return
        self.start_again()
        raise _BrokeOff(f"the server has fewer bytes than the {start:,} that it was to send")

    def _receive(self, response: http.client.HTTPResponse, start: int) -> None:
        total = self._total(response, start)
        if self.length is not None and total not in (None, self.length):
            log.warning("%s: length was %s, is now %s", self.url, self.length, total)
        self.length = total
        self.validator = _validator(response)
        bar = tqdm(
            total=total,
            initial=self.offset,
            unit="B",
            unit_scale=True,
            desc=self.url.rpartition("/")[2],
            disable=None if self.progress else True,
            leave=False,
        )
        with bar:
            for chunk in _chunks(response):
                self.handle.write(chunk)
                bar.update(len(chunk))
        self.handle.flush()
        if total is not None and self.offset != total:
            found = self.offset
            if found > total:
                self.start_again()
            raise _BrokeOff(f"the server sent {found:,} of {total:,} bytes")

    def _total(self, response: http.client.HTTPResponse, start: int) -> int | None:
        """Return the whole file's length, if the server tells; drop our part if it resends it."""
        if response.status == 206:
            match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range") or "")
            if match is None or match[1] != str(start):
                self.start_again()
                raise _BrokeOff(
                    f"asked for bytes from {start}, the server sent "
                    f"'{response.headers.get('Content-Range')}'"
                )
            return int(match[3]) if match[3] != "*" else int(match[2]) + 1
        self.handle.truncate(0)
        length = response.headers.get("Content-Length")
        return int(length) if length and length.isdigit() else None


def _validator(response: http.client.HTTPResponse) -> str | None:
    """Return what If-Range takes: a strong ETag, or else the date of the last change."""
    tag = response.headers.get("ETag")
    if tag and not tag.startswith("W/"):
        return tag
    return response.headers.get("Last-Modified")


def _chunks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while True:
        try:
            chunk = response.read(_CHUNK)
        except http.client.IncompleteRead as error:
            if error.partial:
                yield error.partial
            raise _BrokeOff("the connection broke off") from error
        except (OSError, http.client.HTTPException) as error:
            raise _BrokeOff(_told(error)) from error
        if not chunk:
            return
        yield chunk


def _told(error: Exception) -> str:
    return str(error) or type(error).__name__


def _unreachable(url: str, out: Path, reason: str, attempts: int) -> str:
    tried = f" ({attempts} attempts)" if attempts > 1 else ""
    name = urlsplit(url).path.rpartition("/")[2]
    return (
        f"cannot fetch {url}: {reason}{tried}. Two ways out without this server: name a folder "
        f"that holds {name} as the data's source in config.yaml; or get the file on another "
        f"machine and put it at {out}"
    )
