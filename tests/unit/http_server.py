"""A file server on the loopback that misbehaves on demand."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Behaviour:
    """What the server holds, how often it breaks off, and which errors it answers first."""

    content: bytes
    breaks: int = 0
    errors: list[int] = field(default_factory=list)
    requests: int = 0
    url: str = ""


class _Handler(http.server.BaseHTTPRequestHandler):
    behaviour: Behaviour

    def do_GET(self) -> None:
        it = self.behaviour
        it.requests += 1
        if it.errors:
            self.send_error(it.errors.pop(0))
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(it.content)))
        self.end_headers()
        it.breaks -= 1
        self.wfile.write(it.content[:600_000] if it.breaks >= 0 else it.content)
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
