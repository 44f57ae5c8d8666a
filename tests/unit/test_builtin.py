"""The built-in corpus and backbone: make.py makes them again, and the reader reads all of it."""

from __future__ import annotations

from pathlib import Path

import make
import pytest
from generator.pretrain import Recipe, write_backbone
from generator.unlabelled import unlabelled_text
from generator.vocabulary import train_vocabulary
from tokenizers import Tokenizer

from minbert.data.dataset import read_dataset
from minbert.data.examples import Example
from minbert.model.convert import convert_hugging_face
from minbert.spec.protocol import SPLITS
from minbert.spec.task import BUILT_IN

WORKFLOW = Path(__file__).parents[2] / "workflow"
CORPUS, BACKBONE = WORKFLOW / "builtin", WORKFLOW / "backbone"


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[Example]]:
    """The examples of each task, as they are read for a run."""
    corpus = {}
    for task in make.FILES:
        entry = BUILT_IN[task]
        paths = {split: CORPUS / getattr(entry.files, split).path for split in SPLITS}
        spec = {"task": task, "forms": dict.fromkeys(SPLITS, "tsv"), **entry.reading}
        corpus[task], rejected = read_dataset(spec, paths)
        assert not rejected
    return corpus


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


def test_the_backbones_tokenizer_is_the_recipes_and_knows_the_corpus(
    corpus: dict[str, list[Example]], tmp_path: Path
) -> None:
    items = unlabelled_text(make.SEED, Recipe().texts)
    texts = [text for item in items for text in ([item] if isinstance(item, str) else item)]
    train_vocabulary(texts, Recipe().vocabulary, tmp_path / "tokenizer.json")
    made = (tmp_path / "tokenizer.json").read_bytes()
    assert made == (BACKBONE / "tokenizer.json").read_bytes()
    tokenizer = Tokenizer.from_file(str(BACKBONE / "tokenizer.json"))
    rows = [row.sentence1 for task in ("sst", "para", "sts") for row in corpus[task]]
    pieces = [tokenizer.encode(text, add_special_tokens=False).tokens for text in rows]
    assert not any("[UNK]" in found for found in pieces)
    assert sum(map(len, pieces)) < 1.1 * sum(len(text.split()) for text in rows)
    assert len(set(texts).intersection(rows)) < 0.02 * len(rows), "not the tasks' own text"
