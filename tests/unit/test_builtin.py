"""The built-in corpus and backbone: make.py makes them again."""

from __future__ import annotations

from pathlib import Path

import make
from generator.pretrain import Recipe, write_backbone

from minbert.model.hugging_face import convert_hugging_face

WORKFLOW = Path(__file__).parents[2] / "workflow"
CORPUS, BACKBONE = WORKFLOW / "builtin", WORKFLOW / "backbone"


def test_make_gives_the_files_of_the_corpus_byte_for_byte(tmp_path: Path) -> None:
    make.main(["corpus", str(tmp_path)])
    ours = {path.name: path.read_bytes() for path in CORPUS.glob("*.csv")}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == ours
    assert len(ours) == 15


def test_make_gives_a_backbone_in_a_few_steps(tmp_path: Path) -> None:
    recipe = Recipe(300, steps=4, batch=16, lr=1e-2, vocabulary=400, layers=1, hidden=32)
    made = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        write_backbone(folder, recipe, 0)
        made.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert made[0] == made[1] and made[0].keys() == {path.name for path in BACKBONE.iterdir()}
    arch = convert_hugging_face(tmp_path / "one", tmp_path / "ours")
    assert (arch.layers, arch.hidden, arch.vocab_size) == (1, 32, 400)
