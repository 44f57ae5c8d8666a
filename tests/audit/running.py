"""A run of a project in a forked process, without Snakemake: what is pending, job by job.

Starting Python and importing torch is most of a tiny job's time. So the parent imports the
libraries once, and never `minbert`; each run is a fork that imports it from the project's `src`.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

LIBRARIES = (
    "jinja2 matplotlib.backends.backend_agg matplotlib.backends.backend_pdf matplotlib.pyplot "
    "numpy pandas PIL.Image pyarrow.compute pyarrow.parquet pydantic safetensors.torch "
    "scipy.special scipy.stats tokenizers torch torch.nn.functional yaml"
)
RESULT = "run.json"
PR_SET_PDEATHSIG = 1
MOST_MEMORY = 8 << 30
MOST_FILE = 256 << 20
"""Bounds, in bytes, on what a mutant may take: some ask for a thousand times as much."""

VOLATILE = {
    *("seconds", "tokens_per_second"),
    *("peak_memory_bytes", "peak_device_memory_bytes"),
    *("format", "code", "data", "backbone"),
}
"""What a training's record says of its speed and size, and of what it was made from.

These get one value, for the report's sake.
"""


@dataclass
class Run:
    """How a run ended; `error` is empty if it ended well.

    `jobs` are the folders, under the results root, of those that ran; `modules` are the files of
    the package that were imported.
    """

    error: str = ""
    jobs: list[str] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    seconds: float = 0.0


def preload() -> None:
    """Import the libraries in this process, from which runs are forked."""
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["MPLBACKEND"] = "agg"
    for name in LIBRARIES.split():
        importlib.import_module(name)
    importlib.import_module("torch").set_num_threads(1)
    figure = importlib.import_module("matplotlib.figure").Figure()
    figure.subplots().set_title("A")  # so that fonts are read once
    figure.savefig(BytesIO(), format="png")
    assert not any(name.partition(".")[0] == "minbert" for name in sys.modules)


def run(project: Path, limit: float) -> Run:
    """Make in `project` all that is pending there; kill it after `limit` seconds."""
    (project / RESULT).unlink(missing_ok=True)
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        try:
            _run(project)
        finally:
            os._exit(0)
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() - began > limit:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return Run(f"does not end within {limit:.0f} s")
        time.sleep(0.02)
    if not (project / RESULT).exists():
        return Run("was killed")
    found = Run(**json.loads((project / RESULT).read_text("utf-8")))
    found.seconds = time.monotonic() - began
    return found


def _run(project: Path) -> None:
    """Run in this new process, which ends with its parent; its output goes to `run.log`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.chdir(project)
    log = os.open("run.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_FILE, MOST_FILE))
    source = project / "src"
    sys.path.insert(0, str(source))
    found = Run()
    try:
        _work_off(found)
    except BaseException as error:
        traceback.print_exc()
        found.error = f"{type(error).__name__}: {error}".splitlines()[-1]
    files = [getattr(m, "__file__", None) or "" for m in list(sys.modules.values())]
    ours = f"{source / 'minbert'}{os.sep}"
    found.modules = sorted(file.removeprefix(ours) for file in files if file.startswith(ours))
    Path(RESULT).write_text(json.dumps(vars(found)), encoding="utf-8")


def _work_off(found: Run) -> None:
    from minbert.commands.steps import run_steps
    from minbert.plan.describe import write
    from minbert.plan.pending import pending
    from minbert.plan.plan import Plan
    from minbert.publish.publish import publish

    plan = Plan.load([Path("config.yaml")], Path())
    written = write(plan)
    jobs = pending(plan)
    done = set[Any]()

    def make(node: Any, seed: int | None) -> None:
        """Make what a job needs, then the job."""
        if (node, seed) in done or (node, seed) not in jobs:
            return
        done.add((node, seed))
        for needed in jobs.needs((node, seed)):
            make(*needed)
        run_steps(plan.root, [f"{node.kind}-{node.key}"], plan=written, seed=seed)
        folder = node.folder(plan.root, seed)
        found.jobs.append(str(folder.relative_to(plan.root)))
        if node.kind == "train":
            _settle(folder / "run.json")

    for node, seed in list(jobs):
        make(node, seed)
    if not plan.mark.exists():
        publish(plan.root, written, plan.mark)
        if not plan.mark.exists():
            raise FileNotFoundError(plan.mark)  # Snakemake refuses a job without its output.


def _settle(path: Path) -> None:
    """Give what a record says of speed and memory one value, which the report then shows."""

    def settled(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {k: 1 if k in VOLATILE else settled(v) for k, v in value.items()}

    with suppress(FileNotFoundError):
        record = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps(settled(record), indent=1, sort_keys=True), encoding="utf-8")
