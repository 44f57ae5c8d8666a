"""What the unit tests catch: change the package at random, and run the tests of the changed line.

    PYTHONPATH=tests python -m audit.suite --table tests/audit/caught.csv

Each mutant changes a statement that some unit test runs. The tests that run it, at most `TESTS`
of them (those that run the fewest other statements first), must fail. The table has a line for
each mutant; `survived` are those that no such test noticed.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import pytest

from .mutate import Mutant, draw
from .running import Lines

CHECKOUT = Path(__file__).parents[2]
TESTS = 40
SECONDS = 600
COVERED = "AUDIT_COVERED"
"""Variable with the file that `pytest` under this plugin writes: {test: [[module, line], ...]}."""

KILLED, SURVIVED = "killed", "survived"


class Covered:
    """A plugin of pytest: notes which statements of the package each test runs."""

    def __init__(self, project: Path, written: Path) -> None:
        self.lines = Lines(project)
        self.lines.start()
        self.written = written
        self.tests: dict[str, list[tuple[str, int]]] = {}
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Note what is run between the start of a test and its end, fixtures included."""
        self.lines.found.clear()
        try:
            return (yield)
        finally:
            self.tests[item.nodeid] = sorted(self.lines.found)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Leave out a test that fails as the package is: it can catch nothing."""
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Write what was found."""
        for test in self.failed:
            self.tests.pop(test, None)
        self.written.write_text(json.dumps(self.tests), encoding="utf-8")


if path := os.environ.get(COVERED):  # This is pytest, with `-p audit.suite`.
    plugin = Covered(Path.cwd(), Path(path))
    pytest_runtest_protocol = plugin.pytest_runtest_protocol
    pytest_runtest_logreport = plugin.pytest_runtest_logreport
    pytest_sessionfinish = plugin.pytest_sessionfinish


def main() -> int:
    """Run the command line; the status is 0, whatever was caught."""
    parser = argparse.ArgumentParser(prog="python -m audit.suite", description=__doc__)
    parser.add_argument("--mutants", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="mutants side by side")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write a csv, too")
    parser.add_argument("--covered", type=Path, metavar="FILE", help="keep what each test runs")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="audit-") as temporary:
        folder = Path(temporary)
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(arguments.jobs):
            copies.put(_copied(folder / str(number)))
        covered = arguments.covered or folder / "covered.json"
        if not covered.exists():
            _cover(_copied(folder / "covered"), covered)
        tests = _by_statement(json.loads(covered.read_text("utf-8")))
        lines: dict[str, set[int]] = defaultdict(set)
        for module, line in tests:
            lines[module].add(line)
        mutants = [
            draw(CHECKOUT / "src" / "minbert", arguments.seed, number, lines)
            for number in range(arguments.mutants)
        ]
        with ThreadPoolExecutor(arguments.jobs) as pool:
            rows = list(pool.map(lambda m: _judged(m, tests[m.module, m.line], copies), mutants))
    counts = Counter(row["verdict"] for row in rows)
    print(f"{counts[KILLED]} of {len(rows)} mutants were caught, seed {arguments.seed}")
    if arguments.table:
        with arguments.table.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return 0


def _copied(to: Path) -> Path:
    """Copy the files that git knows to the new folder `to`."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (CHECKOUT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, to / name)
    return to


def _pytest(project: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    path = os.pathsep.join(str(project / name) for name in ("src", "tests"))
    environment = os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"} | variables
    return subprocess.run(
        [*command, *words],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=None if variables else SECONDS,
    )


def _cover(project: Path, written: Path) -> None:
    done = _pytest(project, "-p", "audit.suite", "tests/unit", **{COVERED: str(written)})
    last = (done.stdout.strip() or done.stderr.strip()).splitlines()[-1]
    print(f"the unit tests: {last}", flush=True)
    if done.returncode > 1:  # 1: tests have failed, and are left out
        raise SystemExit(done.stdout[-2000:])


def _by_statement(covered: dict[str, list[list]]) -> dict[tuple[str, int], list[str]]:
    """Return the tests of each statement, those that run the fewest statements first."""
    found: dict[tuple[str, int], list[str]] = defaultdict(list)
    for test in sorted(covered, key=lambda each: (len(covered[each]), each)):
        for module, line in covered[test]:
            found[module, line].append(test)
    return found


def _judged(mutant: Mutant, tests: list[str], copies: SimpleQueue[Path]) -> dict[str, object]:
    began = time.monotonic()
    copy = copies.get()
    path = copy / "src" / "minbert" / mutant.module
    before = path.read_text("utf-8")
    try:
        path.write_text(mutant.source, encoding="utf-8")
        verdict = KILLED if _pytest(copy, "-x", *tests[:TESTS]).returncode else SURVIVED
    except subprocess.TimeoutExpired:
        verdict = KILLED
    finally:
        path.write_text(before, encoding="utf-8")
        copies.put(copy)
    print(f"{verdict}: {mutant.module}, line {mutant.line}: {mutant.what}", flush=True)
    if verdict == SURVIVED:
        print(mutant.diff, flush=True)
    return {
        "module": mutant.module,
        "line": mutant.line,
        "what": mutant.what,
        "tests": len(tests),
        "verdict": verdict,
        "seconds": round(time.monotonic() - began),
    }


if __name__ == "__main__":
    raise SystemExit(main())
