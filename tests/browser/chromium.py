"""Headless Chromium, driven by the DevTools protocol over two pipes: no package, no open port."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
# --no-sandbox: root, as in a container, cannot have one; only our own pages are opened.
SWITCHES = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--disable-extensions", "--disable-background-networking", "--disable-component-update"),
    *("--no-first-run", "--hide-scrollbars", "--remote-debugging-pipe"),
)
PATIENCE = 60.0
"""Seconds that an answer, or what is waited for, may take."""


class Browser:
    """One page of a headless Chromium.

    It starts with an empty profile in `folder`. An error of the protocol, or of a script, raises
    `RuntimeError`.
    """

    def __init__(self, program: str, folder: Path) -> None:
        commands, self._out = os.pipe()
        self._in, answers = os.pipe()
        # Chromium reads commands from 3 and answers on 4; the shell puts the pipes there.
        moved = f'exec "$@" 3<&{commands} 4>&{answers}'
        self._log = (folder / "chromium.log").open("wb")
        self._process = subprocess.Popen(
            ["bash", "-c", moved, "bash", program, *SWITCHES, f"--user-data-dir={folder}"],
            pass_fds=(commands, answers),
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        os.close(commands)
        os.close(answers)
        self._count = 0
        self._buffer = b""
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol; return its result. Events that come meanwhile are kept."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while (answer := self._read(deadline, method)).get("id") != self._count:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return dict(answer["result"])

    def open(self, url: str) -> None:
        """Open a page and wait until it has loaded; what was seen of earlier pages is forgotten."""
        self._events.clear()
        if failed := self.call("Page.navigate", url=url).get("errorText"):
            raise RuntimeError(f"{url}: {failed}")
        self.wait_for("location.href != 'about:blank' && document.readyState == 'complete'")

    def evaluate(self, script: str) -> Any:
        """Return the value of a JavaScript expression; a promise is awaited."""
        how = {"returnByValue": True, "awaitPromise": True}
        answer = self.call("Runtime.evaluate", expression=script, **how)
        if "exceptionDetails" in answer:
            told = answer["exceptionDetails"]
            raise RuntimeError(f"{script}: {told.get('exception', told).get('description', told)}")
        return answer["result"].get("value")

    def wait_for(self, script: str) -> Any:
        """Wait until a JavaScript expression is truthy; return its value."""
        deadline = time.monotonic() + PATIENCE
        while True:
            with suppress(RuntimeError):  # a page in the midst of loading
                if found := self.evaluate(script):
                    return found
            assert time.monotonic() < deadline, f"waited {PATIENCE} s in vain until {script}"
            time.sleep(0.05)

    def resize(self, width: int, height: int, dark: bool = False) -> None:
        """Set the window's size in CSS pixels, and the colour scheme that it asks for."""
        about = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **about)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def requests(self) -> list[str]:
        """Return the addresses that the page asked for since it was opened; `data:` is none."""
        found = [request["url"] for request in self._seen("request")]
        return [url for url in found if not url.startswith(("data:", "blob:"))]

    def errors(self) -> list[str]:
        """Return what the page's scripts threw or logged as errors since it was opened."""
        logged = [entry["text"] for entry in self._seen("entry") if entry["level"] == "error"]
        return [*map(str, self._seen("exceptionDetails")), *logged]

    def _seen(self, name: str) -> list[Any]:
        self.evaluate("0")  # takes in what came last
        return [of["params"][name] for of in self._events if name in of["params"]]

    def close(self) -> None:
        """End Chromium and all of its processes."""
        os.close(self._out)
        os.close(self._in)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()

    def _read(self, deadline: float, method: str) -> dict[str, Any]:
        """Return the next message; an event is also kept."""
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"no answer to {method} within {PATIENCE:.0f} s"
            read = os.read(self._in, 1 << 20)
            assert read, f"Chromium has ended; see {self._log.name}"
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        if "method" in found:
            self._events.append(found)
        return found
