"""Change the package at random, one small change at a time, and look for stale results.

Each mutant runs a tiny grid on top of finished results, and from nothing. It must be refused, or
retrained with the results of the run from nothing, or make no difference; else a result is stale,
and the status is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .audit import STALE, VERDICTS, Audit, Finding
from .cases import EDITS, by_hand
from .mutate import Mutant, draw
from .running import preload


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m audit", description=__doc__)
    parser.add_argument("--mutants", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="these of the seed alone")
    parser.add_argument("--cases", action="store_true", help="also edits by hand")
    parser.add_argument("--list", action="store_true", help="show the mutants, run none")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was found, too")
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
    mutants = {name: by_hand(work.source, name) for name in EDITS if arguments.cases}
    for number in arguments.only or range(arguments.mutants):
        mutants[str(number)] = draw(work.source, arguments.seed, number, work.lines)
    if arguments.list:
        for name, mutant in mutants.items():
            print(_place(name, mutant), mutant.diff, "", sep="\n")
        return 0
    found: dict[str, Finding] = {}
    with ThreadPoolExecutor(2) as pool:
        judged = {name: pool.submit(work.judge, name, m) for name, m in mutants.items()}
        for name, future in judged.items():
            found[name] = future.result()
            _show(name, mutants[name], found[name])
    counts = Counter(each.verdict for each in found.values())
    print(", ".join(f"{verdict}: {counts[verdict]}" for verdict in VERDICTS))
    print(f"{len(found)} mutants, seed {arguments.seed}, {time.monotonic() - began:.0f} s")
    if arguments.json:
        told = {name: vars(finding) for name, finding in found.items()}
        arguments.json.write_text(json.dumps(told, indent=1), encoding="utf-8")
    return counts[STALE] > 0


def _place(name: str, mutant: Mutant) -> str:
    return f"{name}: {mutant.module}, line {mutant.line}: {mutant.what}"


def _show(name: str, mutant: Mutant, finding: Finding) -> None:
    place = _place(name, mutant)
    print(f"{place}: {finding.verdict} ({finding.why}; {finding.seconds:.0f} s)"[:300], flush=True)
    if finding.verdict == STALE:
        print(mutant.diff, *(f"  {file}" for file in finding.files[:20]), sep="\n", flush=True)


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    raise SystemExit(main())
