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
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .audit import STALE, VERDICTS, Audit, Finding
from .cases import CASES, CONTROL, by_hand
from .mutate import Mutant, draw
from .running import preload


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m audit", description=__doc__)
    parser.add_argument("--mutants", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="these of the seed alone")
    parser.add_argument("--cases", action="store_true", help="edits by hand too, which were stale")
    parser.add_argument("--control", action="store_true", help="an edit that must be stale, too")
    parser.add_argument("--list", action="store_true", help="show the mutants, run none")
    parser.add_argument("--rooms", nargs="+", metavar="ROOM", help="of these alone: store, train")
    parser.add_argument("--whole", action="store_true", help="make all again from nothing (slow)")
    parser.add_argument("--jobs", type=int, default=2, help="mutants side by side")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was found, too")
    parser.add_argument("--folder", type=Path, help="keep the finished results here, and use them")
    arguments = parser.parse_args()
    preload()
    with tempfile.TemporaryDirectory(prefix="audit-") as temporary:
        return audit(arguments, arguments.folder or Path(temporary))


def audit(arguments: argparse.Namespace, folder: Path) -> int:
    """Make the finished results, judge every mutant, and print what became of them."""
    began = time.monotonic()
    work = Audit(folder.resolve(), arguments.whole)
    print(f"the package as it is: {work.prepare()}", flush=True)
    mutants = dict(_mutants(arguments, work))
    if arguments.list:
        for name, mutant in mutants.items():
            print(_place(name, mutant), mutant.diff, "", sep="\n")
        return 0
    found: dict[str, Finding] = {}
    with ThreadPoolExecutor(arguments.jobs) as pool:
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


def _mutants(arguments: argparse.Namespace, work: Audit) -> Iterator[tuple[str, Mutant]]:
    names = [*(CASES if arguments.cases else ()), *([CONTROL] if arguments.control else ())]
    for name in names:
        yield name, by_hand(work.source, name)
    rooms = arguments.rooms
    lines = {n: of for n, of in work.lines.items() if not rooms or n.split("/")[0] in rooms}
    for number in arguments.only or range(arguments.mutants):
        yield str(number), draw(work.source, arguments.seed, number, lines)


def _place(name: str, mutant: Mutant) -> str:
    return f"{name}: {mutant.module}, line {mutant.line}: {mutant.what}"


def _show(name: str, mutant: Mutant, finding: Finding) -> None:
    place = _place(name, mutant)
    print(f"{place}: {finding.verdict} ({finding.why}; {finding.seconds:.0f} s)"[:300], flush=True)
    if finding.verdict == STALE:
        print(mutant.diff)
        print(*(f"  {file}" for file in finding.files[:20]), sep="\n", flush=True)


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    raise SystemExit(main())
