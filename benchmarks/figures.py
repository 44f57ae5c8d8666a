"""How long all figures of the full grid take, drawn from made-up result files of real sizes.

    python benchmarks/figures.py [--seeds 5] [--processes 2] [--only NAME]

Plans config.yaml with so many seeds, writes the files that training and scoring would have left,
and draws each figure in a process of its own. Prints the seconds of each, and
the CPU time of all.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from minbert.data.rows import write_rows
from minbert.plan.describe import write
from minbert.plan.plan import Plan
from minbert.spec.task import TASKS
from minbert.spec.yaml import load_yaml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "unit"))
from figure_files import (  # noqa: E402 - found only now
    qualities,
    write_history,
    write_predictions,
    write_scores,
    write_texts,
)

SIZES = {"sst": 1101, "para": 20215, "sts": 863, "cfimdb": 245, "lmrd": 2500}
STEPS = 378  # an epoch of STS in batches of 16


def make_files(plan: Plan) -> None:
    """Leave what figures read; runs of like tasks and seed share one file by hard links."""
    made: dict[tuple[object, ...], Path] = {}

    def linked(path: Path, *what: object) -> Path | None:
        """Link `path` to a file of the same content; return it, if there is none yet."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if (path.name, *what) in made:
            os.link(made[path.name, *what], path)
            return None
        made[path.name, *what] = path
        return path

    for ref, stage in plan.stages.items():
        node, tasks = plan.train(ref), stage.spec.ordered_tasks
        epochs = stage.spec.epochs
        for seed in plan.config.seeds:
            folder = node.folder(plan.root, seed)
            if folder.exists():
                continue
            fused = len(stage.fused)
            if path := linked(folder / "history.parquet", tasks, seed, epochs, fused):
                write_history(path, tasks, 0.6, seed, epochs, STEPS, fused)
            if path := linked(folder / "predictions.parquet", tasks, seed):
                write_predictions(path, tasks, 0.6, seed, SIZES)
    for task in TASKS:
        examples = plan.sources.data(task).folder(plan.root) / "examples.parquet"
        write_texts(examples, task, SIZES)
        write_rows(examples, plan.sources.rows(task).folder(plan.root) / "rows.parquet")
    for grid in plan.grids:
        out = plan.shown[f"scores/{grid.paper}"].folder(plan.root) / "scores.parquet"
        tested = [name for name, variant in grid.variants.items() if variant.test]
        write_scores(out, grid.paper, qualities(grid.variants), plan.config.seeds, tested=tested)


def draw(root: Path, key: str) -> float:
    """Draw one figure in a process of its own; return its seconds."""
    start = time.monotonic()
    command = [sys.executable, "-m", "minbert", "make", f"figure-{key}"]
    subprocess.run([*command, "--results", str(root)], check=True)
    return time.monotonic() - start


def main() -> None:
    """Make the files, draw all figures, print the seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="", help="a part of the figures' names")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = load_yaml(ROOT / "config.yaml")
        config |= {"seeds": list(range(arguments.seeds)), "results": folder}
        plan = Plan.load(config, ROOT)
        write(plan)
        make_files(plan)
        figures = {
            name: node
            for name, node in plan.shown.items()
            if node.kind == "figure" and arguments.only in name
        }
        start = time.monotonic()
        with ThreadPoolExecutor(arguments.processes) as pool:
            taken = list(pool.map(lambda node: draw(plan.root, node.key), figures.values()))
        whole = time.monotonic() - start
        for name, seconds in sorted(zip(figures, taken, strict=True), key=lambda one: -one[1]):
            print(f"{seconds:6.1f} s  {name}  ({len(figures[name].needs)} files)")
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"{whole:6.1f} s  all {len(figures)}, {arguments.processes} at a time")
        print(f"{used.ru_utime + used.ru_stime:6.1f} s  of CPU, which a busy machine changes less")


if __name__ == "__main__":
    main()
