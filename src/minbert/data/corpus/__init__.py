"""The built-in corpus: generated English with something to learn, for every task.

All tasks speak of one small world in the same words and frames, so that what one teaches helps
the others. Everything is drawn from streams that the seed, task and split name: the same seed
gives the same text on any machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from minbert.common.errors import UserError, nearest
from minbert.data.corpus.dice import Dice
from minbert.data.corpus.pairs import paraphrase_pair, similar_pair
from minbert.data.corpus.pretraining import pretraining_text
from minbert.data.corpus.reviews import review
from minbert.data.corpus.sentiment import graded, sentence

__all__ = ["DEFAULT_SIZES", "SPLITS", "generate", "pretraining_text"]

SPLITS = ("train", "dev", "test")

DEFAULT_SIZES: dict[str, dict[str, int]] = {
    "sst": {"train": 3000, "dev": 600, "test": 600},
    "para": {"train": 4500, "dev": 800, "test": 800},
    "sts": {"train": 1800, "dev": 500, "test": 500},
    "cfimdb": {"train": 800, "dev": 200, "test": 200},
    "lmrd": {"train": 1000, "dev": 200, "test": 200},
}

# Wrong labels, so that no model scores 1.0: shares of examples, or a standard deviation (sts).
NOISE = {"sst": 0.09, "para": 0.05, "sts": 0.3, "cfimdb": 0.03, "lmrd": 0.08}
# Before noise; what it moves between neighbours leaves about 12 / 25 / 18 / 27 / 18 %.
_SST_CLASSES = [(0, 0.118), (1, 0.257), (2, 0.172), (3, 0.273), (4, 0.18)]


class _Example(NamedTuple):
    sentence1: str
    sentence2: str | None
    label: float


def _neighbour(dice: Dice, label: int, classes: tuple[int, ...]) -> int:
    """Return the class before or after `label` in `classes`."""
    at = classes.index(label)
    return dice.pick([classes[i] for i in (at - 1, at + 1) if 0 <= i < len(classes)])


def _sst(dice: Dice) -> _Example:
    label = dice.weighted(_SST_CLASSES)
    text = sentence(dice, graded(dice, label).text)
    if dice.chance(NOISE["sst"]):
        label = _neighbour(dice, label, (0, 1, 2, 3, 4))
    return _Example(text, None, float(label))


def _para(dice: Dice) -> _Example:
    first, second, label = paraphrase_pair(dice)
    return _Example(first, second, float(label ^ dice.chance(NOISE["para"])))


def _sts(dice: Dice) -> _Example:
    first, second, score = similar_pair(dice)
    return _Example(first, second, round(min(5.0, max(0.0, score + dice.gauss(NOISE["sts"]))), 2))


def _cfimdb(dice: Dice) -> _Example:
    text, rating = review(dice, ((1, 2, 3, 4), (7, 8, 9, 10)))
    return _Example(text, None, float((rating > 5) ^ dice.chance(NOISE["cfimdb"])))


def _lmrd(dice: Dice) -> _Example:
    text, rating = review(dice, ((1, 2), (3, 4), (7, 8), (9, 10)))
    label = (rating - 1) // 2
    if dice.chance(NOISE["lmrd"]):
        label = _neighbour(dice, label, (0, 1, 3, 4))
    return _Example(text, None, float(label))


_MAKERS: dict[str, Callable[[Dice], _Example]] = {
    "sst": _sst,
    "para": _para,
    "sts": _sts,
    "cfimdb": _cfimdb,
    "lmrd": _lmrd,
}


def generate(task: str, seed: int, sizes: dict[str, int]) -> list[dict[str, Any]]:
    """Return the examples of `task`: `sizes` says how many for train, dev and test.

    An example has `id`, `split`, `sentence1`, `sentence2` (None for one sentence) and `label`, a
    float within the task's bounds; test labels are given too. No text occurs twice in a task.
    Test and dev are drawn before train, so that another size of train leaves them as they are, and
    a larger train set begins with the smaller one.

    Raises:
        UserError: the task or a split is unknown, or a size is below 0.
    """
    if task not in _MAKERS:
        raise UserError(
            f"the built-in corpus has no task '{task}'; it has: {', '.join(_MAKERS)}."
            f"{nearest(task, _MAKERS)}"
        )
    for split, size in sizes.items():
        if split not in SPLITS:
            raise UserError(
                f"sizes of the built-in corpus: unknown split '{split}' for task '{task}'; "
                f"splits are {', '.join(SPLITS)}.{nearest(split, SPLITS)}"
            )
        if size < 0:
            raise UserError(
                f"sizes of the built-in corpus: task '{task}', split '{split}' has {size} "
                "examples; give 0 or more"
            )
    seen: dict[tuple[str, ...], None] = {}
    rows: dict[str, list[dict[str, Any]]] = {}
    for split in ("test", "dev", "train"):
        dice = Dice(seed, task, split)
        rows[split] = []
        while len(rows[split]) < sizes.get(split, 0):
            example = _MAKERS[task](dice)
            text = tuple(sorted(s.lower() for s in example[:2] if s is not None))
            if text not in seen:
                seen[text] = None
                name = f"{task}-{split}-{len(rows[split]):05d}"
                rows[split].append({"id": name, "split": split, **example._asdict()})
    return [row for split in SPLITS for row in rows[split]]
