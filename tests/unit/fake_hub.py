"""A Hugging Face hub on the loopback: takes a repository, its large files, and one commit."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from http_server import in_thread


@dataclass
class Hub:
    """What was sent: `files` of commits by path, `made` repositories, tokens of requests.

    A request whose path contains a word of `refuses` is answered by its status.
    """

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    made: list[dict[str, Any]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    commits: list[str] = field(default_factory=list)
    refuses: dict[str, int] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)


class _Handler(http.server.BaseHTTPRequestHandler):
    hub: Hub

    def do_GET(self) -> None:
        self._answer({"siblings": [], "id": "x", "sha": "0" * 40})

    def do_PUT(self) -> None:
        content = self._content()
        self.hub.large[hashlib.sha256(content).hexdigest()] = content
        self._answer({})

    def do_POST(self) -> None:
        hub, path, content = self.hub, self.path, self._content()
        hub.tokens.add(self.headers.get("Authorization", ""))
        if path.endswith("/repos/create"):
            made = json.loads(content)
            hub.made.append(made)
            name = f"{made['organization']}/{made['name']}"
            self._answer({"url": f"{hub.url}/{name}", "name": name})
        elif "/preupload/" in path:
            self._answer({"files": [self._mode(file) for file in json.loads(content)["files"]]})
        elif path.endswith("/objects/batch"):
            objects = json.loads(content)["objects"]
            target = {"upload": {"href": f"{hub.url}/large"}}
            found = [{**each, "actions": target} for each in objects]
            self._answer({"transfer": "basic", "objects": found})
        elif "/commit/" in path:
            for line in content.splitlines():
                self._commit(**json.loads(line))
            self._answer({"commitUrl": f"{hub.url}/x/commit/1", "commitOid": "1" * 40})
        else:  # checks of the card's header
            self._answer({"warnings": [], "errors": []})

    def _mode(self, file: dict[str, Any]) -> dict[str, Any]:
        mode = "lfs" if file["path"].endswith(".safetensors") else "regular"
        return {"path": file["path"], "uploadMode": mode, "shouldIgnore": False}

    def _commit(self, key: str, value: dict[str, Any]) -> None:
        if key == "header":
            self.hub.commits.append(value["summary"])
        elif key == "file":
            self.hub.files[value["path"]] = base64.b64decode(value["content"])
        else:
            self.hub.files[value["path"]] = self.hub.large[value["oid"]]

    def _content(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _answer(self, value: dict[str, Any]) -> None:
        status = next((s for word, s in self.hub.refuses.items() if word in self.path), 200)
        body = json.dumps(value if status == 200 else {"error": "not here"}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def fake_hub() -> Iterator[Hub]:
    """Run a hub in a thread; its `url` is set while the block runs."""
    hub = Hub()
    with in_thread(type("Handler", (_Handler,), {"hub": hub})) as url:
        hub.url = url
        yield hub
