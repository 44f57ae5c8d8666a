"""Several runs on one device: what they do together, one, two, four and eight at once.

    python -m benchmarks.sharing --device cuda --sizes minilm bert-base

Each run is a process on one thread that makes the same training steps (SST, batches of 16); its
start and end are not counted. Where a run waits for Python, others find the device free.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import Spread, spread
from benchmarks.threads import BATCH, seconds


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
