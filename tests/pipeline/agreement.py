"""Random scenarios in which `minbert plan` must list exactly what Snakemake would run.

`cd tests && python -m pipeline.agreement --scenarios 200` makes a finished run of the tiny grid and
tries them; a dozen are in the tests.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .edits import EDITS, NO_EDITS
from .project import Project, made_by

Job = tuple[str, str]
"""The kind and the key of what a job makes; a publishing has no key."""
LISTED = re.compile(r"(?m)^(\w+) +.*? +([0-9a-f]{16}) ")
STAGE = re.compile(r"(?m)^\S+ +\S+ +([0-9a-f]{16})  (?!done)")


def planned(project: Project) -> set[Job]:
    """Return what `minbert plan` lists, with one seed."""
    found: set[Job] = set()
    for block in project.minbert("plan").split("\n\n"):
        if block.startswith("Other jobs"):
            found |= {(kind, "" if kind == "publish" else k) for kind, k in LISTED.findall(block)}
        elif " stage " in block.partition("---")[0]:
            found |= {("train", key) for key in STAGE.findall(block)}
    return found


def would_run(project: Project) -> set[Job]:
    """Return what Snakemake lists."""
    return {(kind, key) for kind, key, _ in made_by(project.snakemake("-n", "all"))}


def delete_files(project: Project, draw: random.Random) -> str:
    """Delete some random files of the results."""
    files = sorted(path for path in project.root.rglob("*") if path.is_file())
    chosen = draw.sample(files, draw.choice((1, 1, 2, 5, 30)))
    for path in chosen:
        path.unlink()
    return f"deleted {', '.join(str(path.relative_to(project.root)) for path in chosen[:3])}"


def delete_folder(project: Project, draw: random.Random) -> str:
    """Delete all that one node, or one kind, left in the store."""
    folders = sorted((project.root / "store").glob(draw.choice(("*", "*/*", "train/*"))))
    chosen = draw.choice([path for path in folders if path.is_dir()])
    shutil.rmtree(chosen)
    return f"deleted {chosen.relative_to(project.root)}"


def mix_times(project: Project, draw: random.Random) -> str:
    """Give every file a random time."""
    for path in sorted(project.root.rglob("*")):
        os.utime(path, (when := draw.uniform(1.5e9, 1.9e9), when))
    return "random times"


def copy_results(project: Project, draw: random.Random) -> str:
    """Copy the results as `cp -r` does, in any order, and take the copy."""
    copy = project.folder / "copy"
    for path in draw.sample(files := sorted(project.root.rglob("*")), len(files)):
        if path.is_file():
            target = copy / path.relative_to(project.root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    shutil.rmtree(project.root)
    copy.rename(project.root)
    return "copied"


def edit(project: Project, draw: random.Random) -> str:
    """Make one of the edits of `edits`, if it still can be made."""
    known = EDITS | {name: (change, set()) for name, change in NO_EDITS.items()}
    name = draw.choice(sorted(known))
    try:
        known[name][0](project)
    except (AssertionError, OSError, ValueError) as error:
        return f"could not: {name} ({type(error).__name__})"
    return name


ACTS: tuple[Callable[[Project, random.Random], str], ...] = (
    *(delete_files, delete_files, delete_folder, delete_folder),
    *(mix_times, copy_results, edit, edit),
)


def scenario(finished: Project, folder: Path, seed: int) -> str:
    """Do one to three random things to a copy; return where the lists differ, if they do."""
    draw = random.Random(seed)
    project = finished.copy(folder)
    project.configure(tracking="{enabled: false}")
    done = [draw.choice(ACTS)(project, draw) for _ in range(draw.randint(1, 3))]
    plan, run = planned(project), would_run(project)
    shutil.rmtree(folder)
    if plan == run:
        return ""
    return (
        f"scenario {seed} ({'; '.join(done)}): only the plan lists {sorted(plan - run)}, only "
        f"Snakemake {sorted(run - plan)}"
    )


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.agreement", description=__doc__)
    parser.add_argument("--scenarios", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="of the first scenario")
    arguments = parser.parse_args()
    began, differing = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="agreement-") as temporary:
        finished = Project.make(Path(temporary) / "finished")
        finished.snakemake("all")
        with ThreadPoolExecutor(2) as pool:
            seeds = range(arguments.seed, arguments.seed + arguments.scenarios)
            for said in pool.map(lambda s: scenario(finished, Path(temporary) / str(s), s), seeds):
                differing += bool(said)
                print(said or ".", end="\n" if said else "", flush=True)
    seconds = time.monotonic() - began
    print(f"\n{arguments.scenarios} scenarios, {differing} differ, {seconds:.0f} s")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main())
