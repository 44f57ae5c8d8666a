"""What the built-in corpus promises: the same everywhere, varied, bounded, free of overlaps."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections import Counter
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from minbert.base.errors import UserError
from minbert.data.builtin import DEFAULT_SIZES, generate
from minbert.data.corpus.pretraining import pretraining_text
from minbert.spec.task import TASKS

# A tenth of the default sizes where texts are long: quick, and enough for the statistics.
SIZES = DEFAULT_SIZES | {task: {"train": 200, "dev": 40, "test": 40} for task in ("cfimdb", "lmrd")}
SMALL = {"train": 30, "dev": 10, "test": 10}

GOLDEN = {
    "sst": "20b0c3bb3dfbe420",
    "para": "db1dd957933e1a54",
    "sts": "a9026bf861b869a3",
    "cfimdb": "4c02e87b9073d673",
    "lmrd": "869cf017993cb295",
}


@cache
def rows(task: str) -> list[dict[str, Any]]:
    return examples(task, 0, SIZES[task])


def examples(task: str, seed: int, sizes: dict[str, int]) -> list[dict[str, Any]]:
    return [example._asdict() for example in generate(task, seed, sizes)]


def texts(row: dict[str, Any]) -> list[str]:
    return [row[name] for name in ("sentence1", "sentence2") if row[name] is not None]


def digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


@pytest.mark.parametrize("task", TASKS)
def test_same_rows_on_any_machine(task: str) -> None:
    assert digest(examples(task, 7, SMALL)) == GOLDEN[task]


def test_same_pretraining_text_on_any_machine() -> None:
    assert digest(pretraining_text(7, 200)) == "99737ae341fb2273"


@pytest.mark.parametrize("task", TASKS)
def test_another_seed_gives_other_text(task: str) -> None:
    mine = {tuple(texts(row)) for row in examples(task, 7, SMALL)}
    assert not mine & {tuple(texts(row)) for row in examples(task, 8, SMALL)}


@pytest.mark.parametrize("task", TASKS)
def test_rows_have_their_split_sizes_and_unique_ids(task: str) -> None:
    assert Counter(row["split"] for row in rows(task)) == SIZES[task]
    assert len({row["id"] for row in rows(task)}) == len(rows(task))
    assert all((row["sentence2"] is not None) == TASKS[task].pair for row in rows(task))


@pytest.mark.parametrize("task", TASKS)
def test_no_text_occurs_twice_in_a_task(task: str) -> None:
    found = Counter(tuple(sorted(t.lower() for t in texts(row))) for row in rows(task))
    assert max(found.values()) == 1


@pytest.mark.parametrize("task", TASKS)
def test_a_larger_train_set_extends_a_smaller_one(task: str) -> None:
    small, large = (examples(task, 7, SMALL | {"train": n}) for n in (10, 30))
    assert [row for row in large if row in small] == small


@pytest.mark.parametrize("task", TASKS)
def test_labels_lie_within_the_task(task: str) -> None:
    known = TASKS[task]
    labels = [row["label"] for row in rows(task)]
    assert all(isinstance(label, float) and known.low <= label <= known.high for label in labels)
    if known.kind != "regression":
        assert all(label.is_integer() for label in labels)


def test_sst_classes_are_as_frequent_as_in_the_real_set() -> None:
    counts = Counter(row["label"] for row in rows("sst"))
    for label, share in enumerate((0.12, 0.25, 0.18, 0.27, 0.18)):
        assert counts[float(label)] / len(rows("sst")) == pytest.approx(share, abs=0.025)


def test_paraphrases_are_as_frequent_as_in_quora() -> None:
    assert statistics.mean(r["label"] for r in rows("para")) == pytest.approx(0.38, abs=0.03)


def test_reviews_are_balanced_and_the_middle_rating_is_empty() -> None:
    assert statistics.mean(r["label"] for r in rows("cfimdb")) == pytest.approx(0.5, abs=0.1)
    ratings = Counter(r["label"] for r in rows("lmrd"))
    assert sorted(ratings) == [0.0, 1.0, 3.0, 4.0]
    assert all(
        count / len(rows("lmrd")) == pytest.approx(0.25, abs=0.1) for count in ratings.values()
    )


def test_similarity_is_real_valued_and_fills_its_range() -> None:
    labels = [row["label"] for row in rows("sts")]
    assert len(set(labels)) > 200
    halves = Counter(min(int(label), 4) for label in labels)
    assert all(halves[step] / len(labels) > 0.08 for step in range(5))


@pytest.mark.parametrize(
    ("task", "mean", "shortest", "longest"),
    [("sst", 19, 3, 41), ("para", 12, 5, 30), ("sts", 11, 5, 25), ("cfimdb", 153, 80, 300),
     ("lmrd", 153, 80, 300)],
)  # fmt: skip
def test_lengths_are_like_the_real_sets(
    task: str, mean: float, shortest: int, longest: int
) -> None:
    lengths = [len(text.split()) for row in rows(task) for text in texts(row)]
    assert statistics.mean(lengths) == pytest.approx(mean, rel=0.06)
    assert shortest <= min(lengths) and max(lengths) <= longest
    assert statistics.stdev(lengths) > 0.18 * mean


def test_vocabulary_has_more_than_a_thousand_words() -> None:
    words = Counter(
        word
        for task in TASKS
        for row in rows(task)
        for text in texts(row)
        for word in text.lower().split()
        if word.isalpha()
    )
    assert sum(count >= 3 for count in words.values()) > 1_000


def test_tasks_share_their_words() -> None:
    vocabularies = [
        {w for row in rows(task) for text in texts(row) for w in text.lower().split()}
        for task in TASKS
    ]
    for one, another in pairwise(vocabularies):
        assert len(one & another) > 0.4 * min(len(one), len(another))


def test_pretraining_text_is_plenty_and_not_the_tasks_own() -> None:
    items = pretraining_text(0, 4_000)
    assert len(items) == 4_000
    assert sum(isinstance(item, tuple) for item in items) > 2_000
    assert all(first != second for first, second in (i for i in items if isinstance(i, tuple)))
    sentences = {s for item in items for s in ([item] if isinstance(item, str) else item)}
    scored = {
        t
        for task in ("sst", "para", "sts")
        for r in rows(task)
        if r["split"] != "train"
        for t in texts(r)
    }
    assert len(sentences & scored) < 0.02 * len(scored)


def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(UserError, match=r"no task 'paar'.*Did you mean 'para'\?"):
        generate("paar", 0, SMALL)
