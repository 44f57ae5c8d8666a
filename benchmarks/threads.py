"""Jobs side by side on one thread each, against one after the other on all cores.

    python -m benchmarks.threads --sizes tiny minilm

Each job is a process that makes the same training steps (SST, batches of 16); its start is not
counted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import spread

JOB = """
import sys, torch
from pathlib import Path
from benchmarks.ours import Ours, stage
from benchmarks.workload import Workload, ARCHITECTURES
from minbert.train.learner import Sources

folder, size, threads, steps = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
torch.set_num_threads(threads)
sources = Sources(folder / "backbone", {"sst": folder / "sst.parquet"}, {})
work = Workload(size, ARCHITECTURES[size], folder, sources, 0)
ours = Ours(stage({"sst": {}}, batch=16, dropout=0.1), work, torch.device("cpu"), "fp32")
draw = torch.Generator().manual_seed(0)
batches = [[("sst", torch.randperm(512, generator=draw)[:16])] for _ in range(steps)]
ours.train(batches[:2])
print("ready", flush=True)
sys.stdin.readline()
ours.train(batches)
"""


def seconds(folder: Path, size: str, jobs: int, threads: int, steps: int) -> float:
    """Return how long `jobs` at once take for `steps` steps each, from when all are ready."""
    words = [sys.executable, "-c", JOB, str(folder), size, str(threads), str(steps)]
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    processes = [
        subprocess.Popen(
            words, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(jobs)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    start = time.perf_counter()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        assert process.wait() == 0, f"a job ended with status {process.returncode}"
    return time.perf_counter() - start


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
            folder = Path(name)
            make_workload(folder, size)
            ratios = []
            for _ in range(given.repeats):
                beside = seconds(folder, size, cores, 1, given.steps)
                after = cores * seconds(folder, size, 1, cores, given.steps)
                ratios.append(after / beside)
        found = spread(ratios)
        print(
            f"{size}: {cores} jobs, one after the other on {cores} threads, take "
            f"{found.median:.2f} ({found.low:.2f} to {found.high:.2f}) times as long as at once"
        )


if __name__ == "__main__":
    main()
