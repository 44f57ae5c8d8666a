"""Jobs side by side on one thread each, against one after the other on all cores.

    python -m benchmarks.threads --sizes tiny minilm

Each job is a process that makes the same training steps (SST, batches of 16); its start and end
are not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import spread

BATCH = 16

JOB = """
import json, sys, torch
from pathlib import Path
from benchmarks.machine import synchronise
from benchmarks.ours import Ours, stage
from benchmarks.workload import Workload, ARCHITECTURES
from minbert.train.trainable import Sources

told = json.loads(sys.argv[1])
folder, size, device = Path(told["folder"]), told["size"], torch.device(told["device"])
torch.set_num_threads(told["threads"])
sources = Sources(folder / "backbone", {"sst": folder / "sst.parquet"}, {})
work = Workload(size, ARCHITECTURES[size], folder, sources, 0)
spec = stage({"sst": {}}, batch=told["batch"], dropout=0.1)
ours = Ours(spec, work, device, told["precision"])
draw = torch.Generator().manual_seed(0)
rows = [torch.randperm(512, generator=draw)[:told["batch"]] for _ in range(told["steps"])]
batches = [[("sst", part)] for part in rows]
ours.train(batches[:2])
synchronise(device)
print("ready", flush=True)
sys.stdin.readline()
ours.train(batches)
synchronise(device)
print("done", flush=True)
"""


def seconds(jobs: int, **told: Any) -> float:
    """Return how long `jobs` at once take for what they are `told`, from when all are ready.

    Told are `folder`, `size`, `threads` and `steps`; `device` and `precision` too, if not a
    CPU's.
    """
    usual = {"device": "cpu", "precision": "fp32", "batch": BATCH}
    words = [sys.executable, "-c", JOB, json.dumps({**usual, **told}, default=str)]
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    processes = [
        subprocess.Popen(
            words, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(jobs)
    ]
    _heard(processes, "ready")
    start = time.perf_counter()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    _heard(processes, "done")
    taken = time.perf_counter() - start
    for process in processes:
        process.communicate()
    return taken


def _heard(processes: list[subprocess.Popen[str]], word: str) -> None:
    """Wait until each of the processes has said `word`; one that ended has said why."""
    for process in processes:
        assert process.stdout is not None
        if process.stdout.readline() != f"{word}\n":
            for other in processes:
                other.kill()
            raise SystemExit(f"a job ended before it was {word}")


def main() -> None:
    """Print, by size, how many times as long the jobs take one after the other."""
    from benchmarks.workload import make_workload

    parser = argparse.ArgumentParser(prog="python -m benchmarks.threads", description=__doc__)
    parser.add_argument("--sizes", nargs="+", default=["tiny", "minilm"])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    cores = os.cpu_count() or 1
    for size in given.sizes:
        with tempfile.TemporaryDirectory() as name:
            make_workload(Path(name), size)
            told = {"folder": name, "size": size, "steps": given.steps}
            ratios = []
            for _ in range(given.repeats):
                beside = seconds(cores, threads=1, **told)
                after = cores * seconds(1, threads=cores, **told)
                ratios.append(after / beside)
        found = spread(ratios)
        print(
            f"{size}: {cores} jobs, one after the other on {cores} threads, take "
            f"{found.median:.2f} ({found.low:.2f} to {found.high:.2f}) times as long as at once"
        )


if __name__ == "__main__":
    main()
