"""A RoBERTa in place of BERT, from raw examples to tables and figures."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import encoders
import pytest
from safetensors.torch import load_file, save_file

from .project import CHECKOUT, Project, copy_workflow

pytestmark = pytest.mark.pipeline

CONFIG = """\
grids: [mine]
data: builtin
backbone: encoder
limit: 48
device: cpu
precision: fp32
threads: 1
tracking: {enabled: false}
"""
GRID = """\
paper: mine
title: Another encoder
overall: normalised
overall_tasks: [sst, sts]
variants:
  shared:
    shared_layers: 1
    smart: {weight: 1}
    tasks:
      sst: {loss: cross_entropy, pooling: cls}
      sts: {loss: mse, pairing: cross, pooling: mean}
  lora: {extends: shared, smart: null, shared_layers: all, trainable: lora, lora: {rank: 2}}
  frozen: {extends: shared, smart: null, shared_layers: all, trainable: heads}
figures:
  shapes: {kind: architectures, title: Shapes, variants: [shared]}
  similarity: {kind: sts-scatter, title: Similarity}
"""


def make_project(folder: Path, kind: encoders.Kind) -> Project:
    """Make a folder whose backbone is an encoder with random weights and without a pooler."""
    copy_workflow(folder)
    (folder / "workflow" / "figures.yaml").unlink()
    (folder / "workflow" / "grids" / "mine.yaml").write_text(GRID, encoding="utf-8")
    (folder / "config.yaml").write_text(CONFIG, encoding="utf-8")
    encoders.make(kind, folder / "encoder")
    weights = folder / "encoder" / "model.safetensors"
    save_file({n: t for n, t in load_file(weights).items() if "pooler" not in n}, weights)
    return Project(folder)


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("encoders") / "checkout"
    project = make_project(folder, encoders.CONFIGS["roberta"])
    project.snakemake("all")
    return project


def test_every_row_is_scored_and_counted(mine: Project) -> None:
    lines = {line["variant"]: line for line in mine.table("mine")}
    assert lines.keys() == {"shared", "lora", "frozen"}
    for line in lines.values():
        assert line["status"] == "scored" and line["sst_mean"] and line["sts_mean"]
        assert int(line["parameters"]) > 10_000
    assert mine.jobs() == set()
    for figure in ("shapes", "similarity"):
        assert (mine.root / "figures" / "mine" / f"{figure}.pdf").is_file()


def test_a_new_pooler_is_told_once(mine: Project) -> None:
    texts = {path: path.read_text("utf-8") for path in (mine.root / "logs").rglob("*.log")}
    (log,) = (path for path, text in texts.items() if "has no pooler" in text)
    assert "backbone" in str(log) and texts[log].count("has no pooler") == 1


PARITY = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import encoders, transformers
from minbert.model.hugging_face import convert_hugging_face
theirs, ours = Path("encoder"), Path("ours")
arch = convert_hugging_face(theirs, ours)
model = getattr(transformers, sys.argv[2])
reference = model.from_pretrained(theirs, attn_implementation="eager").eval()
print("difference", encoders.difference(encoders.Made(reference, theirs, ours)).max().item())
encoder, _ = encoders.our_encoder(ours)
print("parameters", sum(p.numel() for p in encoder.parameters()), arch.parameters().total)
"""
PRENORM = """\
        "roberta-prelayernorm": "minbert.spec.encoders.prenorm:PreNormRoberta",
"""


def add(project: Project, kind: str, line: str, path: str, module: str) -> None:
    """Add a module, and its line to `PARTS`."""
    (project.folder / "src" / "minbert" / path).write_text(module, encoding="utf-8")
    place = f'    "{kind}": {{\n'
    project.edit("src/minbert/spec/parts.py", place, place + line)


def check_parity(project: Project, name: str) -> None:
    """Compare the encoder's states and parameters with those of the class in transformers."""
    printed = project.run(sys.executable, "-c", PARITY, str(CHECKOUT / "tests"), f"{name}Model")
    found = dict(line.split(maxsplit=1) for line in printed.splitlines() if line[0] in "dp")
    assert float(found["difference"]) <= 1e-5
    assert len(set(found["parameters"].split())) == 1


def test_an_encoder_of_ones_own(tmp_path: Path) -> None:
    """docs/adding.md's section: one file and one line."""
    text = (CHECKOUT / "docs" / "adding.md").read_text(encoding="utf-8")
    section = text.partition("\n## Your own encoder\n")[2].partition("\n## ")[0]
    module, line = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    kind = ("Data2VecText", encoders.ROBERTA, encoders.write_byte_pairs)
    project = make_project(tmp_path / "checkout", kind)
    said = project.minbert("plan", ends=2)
    assert "unknown architecture 'data2vec-text'; known: bert, " in said
    add(project, "architecture", line, "spec/encoders/data2vec.py", module)
    check_parity(project, "Data2VecText")
    assert "shared" in project.minbert("plan")


def test_an_encoder_with_norms_first(tmp_path: Path) -> None:
    """The page's second example."""
    kind = ("RobertaPreLayerNorm", encoders.ROBERTA, encoders.write_byte_pairs)
    project = make_project(tmp_path / "checkout", kind)
    names = (CHECKOUT / "tests" / "prenorm" / "architecture.py").read_text("utf-8")
    add(project, "architecture", PRENORM, "spec/encoders/prenorm.py", names)
    check_parity(project, "RobertaPreLayerNorm")
