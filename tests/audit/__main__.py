"""Change the package at random, one small change at a time, and look for stale results.

Each mutant runs a tiny grid on top of finished results, and from nothing. It must be refused, or
retrained with the results of the run from nothing, or make no difference; else a result is stale,
and the status is 1.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .audit import STALE, Audit
from .mutate import CONTROL, Mutant, control, draw
from .running import preload


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m audit", description=__doc__)
    parser.add_argument("--mutants", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="these of the seed alone")
    parser.add_argument("--control", action="store_true", help=f"also {CONTROL}: must be stale")
    parser.add_argument("--folder", type=Path, help="keep the finished results here, and use them")
    arguments = parser.parse_args()
    preload()
    with tempfile.TemporaryDirectory(prefix="audit-") as temporary:
        return audit(arguments, arguments.folder or Path(temporary))


def audit(arguments: argparse.Namespace, folder: Path) -> int:
    """Make the finished results, judge every mutant, and print what became of them."""
    began = time.monotonic()
    work = Audit(folder.resolve())
    print(f"the package as it is: {work.prepare()}", flush=True)
    mutants: dict[str, Mutant] = {"control": control(work.source)} if arguments.control else {}
    for number in arguments.only or range(arguments.mutants):
        mutants[str(number)] = draw(work.source, arguments.seed, number, work.modules)
    counts = Counter[str]()
    with ThreadPoolExecutor(2) as pool:
        judged = {name: pool.submit(work.judge, name, m) for name, m in mutants.items()}
        for name, future in judged.items():
            verdict, why = future.result()
            counts[verdict] += 1
            print(f"{name}: {verdict} ({why})"[:300], mutants[name], sep="\n", flush=True)
    print(f"{dict(counts)}, seed {arguments.seed}, {time.monotonic() - began:.0f} s")
    return counts[STALE] > 0


if __name__ == "__main__":
    raise SystemExit(main())
