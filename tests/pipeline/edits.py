"""Edits of a finished project, and exactly the jobs that each must run.

`cd tests && python -m pipeline.edits` writes the table of docs/rebuilding.md from this one.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from .project import CHECKOUT, PAPER, Project

Change = Callable[[Project], None]

GRID = f"workflow/grids/{PAPER}.yaml"
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


def grid(old: str, new: str) -> Change:
    """Return an edit of the grid."""
    return lambda project: project.edit(GRID, old, new)


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


def forget(project: Project) -> None:
    """Lose Snakemake's metadata."""
    shutil.rmtree(project.folder / ".snakemake")


def lose_times(project: Project) -> None:
    """Give what is costly to make random times and lose the metadata, as a copy may."""
    forget(project)
    draw = random.Random(3)
    for kind in ("data", "vocabulary", "backbone", "tokens", "features", "train"):
        for path in (project.root / "store" / kind).rglob("*"):
            os.utime(path, (time := draw.uniform(1.6e9, 1.7e9), time))


def drop_tokens(project: Project) -> None:
    """Delete files that only jobs in between need."""
    shutil.rmtree(project.root / "store" / "tokens")


def recolour(project: Project) -> None:
    """Give the figures' first line another colour."""
    path = project.folder / "src/minbert/figures/style.py"
    text, found = re.subn(r"#[0-9A-F]{6}", "#123456", path.read_text("utf-8"), count=1)
    assert found
    path.write_text(text, encoding="utf-8")


def reorder(project: Project) -> None:
    """Turn round the order of two settings, and of all keys of config.yaml."""
    eps, decay = "      eps: 1e-6\n", "      weight_decay: 0.001\n"
    project.edit(GRID, eps + decay, decay + eps)
    text = (project.folder / "config.yaml").read_text("utf-8")
    lines = re.findall(r"^\S.*\n(?: .*\n)*", text, re.MULTILINE)
    (project.folder / "config.yaml").write_text("".join(reversed(lines)), encoding="utf-8")


def remove_sst_only(project: Project) -> None:
    """Take a row out of the grid."""
    path = project.folder / GRID
    text = path.read_text("utf-8")
    start = text.index("  sst-only:")
    end = text.index("\n\n", start) + 2
    path.write_text(text[:start] + text[end:], encoding="utf-8")


def restyle(project: Project) -> None:
    """Give the report's text another colour."""
    project.edit("src/minbert/report/style.css", "--ink: #1b1d21", "--ink: #202020")


def other_torch(project: Project) -> None:
    """Make the finished runs look as if another version of torch had made them."""
    for path in (project.root / "store" / "train").rglob("run.json"):
        record = json.loads(path.read_text("utf-8"))
        record["environment"]["packages"]["torch"] = "1.0.0"
        made = path.stat().st_mtime_ns
        path.write_text(json.dumps(record), encoding="utf-8")
        os.utime(path, ns=(made, made))


