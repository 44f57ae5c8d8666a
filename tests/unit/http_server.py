"""A file server on the loopback that misbehaves on demand."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Behaviour:
    """What the server holds and how it fails; `requests` records the Range header of each."""

    content: bytes
    break_after: int | None = None
    breaks: int = 1
    claimed_length: int | None = None
    ranges: bool = True
    wrong_range: bool = False
    errors: list[int] = field(default_factory=list)
    requests: list[str | None] = field(default_factory=list)
    url: str = ""


class _Handler(http.server.BaseHTTPRequestHandler):
    behaviour: Behaviour

    def do_GET(self) -> None:
        it = self.behaviour
        asked = self.headers.get("Range")
        it.requests.append(asked)
        if it.errors:
            self.send_error(it.errors.pop(0))
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and it.ranges else 0
        total = len(it.content)
        if start and start >= total:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{total}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = it.content[start:]
        self.send_response(206 if start else 200)
        if start:
            first = 0 if it.wrong_range else start
            self.send_header("Content-Range", f"bytes {first}-{total - 1}/{total}")
        claimed = len(body) if it.claimed_length is None else it.claimed_length - start
        self.send_header("Content-Length", str(claimed))
        self.end_headers()
        if it.break_after is not None and it.breaks > 0:
            it.breaks -= 1
            body = body[: it.break_after]
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def serving(behaviour: Behaviour) -> Iterator[Behaviour]:
    """Serve `behaviour` in a thread; its `url` is set while the block runs."""
    with in_thread(type("Handler", (_Handler,), {"behaviour": behaviour})) as url:
        behaviour.url = f"{url}/data/thing.csv"
        yield behaviour


@contextmanager
def in_thread(handler: type[http.server.BaseHTTPRequestHandler]) -> Iterator[str]:
    """Run a server of this machine alone in a thread, and yield its address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
