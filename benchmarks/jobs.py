"""What a training job costs besides its steps: memory, and time from its start to the first step.

    python -m benchmarks.jobs --sizes tiny minilm bert-base

Each job is a process of its own that trains one epoch of some batches, scores dev, and keeps the
best weights, as a stage of a grid does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.ours import SIAMESE

JOB = """
import json, sys, time
from pathlib import Path
from minbert.base.environment import peak_memory
from minbert.store.code import code_modules
from minbert.spec.stage import StageSpec
from minbert.train.trainable import Sources
from minbert.train.loop import Loop
from minbert.train.run import train_stage

told = json.loads(sys.argv[1])
code_modules(["minbert.train.run"])  # as a job makes sure that it runs the code that was planned
base = peak_memory()
step, first = Loop.step, []

def timed_step(loop, batch):
    first.append(first[0] if first else time.time())
    return step(loop, batch)

Loop.step = timed_step
folder = Path(told["folder"])
(task,) = told["spec"]["tasks"]
sources = Sources(folder / "backbone", {task: folder / f"{task}.parquet"}, {})
spec = StageSpec.model_validate(told["spec"])
record = train_stage(spec, 0, sources, Path(told["out"]), title="job", device="cpu",
                     precision=told["precision"])
print(json.dumps({"first": first[0], "base": base, "peak": record["peak_memory_bytes"],
                  "parameters": record["parameters"]}))
"""
NUMBERS = 4
"""Numbers a parameter: weight, gradient, two moments."""
FLOAT = 4  # bytes


@dataclass(frozen=True)
class Case:
    """Batches of `batch` of one task."""

    name: str
    task: str
    batch: int
    settings: dict[str, Any]


CASES = (Case("SST 16", "sst", 16, {}), Case("Quora 64 pairs, siamese", "para", 64, SIAMESE))


@dataclass(frozen=True)
class Cost:
    """Seconds to the first step; bytes when all was imported, at most, and of the model's state."""

    start: float
    base: int
    peak: int
    state: int


def measure(folder: Path, case: Case, precision: str) -> Cost:
    """Train one epoch of `case` in a process of its own on the workload in `folder`."""
    from benchmarks.ours import stage

    spec = stage({case.task: case.settings}, batch=case.batch, dropout=0.1)
    told = {
        "folder": str(folder),
        "out": str(folder / "out"),
        "spec": spec.model_dump(mode="json"),
        "precision": precision,
    }
    (folder / "out").mkdir(exist_ok=True)
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "1"}
    began = time.time()
    done = subprocess.run(
        [sys.executable, "-c", JOB, json.dumps(told)],
        env=environment,
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    found = json.loads(done.stdout)
    state = NUMBERS * FLOAT * found["parameters"]
    return Cost(found["first"] - began, found["base"], found["peak"], state)


def main() -> None:
    """Print a line for each size and case."""
    import torch

    from benchmarks.workload import ARCHITECTURES, make_workload
    from minbert.train.device import choose_precision

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.jobs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sizes", nargs="+", choices=ARCHITECTURES, default=["tiny", "minilm"])
    parser.add_argument("--repeats", type=int, default=3, help="jobs a case (default: 3)")
    parser.add_argument("--precision", default="auto", choices=("auto", "fp32", "bf16"))
    given = parser.parse_args()
    precision = choose_precision(given.precision, torch.device("cpu"))
    print(f"{precision}, one thread, torch {torch.__version__}")
    print("| size | case | s to first step | imports | state | peak | peak - imports / state |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for size in given.sizes:
        with tempfile.TemporaryDirectory() as folder:
            make_workload(Path(folder), size)
            for case in CASES:
                costs = [measure(Path(folder), case, precision) for _ in range(given.repeats)]
                base, peak, state = (
                    median(getattr(cost, name) for cost in costs)
                    for name in ("base", "peak", "state")
                )
                cells = (
                    size,
                    case.name,
                    f"{median(cost.start for cost in costs):.1f}",
                    *(f"{value / 2**20:,.0f} MiB" for value in (base, state, peak)),
                    f"{(peak - base) / state:.2f}",
                )
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
