"""Words alone must not solve the corpus: a linear model of them beats a guess, and stops there."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from minbert.data.builtin import NOISE, generate

SIZES = {"train": 2_500, "dev": 400, "test": 400}
Array = npt.NDArray[np.float32]


def features(rows: list[dict[str, Any]]) -> Array:
    """One column a frequent word: is it there (single), is it in one sentence only (pair)."""
    bags = []
    for row in rows:
        first = set(row["sentence1"].lower().split())
        second = set((row["sentence2"] or "").lower().split())
        bags.append((first ^ second, len(first & second) / len(first | second)))
    counts = Counter(word for words, _ in bags for word in words)
    columns = {word: i for i, word in enumerate(w for w, n in sorted(counts.items()) if n >= 8)}
    x = np.zeros((len(rows), len(columns) + 1), dtype=np.float32)
    for i, (words, overlap) in enumerate(bags):
        x[i, [columns[word] for word in words if word in columns]] = 1
        x[i, -1] = 5 * overlap
    return x


def apart(rows: list[dict[str, Any]]) -> Array:
    """One column a frequent word: in how many of the two sentences it is. No word meets another."""
    bags = [
        Counter([*{*row["sentence1"].lower().split()}, *{*row["sentence2"].lower().split()}])
        for row in rows
    ]
    counts = Counter(word for bag in bags for word in bag)
    columns = {word: i for i, word in enumerate(w for w, n in sorted(counts.items()) if n >= 8)}
    x = np.zeros((len(rows), len(columns)), dtype=np.float32)
    for i, bag in enumerate(bags):
        for word in bag.keys() & columns.keys():
            x[i, columns[word]] = bag[word]
    return x


def ridge(x: Array, y: Array, test: Array, penalty: float = 20.0) -> Array:
    """Return the predictions on `test` of ridge regression of `y` on `x`, with an intercept."""
    mean = x.mean(0)
    gram = (x - mean).T @ (x - mean) + penalty * np.eye(x.shape[1], dtype=np.float32)
    weights = np.linalg.solve(gram, (x - mean).T @ (y - y.mean(0)))
    return np.asarray((test - mean) @ weights + y.mean(0))


@pytest.mark.parametrize(("task", "gain", "gap"), [("sst", 0.1, 0.25), ("para", 0.04, 0.15)])
def test_words_alone_beat_a_guess_and_stay_far_below_the_ceiling(
    task: str, gain: float, gap: float
) -> None:
    rows = [example._asdict() for example in generate(task, 0, SIZES)]
    x, labels = features(rows), np.array([int(row["label"]) for row in rows])
    train = np.array([row["split"] == "train" for row in rows])
    one_hot = np.eye(5, dtype=np.float32)[labels]
    predicted = ridge(x[train], one_hot[train], x[~train]).argmax(1)
    accuracy = float((predicted == labels[~train]).mean())
    majority = np.bincount(labels[~train]).max() / (~train).sum()
    assert majority + gain < accuracy < 1 - NOISE[task] - gap


def test_single_questions_tell_of_the_label_what_they_tell_of_quoras() -> None:
    """On the course's split of Quora: .73 of dev, of which .61 are of one class."""
    rows = [example._asdict() for example in generate("para", 0, SIZES)]
    x, labels = apart(rows), np.array([row["label"] for row in rows], dtype=np.float32)
    train = np.array([row["split"] == "train" for row in rows])
    accuracy = float(
        ((ridge(x[train], labels[train], x[~train], 100) > 0.5) == labels[~train]).mean()
    )
    majority = max(labels[~train].mean(), 1 - labels[~train].mean())
    assert majority + 0.05 < accuracy < 0.78


def test_single_statements_tell_of_the_similarity_what_they_tell_of_sts_bs() -> None:
    """On the course's files: r = .34."""
    rows = [example._asdict() for example in generate("sts", 0, SIZES)]
    x, labels = apart(rows), np.array([row["label"] for row in rows], dtype=np.float32)
    train = np.array([row["split"] == "train" for row in rows])
    predicted = ridge(x[train], labels[train], x[~train], 100)
    assert 0.25 < float(np.corrcoef(predicted, labels[~train])[0, 1]) < 0.45


def test_shared_words_alone_do_not_give_the_similarity() -> None:
    rows = [example._asdict() for example in generate("sts", 0, {"train": 1_000})]
    overlap, labels = features(rows)[:, -1], np.array([row["label"] for row in rows])
    assert 0.5 < float(np.corrcoef(overlap, labels)[0, 1]) < 0.85
