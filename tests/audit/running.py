"""A run of a project in a forked process, without Snakemake: what is pending, job by job.

Starting Python and importing torch is most of a tiny job's time. So the parent imports the
libraries once, and never `minbert`; each run is a fork that imports it from the project's `src`.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import resource
import sys
import time
import traceback
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
BOUNDS = {resource.RLIMIT_AS: 8 << 30, resource.RLIMIT_FSIZE: 256 << 20}
"""What a mutant may take, in bytes: some ask for a thousand times as much."""

VOLATILE = {
    *("seconds", "tokens_per_second", "peak_memory_bytes", "peak_device_memory_bytes"),
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
    os.environ |= {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    for name in LIBRARIES.split():
        importlib.import_module(name)
    importlib.import_module("torch").set_num_threads(1)
    figure = importlib.import_module("matplotlib.figure").Figure()
    figure.subplots().set_title("A")  # so that fonts are read once
    figure.savefig(BytesIO(), format="png")
    assert "minbert" not in sys.modules


def run(project: Path, limit: float) -> Run:
    """Make in `project` all that is pending there; kill it after `limit` seconds."""
    (project / RESULT).unlink(missing_ok=True)
    began = time.monotonic()
    process = multiprocessing.get_context("fork").Process(target=_run, args=[project], daemon=True)
    process.start()
    process.join(limit)
    if process.is_alive():
        process.kill()
        process.join()
        return Run(f"does not end within {limit:.0f} s")
    if not (project / RESULT).exists():
        return Run("was killed")
    found = Run(**json.loads((project / RESULT).read_text("utf-8")))
    found.seconds = time.monotonic() - began
    return found


def _run(project: Path) -> None:
    """Run in this new process; its output goes to `run.log`."""
    os.chdir(project)
    log = os.open("run.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for kind, most in BOUNDS.items():
        resource.setrlimit(kind, (most, most))
    source = project / "src"
    sys.path.insert(0, str(source))
    found = Run()
    try:
        _work_off(found)
    except BaseException as error:
        traceback.print_exc()
        found.error = f"{type(error).__name__}: {error}".splitlines()[-1]
    files = [Path(getattr(module, "__file__", None) or "/") for module in sys.modules.values()]
    ours = source / "minbert"
    found.modules = sorted(str(of.relative_to(ours)) for of in files if of.is_relative_to(ours))
    Path(RESULT).write_text(json.dumps(vars(found)), encoding="utf-8")


def _work_off(found: Run) -> None:
    from minbert.commands import steps
    from minbert.plan.describe import write
    from minbert.plan.outputs import load_plan
    from minbert.plan.pending import pending
    from minbert.publish.publish import publish

    plan = load_plan([Path("config.yaml")], Path())
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
        steps.make(plan.root, [f"{node.kind}-{node.key}"], plan=written, seed=seed)
        folder = node.folder(plan.root, seed)
        found.jobs.append(str(folder.relative_to(plan.root)))
        if (record := folder / "run.json").exists():
            text = json.dumps(_settled(json.loads(record.read_text("utf-8"))), sort_keys=True)
            record.write_text(text, encoding="utf-8")

    for node, seed in list(jobs):
        make(node, seed)
    if not plan.mark.exists():
        publish(plan.root, written, plan.mark)
        if not plan.mark.exists():
            raise FileNotFoundError(plan.mark)  # Snakemake refuses a job without its output.


def _settled(value: Any) -> Any:
    """Return what a record says, with one value for speed and memory, which the report shows."""
    if not isinstance(value, dict):
        return value
    return {key: 1 if key in VOLATILE else _settled(of) for key, of in value.items()}
