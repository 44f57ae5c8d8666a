"""Changes of a finished project, each made as a person makes it."""

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
    for kind in ("data", "backbone", "tokens", "features", "train"):
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
