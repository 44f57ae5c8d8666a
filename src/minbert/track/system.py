"""What a training job uses of its machine, measured beside it, under MLflow's own names."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil

from minbert.base.process import lines_of
from minbert.devices.cards import VISIBLE
from minbert.spec.protocol import Measured
from minbert.track.journal import SYSTEM

SECONDS = 10.0
"""Between two measurements, as with MLflow."""
_GPU = ("nvidia-smi", "--format=csv,noheader,nounits", "--query-gpu")
_ASKED = ("utilization.gpu", "memory.used", "memory.total", "power.draw")
_PATIENCE = 5  # seconds that nvidia-smi has to answer: less than a job has to end
_MIB, _MB = 2**20, 1e6


@contextmanager
def watched(log: Callable[[Measured], None]) -> Iterator[None]:
    """Log what this process, its machine and its GPU use every `SECONDS` of the block, and last.

    Use is the mean since the measurement before. An `OSError` of `log`, as on a full disk, ends the
    measuring and is reported: it must not end the training.
    """
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(log, over), name="system", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _watch(log: Callable[[Measured], None], over: threading.Event) -> None:
    this = psutil.Process()
    this.cpu_percent(), psutil.cpu_percent()  # The first calls begin the intervals.
    last, number = False, 0
    while not last:
        last = over.wait(SECONDS)
        number += 1
        used, now = _machine() | _process(this) | _gpus(), round(time.time(), 3)
        try:
            for name, value in used.items():
                log(Measured(number, 0, SYSTEM, name, "", round(value, 1), now))
        except OSError as error:
            print(f"no more system metrics: {error}", file=sys.stderr)
            return


def _machine() -> dict[str, float]:
    """Return what all processes use, in percent of all cores, and of memory without caches."""
    memory = psutil.virtual_memory()
    return {
        "cpu_utilization_percentage": psutil.cpu_percent(),
        "system_memory_usage_megabytes": memory.used / _MB,
        "system_memory_usage_percentage": 100 * memory.used / memory.total,
    }


def _process(this: psutil.Process) -> dict[str, float]:
    """Return what this process uses: 100 percent are one core."""
    return {
        "process_cpu_utilization_percentage": this.cpu_percent(),
        "process_memory_usage_megabytes": this.memory_info().rss / _MB,
    }


def _gpus() -> dict[str, float]:
    """Return what all processes use of the GPUs that this one sees, as far as nvidia-smi says."""
    found: dict[str, float] = {}
    if visible := os.environ.get(VISIBLE):
        lines = lines_of(*_GPU, ",".join(_ASKED), "--id", visible, timeout=_PATIENCE)
        for number, line in enumerate(line for line in lines if line.count(",") == 3):
            busy, used, total, watts = map(_number, line.split(","))
            shown = {"utilization_percentage": busy, "power_usage_watts": watts}
            if used is not None and total:
                shown["memory_usage_megabytes"] = used * _MIB / _MB
                shown["memory_usage_percentage"] = 100 * used / total
            found |= {f"gpu_{number}_{n}": v for n, v in shown.items() if v is not None}
    return found


def _number(word: str) -> float | None:
    """Return a number of nvidia-smi's; None for `[N/A]`, as for parts of a GPU."""
    try:
        return float(word)
    except ValueError:
        return None
