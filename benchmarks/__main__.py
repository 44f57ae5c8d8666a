"""Time the engine against the alternatives, side by side in one process."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import warnings
from importlib.util import find_spec
from pathlib import Path

# Before torch starts its threads: those that spin while they wait slow both sides down.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

from benchmarks.cases import CASES, Case
from benchmarks.report import about, lines, save, table
from benchmarks.run import Bench, Row, chosen_precisions
from minbert.train.device import choose_device, is_out_of_memory, set_up_memory

PACKAGES = {"adapters": "adapters", "torchjd": "torchjd"}
PACKAGES |= {"sentence-transformers": "sentence_transformers"}

SECONDS = {True: 30.0, False: 120.0}
"""Seconds that a case's turns may take, with `--quick` (under 5 minutes in all) and without."""


def main() -> None:
    """Run the chosen cases, print the table, write `bench.json`.

    What is measured stays if a later case fails, then with exit status 1, or time runs out.
    """
    given = _arguments()
    torch.set_num_threads(given.threads)
    set_up_memory()  # As a training job does; it serves the other sides too.
    warnings.filterwarnings("ignore")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # by way of `finally`
    device = choose_device(given.device)
    precisions = chosen_precisions(given.precision, device)
    rows: list[Row] = []
    rates = dict.fromkeys(precisions, 0.0)
    failed = False
    try:
        for size in given.sizes:
            cases = [case for case in CASES[size] if _wanted(case, given.only, given.quick)]
            if not cases:
                continue
            with tempfile.TemporaryDirectory() as folder:
                bench = Bench(Path(folder), size, device, precisions, given.repeats, given.seconds)
                rates = {name: max(rates[name], rate) for name, rate in bench.rates().items()}
                for case in cases:
                    missing = PACKAGES.get(case.other or "")
                    if missing and not find_spec(missing):
                        _say(f"left out: {case.name}: no package {missing}")
                        continue
                    _say(f"{size}: {case.name} ...")
                    found = _measured(bench, case)
                    failed |= not found
                    rows += found
                    if rows:
                        save(rows, rates, given.out)
    finally:
        if rows:
            print(f"{table(rows)}\n\n{about(rows, rates)}\nwritten to {given.out}")
    if failed:
        sys.exit(1)
    if not rows:
        sys.exit("no case fits --sizes and --only")


def _measured(bench: Bench, case: Case) -> list[Row]:
    """Return the rows of a case, and print them; none if its sides differ or memory runs out."""
    try:
        rows = bench.measure(case)
    except (ValueError, MemoryError, RuntimeError) as error:
        if not isinstance(error, ValueError) and not is_out_of_memory(error):
            raise
        _say(f"failed: {bench.size}: {case.name}: {error}")
        return []
    _say(lines(rows))
    return rows


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the three cases that goals are for")
    parser.add_argument("--sizes", nargs="+", choices=CASES, help="default: all (quick: minilm)")
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--repeats", type=int, default=7, help="turns at most (default: 7)")
    about = "a case starts no turn after so many, but has three (default: 120; quick: 30)"
    parser.add_argument("--seconds", type=float, help=about)
    parser.add_argument("--threads", type=int, default=1, help="default: 1, as jobs run")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    words = ("auto", "fp32", "bf16")
    about = "ours; auto (the default): what a job takes, and fp32"
    parser.add_argument("--precision", nargs="+", default=["auto"], choices=words, help=about)
    parser.add_argument("--out", type=Path, default=Path("results/bench"))
    given = parser.parse_args()
    given.seconds = given.seconds or SECONDS[given.quick]
    given.sizes = given.sizes or (["minilm"] if given.quick else list(CASES))
    return given


def _wanted(case: Case, only: str, quick: bool) -> bool:
    return only.lower() in case.name.lower() and (case.quick or not quick)


if __name__ == "__main__":
    main()
