"""Edits of a finished project, and exactly the jobs that each must run (docs/rebuilding.md)."""

from __future__ import annotations

from .changes import (
    Change,
    append,
    code,
    config,
    download_again,
    drop_tokens,
    forget,
    grid,
    lose_times,
    other_backbone,
    other_torch,
    recolour,
    relabel,
    remove_sst_only,
    reorder,
    restyle,
    touch,
)

ALL = {"sst-only", "baseline", "1-bert", "3-bert", "hybrid-bert", "hybrid-bert-40"}
WITH_STS = ALL - {"sst-only"}
PCGRAD = {"1-bert", "hybrid-bert", "hybrid-bert-40"}
TABLE = {"table", "index", "report", "publish"}
SCORED = {"scores", *TABLE}
REPORT = {"report", "publish"}
FIGURE = {"figure", "report", "publish"}
SHOWN = {"figure", *SCORED}


def trains(variants: set[str], *seeds: int) -> set[str]:
    """Return the training jobs of some variants."""
    return {f"train {variant} {seed}" for variant in variants for seed in seeds or (0,)}


CLAIM = """\
claims:
  - {text: Nothing is better., section: "5", variant: 3-bert, against: 1-bert}
figures:
"""

LR_1BERT = grid(
    "  1-bert:\n    extends: multitask\n",
    "  1-bert:\n    extends: [multitask]\n    optimiser: {lr: 2e-5}\n",
)

EDITS: dict[str, tuple[Change, set[str]]] = {
    "the rate of a row in the figure": (LR_1BERT, trains({"1-bert"}) | SHOWN),
    "a template's rate": (grid("lr: 1e-5", "lr: 2e-5"), trains(ALL - {"baseline"}) | SHOWN),
    "two settings swapped": (
        grid(
            "      eps: 1e-6\n      weight_decay: 0.001\n",
            "      eps: 0.001\n      weight_decay: 1e-6\n",
        ),
        trains(ALL) | SHOWN,
    ),
    "the label of a row in the figure": (grid("label: 1-bert", "label: one encoder"), FIGURE),
    "the label of a row in no figure": (grid("label: SST alone", "label: SST only"), TABLE),
    "a note": (grid("note: One encoder for all tasks.", "note: One encoder."), TABLE),
    "a first claim": (grid("figures:\n", CLAIM), {"claims", "report", "publish"}),
    "a figure's colour": (recolour, FIGURE),
    "how a figure is drawn": (append("figures/curves.py"), FIGURE),
    "another seed": (config(seeds="[0, 1]"), trains(ALL, 1) | SHOWN),
    "another row": (
        grid("variants:\n", "variants:\n  new: {extends: 3-bert, epochs: 100}\n"),
        trains({"new"}) | SCORED,
    ),
    "another row, with an existing stage": (
        grid("variants:\n", "variants:\n  again: {extends: 3-bert}\n"),
        SCORED,
    ),
    "another row, the best of others": (
        grid("variants:\n", "variants:\n  best: {best_of: [1-bert, 3-bert]}\n"),
        SCORED,
    ),
    "another row, tuned": (
        grid(
            "variants:\n",
            "variants:\n  new: {extends: 1-bert, tune: {optimiser.lr: [2e-5, 4e-5]}}\n",
        ),
        trains({"new.lr-2e-5", "new.lr-4e-5"}) | {"tuning"} | SCORED,
    ),
    "a row's name": (grid("  sst-only:\n", "  sst-alone:\n"), SCORED),
    "one row less": (remove_sst_only, SCORED),
    "the number of examples": (
        config(limit="40"),
        {"data", "rows", "tokens", "features"} | trains(ALL) | SHOWN,
    ),
    "the backbone": (
        other_backbone,
        {"backbone", "tokens", "features"} | trains(ALL) | SHOWN,
    ),
    "the encoder's code": (
        append("model/encoder.py"),
        {"backbone", "tokens", "features"} | trains(ALL) | SHOWN,
    ),
    "the code of the squared error": (
        code("train/losses/mse.py", "F.mse_loss(", "2.0 * F.mse_loss("),
        trains(WITH_STS) | SHOWN,
    ),
    "the code of gradient surgery": (
        code("train/surgery/pcgrad.py", "max=0.0", "max=-0.0001"),
        trains(PCGRAD) | SHOWN,
    ),
    "the code of training on cached features": (
        append("train/frozen_probe.py"),
        trains({"baseline"}) | SCORED,
    ),
    "how results get their plain names": (append("publish/publish.py"), {"publish"}),
    "the code of the tables": (append("evaluate/table.py"), TABLE),
    "the code of the report": (append("report/pictures.py"), REPORT),
    "the looks of the report": (restyle, REPORT),
}
"""What must run after an edit of the tiny grid, which ran with the built-in data and one seed."""

FILE_EDITS: dict[str, tuple[Change, set[str]]] = {
    "a label in a file of the data": (
        relabel,
        {"data", "rows", "tokens"} | trains({"pairs"}, 0, 1) | SCORED,
    ),
    "a line in the convolution's code": (
        code("model/convolution.py", "changed = total.relu()", "changed = 2 * total.relu()"),
        trains({"cnn"}, 0, 1) | SCORED,
    ),
    "one seed less": (config(seeds="[0]"), SCORED),
}
"""The same of `cnn` (SST, convolutions) and `pairs` (STS) on data from files, with two seeds."""

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
}
FILE_NO_EDITS: dict[str, Change] = {
    "files of the data touched": touch,
    "files of the data fetched again, to another folder": download_again,
}
LOSSES: dict[str, Change] = {
    "Snakemake's metadata lost": forget,
    "metadata and times lost, as in a copy": lose_times,
    "tokens deleted": drop_tokens,
}
"""What changes no result, and so makes nothing run: spelling, looks of code, place and speed."""
