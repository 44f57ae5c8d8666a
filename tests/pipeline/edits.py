"""Edits of a finished project, and exactly the jobs that each must run (docs/rebuilding.md)."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Callable

from .project import PAPER, Project

Change = Callable[[Project], None]

GRID = f"workflow/grids/{PAPER}.yaml"
ALL = {"sst-only", "baseline", "1-bert", "3-bert", "hybrid-bert", "hybrid-bert-40"}
WITH_STS = ALL - {"sst-only"}
PCGRAD = {"1-bert", "hybrid-bert", "hybrid-bert-40"}
TABLE = {"table", "index", "report", "publish"}
REPORT = {"report", "publish"}
FIGURE = {"figure", *REPORT}
TOLD = {"figure", *TABLE}
SHOWN = {"scores", *TOLD}
CLAIM = """\
claims:
  - {text: Nothing is better., section: "5", variant: 3-bert, against: 1-bert}
figures:
"""


def grid(old: str, new: str) -> Change:
    """Return an edit of the grid."""
    return lambda project: project.edit(GRID, old, new)


def row(text: str) -> Change:
    """Return an edit that adds a row."""
    return grid("variants:\n", f"variants:\n  {text}\n")


def code(module: str, old: str, new: str) -> Change:
    """Return an edit of a module of the package."""
    return lambda project: project.edit(f"src/minbert/{module}", old, new)


def config(**values: str) -> Change:
    """Return an edit of config.yaml."""
    return lambda project: project.configure(**values)


def append(module: str) -> Change:
    """Return an edit that adds a constant to a module."""

    def change(project: Project) -> None:
        with (project.folder / "src" / "minbert" / module).open("a", encoding="utf-8") as file:
            file.write("\n\nEXTRA = 1\n")

    return change


def trains(variants: set[str], seed: int = 0) -> set[str]:
    """Return the training jobs of some variants."""
    return {f"train {variant} {seed}" for variant in variants}


def remove_sst_only(project: Project) -> None:
    """Take a row out of the grid."""
    path = project.folder / GRID
    before, _, after = path.read_text("utf-8").partition("  sst-only:")
    path.write_text(before + after.partition("\n\n")[2], encoding="utf-8")


def other_backbone(project: Project) -> None:
    """Give the backbone other weights."""
    weights = project.folder / "backbone" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")


LR_1BERT = grid(
    "  1-bert:\n    extends: multitask\n",
    "  1-bert:\n    extends: [multitask]\n    optimiser: {lr: 2e-5}\n",
)
EDITS: dict[str, tuple[Change, set[str]]] = {
    "the rate of a row in the figure": (LR_1BERT, trains({"1-bert"}) | SHOWN),
    "a template's rate": (grid("lr: 1e-5", "lr: 2e-5"), trains(ALL - {"baseline"}) | SHOWN),
    "the label of a row": (grid("label: 1-bert", "label: one encoder"), TOLD),
    "a note": (grid("note: One encoder for all tasks.", "note: One encoder."), TOLD),
    "a first claim": (grid("figures:\n", CLAIM), {"claims", "report", "publish"}),
    "another seed": (config(seeds="[0, 1]"), trains(ALL, 1) | SHOWN),
    "another row": (row("new: {extends: 3-bert, epochs: 100}"), trains({"new"}) | SHOWN),
    "another row, with an existing stage": (row("again: {extends: 3-bert}"), SHOWN),
    "another row, the best of others": (row("best: {best_of: [1-bert, 3-bert]}"), SHOWN),
    "another row, tuned": (
        row("new: {extends: 1-bert, tune: {optimiser.lr: [2e-5, 4e-5]}}"),
        trains({"new.lr-2e-5", "new.lr-4e-5"}) | {"tuning"} | SHOWN,
    ),
    "a row's name": (grid("  sst-only:\n", "  sst-alone:\n"), SHOWN),
    "one row less": (remove_sst_only, SHOWN),
    "the number of examples": (
        config(limit="40"),
        {"data", "rows", "tokens", "features"} | trains(ALL) | SHOWN,
    ),
    "the backbone": (other_backbone, {"backbone", "tokens", "features"} | trains(ALL) | SHOWN),
}
"""What must run after an edit of the tiny grid, which ran with the built-in data and one seed."""

CODE: dict[str, set[str]] = {
    "model.encoder": {"backbone", "tokens", "features"} | trains(ALL) | SHOWN,
    "train.losses.mse": trains(WITH_STS) | SHOWN,
    "train.losses.binary_cross_entropy": trains(WITH_STS) | SHOWN,  # sst-only has its sibling
    "train.surgery.pcgrad": trains(PCGRAD) | SHOWN,
    "train.frozen_probe": trains({"baseline"}) | SHOWN,
    "figures.curves": FIGURE,
    "figures.style": FIGURE,
    "evaluate.table": TABLE,
    "report.make": REPORT,
}
"""The same after an edit of a module of the package."""


def reorder(project: Project) -> None:
    """Turn round the order of two settings, and of all keys of config.yaml."""
    eps, decay = "      eps: 1e-6\n", "      weight_decay: 0.001\n"
    project.edit(GRID, eps + decay, decay + eps)
    text = (project.folder / "config.yaml").read_text("utf-8")
    lines = re.findall(r"^\S.*\n(?: .*\n)*", text, re.MULTILINE)
    (project.folder / "config.yaml").write_text("".join(reversed(lines)), encoding="utf-8")


def other_torch(project: Project) -> None:
    """Make the finished runs look as if another version of torch had made them."""
    for path in (project.root / "store" / "train").rglob("run.json"):
        record = json.loads(path.read_text("utf-8"))
        record["environment"]["packages"]["torch"] = "1.0.0"
        path.write_text(json.dumps(record), encoding="utf-8")


def forget(project: Project) -> None:
    """Lose Snakemake's metadata."""
    shutil.rmtree(project.folder / ".snakemake")


def lose_times(project: Project) -> None:
    """Give what is costly to make random times, as a copy may."""
    draw = random.Random(3)
    for kind in ("data", "backbone", "tokens", "features", "train"):
        for path in (project.root / "store" / kind).rglob("*"):
            os.utime(path, (time := draw.uniform(1.6e9, 1.7e9), time))


def drop_tokens(project: Project) -> None:
    """Delete files that only jobs in between need."""
    shutil.rmtree(project.root / "store" / "tokens")


NO_EDITS: dict[str, Change] = {
    "a number's spelling: `1e-5`, `0.00001`": grid("lr: 1e-5", "lr: 0.00001"),
    "a depth's spelling: `all`, `1.0`": grid("shared_layers: all", "shared_layers: 1.0"),
    "the order of keys": reorder,
    "a comment in the encoder": code("model/encoder.py", "\nimport", "\n# A comment.\nimport"),
    "a docstring of the encoder": code("model/encoder.py", '"""', '"""Well. '),
    "the code of tracking": append("track/follower.py"),
    "the code of memory and checkpoints": append("train/device.py"),
    "`device`, `precision`, `threads`, `keep_weights`": config(
        device="cuda:3", precision="bf16", threads="2", keep_weights="false"
    ),
    "the place of files that are not used": config(course="/another/folder"),
    "another version of torch": other_torch,
    "Snakemake's metadata lost": forget,
    "times lost, as in a copy": lose_times,
    "tokens deleted": drop_tokens,
}
"""What changes no result, and so makes nothing run: spelling, looks of code, place and speed."""
