"""Headless Chromium, driven by the DevTools protocol over two pipes: no package, no open port."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
SWITCHES = (
    "--headless=new",
    "--no-sandbox",  # which root, as in a container, cannot have; only our own pages are opened
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
PATIENCE = 60.0
"""Seconds that an answer, or what is waited for, may take."""


def find_chromium() -> str | None:
    """Return the path of Chromium; None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page of a headless Chromium.

    It starts at 1280 x 900 px with an empty profile in `folder`. An answer that does not come
    within `PATIENCE` seconds raises `TimeoutError`, an error of the protocol `RuntimeError`.
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
            stdin=subprocess.DEVNULL,
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
        self.resize(1280, 900)

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol; return its result. Events that come meanwhile are kept."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._read(deadline, f"no answer to {method}")
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def open(self, url: str) -> None:
        """Open a page and wait until it has loaded; what was seen of earlier pages is forgotten."""
        self._events.clear()
        failed = self.call("Page.navigate", url=url).get("errorText")
        if failed:
            raise RuntimeError(f"{url}: {failed}")
        self.wait_for(f"location.href != 'about:blank' && {_LOADED}")

    def evaluate(self, script: str) -> Any:
        """Return the value of a JavaScript expression; a promise is awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            told = answer["exceptionDetails"]
            raise RuntimeError(f"{script}: {told.get('exception', told).get('description', told)}")
        return answer["result"].get("value")

    def wait_for(self, script: str, seconds: float = PATIENCE) -> Any:
        """Wait until a JavaScript expression is truthy; return its value."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                if found := self.evaluate(script):
                    return found
            except RuntimeError as error:  # a page in the midst of loading
                last = str(error)
            else:
                last = "it is not"
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {seconds} s in vain until {script}: {last}")
            time.sleep(0.05)

    def resize(self, width: int, height: int, dark: bool = False) -> None:
        """Set the window's size in CSS pixels, and the colour scheme that it asks for."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, path: Path) -> None:
        """Write what the window shows as PNG."""
        shot = self.call("Page.captureScreenshot")
        path.write_bytes(base64.b64decode(shot["data"]))

    def requests(self) -> list[str]:
        """Return the addresses that the page asked for since it was opened; `data:` is none."""
        self.evaluate("0")  # takes in what came last
        found = [
            event["params"]["request"]["url"]
            for event in self._events
            if event["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in found if not url.startswith(("data:", "blob:"))]

    def errors(self) -> list[str]:
        """Return what the page's scripts threw or logged as errors since it was opened."""
        self.evaluate("0")
        found = []
        for event in self._events:
            told = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(told["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded" and told["entry"]["level"] == "error":
                found.append(told["entry"]["text"])
        return found

    def close(self) -> None:
        """End Chromium and all of its processes."""
        os.close(self._out)
        os.close(self._in)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()

    def _read(self, deadline: float, why: str) -> dict[str, Any]:
        """Return the next message; an event is also kept."""
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError(f"{why} within {PATIENCE:.0f} s")
            read = os.read(self._in, 1 << 20)
            if not read:
                raise RuntimeError(f"Chromium has ended; it said: {self._said()}")
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        if "method" in found:
            self._events.append(found)
        return found

    def _said(self) -> str:
        return Path(self._log.name).read_text(encoding="utf-8", errors="replace")[-2000:]


_LOADED = "document.readyState == 'complete'"
