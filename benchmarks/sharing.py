"""Several runs on one device: what they do together, one, two, four and eight at once.

    python -m benchmarks.sharing --device cuda --sizes minilm bert-base

Each run is a process on one thread that makes the same training steps (SST, batches of 16); its
start and end are not counted. Where a run waits for Python, others find the device free.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import Spread, spread

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


def throughput(runs: int, repeats: int, steps: int, **told: Any) -> Spread:
    """Return the examples a second of all `runs` together, over `repeats`; `told` as `seconds`."""
    examples = runs * steps * BATCH
    return spread(
        [examples / seconds(runs, threads=1, steps=steps, **told) for _ in range(repeats)]
    )


def main(words: Sequence[str] | None = None) -> None:
    """Print, by size, a table of runs at once, examples a second, and times those of one."""
    from benchmarks.workload import make_workload
    from minbert.train.device import choose_device, choose_precision

    parser = argparse.ArgumentParser(prog="python -m benchmarks.sharing", description=__doc__)
    parser.add_argument("--sizes", nargs="+", default=["minilm", "bert-base"])
    parser.add_argument("--runs", nargs="+", type=int, default=[1, 2, 4, 8], help="at once")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--precision", default="auto", choices=("auto", "fp32", "bf16"))
    given = parser.parse_args(words)
    device = choose_device(given.device)
    precision = choose_precision(given.precision, device)
    how = {"device": str(device), "precision": precision}
    print("| size | runs at once | examples/s together (quartiles) | times one |")
    print("| --- | --- | --- | --- |")
    for size in given.sizes:
        with tempfile.TemporaryDirectory() as name:
            make_workload(Path(name), size)
            one = None
            for runs in given.runs:
                found = throughput(runs, given.repeats, given.steps, folder=name, size=size, **how)
                one = one or found.median / runs
                print(
                    f"| {size} | {runs} | {found.median:,.0f} ({found.low:,.0f} to "
                    f"{found.high:,.0f}) | {found.median / one:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
