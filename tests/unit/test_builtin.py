"""The built-in corpus and backbone: that make.py makes them again, and what they promise."""

from __future__ import annotations

import statistics
from collections import Counter
from pathlib import Path

import make
import numpy as np
import pytest
from generator import events, sentiment, words
from generator.dice import Dice
from generator.pairs import similarity
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
        found = read_dataset(spec, paths)
        assert not found.rejected
        corpus[task] = found.examples
    return corpus


def test_make_gives_the_files_of_the_corpus_byte_for_byte(tmp_path: Path) -> None:
    make.main(["corpus", str(tmp_path)])
    ours = {path.name: path.read_bytes() for path in CORPUS.glob("*.csv")}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == ours
    assert len(ours) == 15


def test_make_gives_a_backbone_in_a_few_steps(tmp_path: Path) -> None:
    recipe = Recipe(300, steps=30, batch=16, lr=1e-2, vocabulary=400, layers=1, hidden=32)
    weights = []
    for number, seed in enumerate((0, 0, 1)):
        write_backbone(tmp_path / str(number), recipe, seed)
        weights.append((tmp_path / str(number) / "model.safetensors").read_bytes())
    assert weights[0] == weights[1] != weights[2]
    names = {path.name for path in (tmp_path / "0").iterdir()}
    assert names == {path.name for path in BACKBONE.iterdir()}
    arch = convert_hugging_face(tmp_path / "0", tmp_path / "ours")
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


def test_a_vocabulary_too_small_for_the_characters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a vocabulary of 20 entries is too small"):
        train_vocabulary(["a chef"], 20, tmp_path / "tokenizer.json")


@pytest.mark.parametrize(
    ("task", "shares", "words", "shortest", "longest"),
    [
        ("sst", {0: 0.12, 1: 0.25, 2: 0.18, 3: 0.27, 4: 0.18}, 19, 3, 41),
        ("para", {0: 0.62, 1: 0.38}, 12, 5, 30),
        ("sts", {}, 11, 5, 25),
        ("cfimdb", {0: 0.5, 1: 0.5}, 153, 80, 300),
        ("lmrd", {0: 0.25, 1: 0.25, 3: 0.25, 4: 0.25}, 153, 80, 300),
    ],
)
def test_labels_and_lengths_are_like_the_real_sets(
    corpus: dict[str, list[Example]],
    task: str,
    shares: dict[int, float],
    words: float,
    shortest: int,
    longest: int,
) -> None:
    rows = corpus[task]
    labels = Counter(row.label for row in rows)
    for label, share in shares.items():
        assert labels[float(label)] / len(rows) == pytest.approx(share, abs=0.07)
    assert sum(labels[float(label)] for label in shares) == len(rows) or not shares
    texts = [text for row in rows for text in (row.sentence1, row.sentence2) if text]
    lengths = [len(text.split()) for text in texts]
    assert statistics.mean(lengths) == pytest.approx(words, rel=0.08)
    assert shortest <= min(lengths) and max(lengths) <= longest
    pairs = [tuple(sorted(t.lower() for t in (r.sentence1, r.sentence2) if t)) for r in rows]
    assert len(set(pairs)) == len(rows), "no text occurs twice"


def test_shared_words_tell_of_similarity_and_do_not_give_it_away(
    corpus: dict[str, list[Example]],
) -> None:
    sets = [[set(str(t).split()) for t in (r.sentence1, r.sentence2)] for r in corpus["sts"]]
    shared = [len(one & two) / len(one | two) for one, two in sets]
    labels = [float(row.label or 0) for row in corpus["sts"]]
    assert 0.5 < float(np.corrcoef(shared, labels)[0, 1]) < 0.85
    assert len(set(labels)) > 200


def test_words_mean_one_thing_and_have_their_forms() -> None:
    nouns = [w for c in (*words.PEOPLE, *words.THINGS, *words.PLACES) for w in c.words]
    opinions = [word for grade in sentiment.ADJECTIVES.values() for word in grade]
    for each in (nouns, opinions):
        assert len(each) == len(set(each))
    assert all(word in words.VERBS for action in words.ACTIONS for word in action.words)
    forms = {
        "carry": ("carries", "carried", "carried", "carrying"),
        "hug": ("hugs", "hugged", "hugged", "hugging"),
        "drive": ("drives", "drove", "driven", "driving"),
    }
    for base, wanted in forms.items():
        found = words.verb(base)
        assert (found.third, found.past, found.participle, found.ing) == wanted


def test_meaning_decides_the_label() -> None:
    for number in range(100):
        one, two = (events.draw_event(Dice(name, number)) for name in "ab")
        assert similarity(one, one) == 5.0
        assert 0.0 <= similarity(one, two) == similarity(two, one) <= 5.0
        target = number % 5
        graded = sentiment.graded(Dice("graded", number), target)
        assert sentiment.level(graded.value) == target