def other_backbone(project: Project) -> None:
    """Name a folder with other weights, of which a plan reads the shapes."""
    folder = project.folder / "bert"
    folder.mkdir()
    shapes = {
        **{"model_type": "bert", "vocab_size": 100, "hidden_size": 32, "hidden_act": "gelu"},
        **{"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64},
        **{"max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12},
    }
    (folder / "config.json").write_text(json.dumps(shapes), encoding="utf-8")
    (folder / "model.safetensors").write_bytes(b"others")
    project.configure(backbone="bert")


def relabel(project: Project) -> None:
    """Give one training pair another label."""
    path = project.folder / "course" / "sts-train.csv"
    header, first, *rest = path.read_text("utf-8").splitlines(keepends=True)
    stem, _, label = first.rstrip("\n").rpartition("\t")
    other = f"{stem}\t{0.5 if float(label) > 2 else 4.5}\n"
    path.write_text("".join([header, other, *rest]), encoding="utf-8")


def touch(project: Project) -> None:
    """Give the files of the data another time."""
    for path in (project.folder / "course").iterdir():
        os.utime(path, (1.6e9, 1.6e9))


def download_again(project: Project) -> None:
    """Replace the files of the data by new ones with the same bytes, elsewhere."""
    shutil.copytree(project.folder / "course", project.folder / "again")
    shutil.rmtree(project.folder / "course")
    project.configure(course="again")


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
    "the rate of a row in no figure": (
        grid("    label: SST alone\n", "    label: SST alone\n    optimiser: {lr: 2e-5}\n"),
        trains({"sst-only"}) | SCORED,
    ),
    "a template's rate": (grid("lr: 1e-5", "lr: 2e-5"), trains(ALL) | SHOWN),
    "two settings swap their values": (
        grid(
            "      eps: 1e-6\n      weight_decay: 0.001\n",
            "      eps: 0.001\n      weight_decay: 1e-6\n",
        ),
        trains(ALL) | SHOWN,
    ),
    "the label of a row in the figure": (grid("label: 1-bert", "label: one encoder"), FIGURE),
    "the label of a row in no figure": (grid("label: SST alone", "label: SST only"), TABLE),
    "a note": (grid("note: One encoder for all tasks.", "note: One encoder."), TABLE),
    "a claim, the first one": (grid("figures:\n", CLAIM), {"claims", "report", "publish"}),
    "a figure's title": (grid("title: Multitask training", "title: Our"), FIGURE),
    "a figure's caption": (grid("Figure 3 of the paper", "As Figure 3 of the paper"), FIGURE),
    "a figure's colour": (recolour, FIGURE),
    "how a figure is drawn": (append("figures/loss_curves.py"), FIGURE),
    "a seed more": (config(seeds="[0, 1]"), trains(ALL, 1) | SHOWN),
    "a row more": (
        grid("variants:\n", "variants:\n  new: {extends: 3-bert, epochs: 100}\n"),
        trains({"new"}) | SCORED,
    ),
    "a row more, with a stage that is there": (
        grid("variants:\n", "variants:\n  again: {extends: 3-bert}\n"),
        SCORED,
    ),
    "a row more, the best of others": (
        grid("variants:\n", "variants:\n  best: {best_of: [1-bert, 3-bert]}\n"),
        SCORED,
    ),
    "a row's name": (grid("  sst-only:\n", "  sst-alone:\n"), SCORED),
    "a row less": (remove_sst_only, SCORED),
    "the built-in corpus's size for one task": (
        lambda project: project.edit("config.yaml", "sts: {train: 48", "sts: {train: 40"),
        {"data", "tokens", "features"} | trains(WITH_STS) | SHOWN,
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
        append("train/cached.py"),
        trains({"baseline"}) | SCORED,
    ),
    "the code of a metric": (append("evaluate/metrics.py"), SCORED),
    "the code of the scores": (append("evaluate/score.py"), SCORED),
    "the code of the tables": (append("evaluate/table_text.py"), TABLE),
    "the code of the report": (append("report/images.py"), REPORT),
    "the looks of the report": (restyle, REPORT),
    "`dependencies: [torch]`, where it was not": (
        config(dependencies="[torch]"),
        trains(ALL) | SHOWN,
    ),
}
"""What must run after an edit of the tiny grid, which ran with the built-in data and one seed."""

FILE_EDITS: dict[str, tuple[Change, set[str]]] = {
    "a label in a file of the data": (
        relabel,
        {"data", "tokens"} | trains({"pairs"}, 0, 1) | SCORED,
    ),
    "a line in the convolution's code": (
        code("model/convolution.py", "changed = total.relu()", "changed = 2 * total.relu()"),
        trains({"cnn"}, 0, 1) | SCORED,
    ),
    "a seed less": (config(seeds="[0]"), SCORED),
}
"""The same of `cnn` (SST, convolutions) and `pairs` (STS) on data from files, with two seeds."""

NO_EDITS: dict[str, Change] = {
    "a number's spelling: `1e-5`, `0.00001`": grid("lr: 1e-5", "lr: 0.00001"),
    "a depth's spelling: `all`, `1.0`": grid("shared_layers: all", "shared_layers: 1.0"),
    "the order of keys": reorder,
    "a comment in the encoder": code("model/encoder.py", "\nimport", "\n# A comment.\nimport"),
    "a docstring of the encoder": code("model/encoder.py", '"""', '"""Well. '),
    "the code of tracking": append("track/follower.py"),
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

PAGE = CHECKOUT / "docs" / "rebuilding.md"
MARKS = ("<!-- Made by: cd tests && python -m pipeline.edits -->\n", "<!-- End -->\n")


def table() -> str:
    """Return the edits and their jobs as markdown."""
    lines = ["| edit | what runs |", "| --- | --- |"]
    for name, (_, jobs) in (EDITS | FILE_EDITS).items():
        lines.append(f"| {name} | {_jobs(jobs)} |")
    for name in NO_EDITS | FILE_NO_EDITS | LOSSES:
        lines.append(f"| {name} | nothing |")
    return "\n".join(lines) + "\n"


def _jobs(jobs: set[str]) -> str:
    return "; ".join([*_trainings(jobs), ", ".join(j for j in _ORDER if j in jobs)])


_ORDER = (
    *("data", "backbone", "tokens", "features", "scores", "table", "index", "figure", "report"),
    "publish",
)


def _trainings(jobs: set[str]) -> Iterator[str]:
    rows = sorted({job.split()[1] for job in jobs if job.startswith("train ")})
    seeds = sorted({job.split()[2] for job in jobs if job.startswith("train ")})
    if rows:
        named = "every row" if set(rows) == ALL else ", ".join(f"`{row}`" for row in rows)
        yield f"training of {named}" + (f" with seed {', '.join(seeds)}" if seeds != ["0"] else "")


def page(text: str) -> str:
    """Return a page with the table between its marks."""
    before, rest = text.split(MARKS[0])
    return before + MARKS[0] + "\n" + table() + "\n" + MARKS[1] + rest.split(MARKS[1])[1]


if __name__ == "__main__":
    path = Path(PAGE)
    path.write_text(page(path.read_text("utf-8")), encoding="utf-8")
