"""What surgery and task weightings cost: a unified step of three tasks with each, against PCGrad's.

    python -m benchmarks.methods --sizes tiny minilm bert-base

All take the same steps (batches of 8, one thread on a CPU) in turn. Ratios are of a turn's times.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path

import torch

from benchmarks.cases import UNIFIED
from benchmarks.measure import Side, alternate, spread
from benchmarks.ours import Ours, stage
from benchmarks.workload import Workload, make_workload
from minbert.spec.parts import PARTS
from minbert.train.samplers import Step

BATCH = 8
PCGRAD = ("surgery", "pcgrad")


def side(
    method: tuple[str, str],
    work: Workload,
    steps: list[Step],
    device: torch.device,
    precision: str,
) -> Side:
    """Return what makes `steps` with `method`, a kind of part and its name."""
    kind, name = method
    spec = stage(UNIFIED, batch=BATCH, dropout=0.1, **{kind: name})
    return partial(Ours(spec, work, device, precision).train, steps)


def main() -> None:
    """Print, by size and method, milliseconds a step and the ratio to PCGrad's."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.methods", description=__doc__)
    parser.add_argument("--sizes", nargs="+", default=["tiny", "minilm"])
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", nargs="+", help="names of methods")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="fp32")
    given = parser.parse_args()
    torch.set_num_threads(1)
    device = torch.device(given.device)
    known = [(kind, name) for kind in ("surgery", "weighting") for name in sorted(PARTS[kind])]
    chosen = [m for m in known if m != PCGRAD and (not given.only or m[1] in given.only)]
    for size in given.sizes:
        with tempfile.TemporaryDirectory() as folder:
            work = make_workload(Path(folder), size)
            draw = torch.Generator().manual_seed(0)
            steps = [
                [(task, torch.randperm(512, generator=draw)[:BATCH]) for task in UNIFIED]
                for _ in range(given.steps)
            ]
            make = partial(side, work=work, steps=steps, device=device, precision=given.precision)
            pcgrad = make(PCGRAD)
            for method in chosen:
                # Two models at a time: all of them would fill the memory.
                sides = {PCGRAD: pcgrad, method: make(method)}
                taken = alternate(sides, device, repeats=given.repeats)
                each = spread([1e3 * s / given.steps for s in taken[method]])
                pairs = zip(taken[method], taken[PCGRAD], strict=True)
                ratio = spread([ours / theirs for ours, theirs in pairs])
                print(
                    f"{size}: {' '.join(method)}: {each.median:.1f} ms a step, "
                    f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f}) of PCGrad's",
                    flush=True,
                )


if __name__ == "__main__":
    main()
