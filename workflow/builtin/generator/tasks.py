"""The tasks of the built-in corpus: generated English with something to learn in each."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from generator.dice import Dice
from generator.pairs import paraphrase_pair, similar_pair
from generator.sentiment import Style, clause, graded, neutral, opinion, sentence

SIZES: dict[str, dict[str, int]] = {
    "sst": {"train": 1200, "dev": 300, "test": 200},
    "para": {"train": 2600, "dev": 600, "test": 200},
    "sts": {"train": 800, "dev": 500, "test": 200},
    "cfimdb": {"train": 240, "dev": 80, "test": 80},
    "lmrd": {"train": 240, "dev": 160, "test": 80},
}

# Label noise, so that no model scores 1.0: the share of wrong labels; for sts a deviation.
NOISE = {"sst": 0.09, "para": 0.05, "sts": 0.3, "cfimdb": 0.03, "lmrd": 0.08}
# Shares before noise, which moves some to a neighbour and leaves about 12 / 25 / 18 / 27 / 18 %.
_SST_CLASSES = [(0, 0.118), (1, 0.257), (2, 0.172), (3, 0.273), (4, 0.18)]

# Words of a review.
SHORTEST, LONGEST = 80, 300
# Fewer turns than in single sentences: a long review is hard enough.
REVIEW = Style(detail=0.7, twist=0.4)
BARE = Style(detail=0.0, twist=0.4)
# A verdict sums up the review and counts as much as this many sentences.
VERDICT = 3.0
VERDICTS = ("overall ,", "in the end ,", "all in all ,", "to sum up ,", "in short ,")
# Between the mean sentiments of ratings 1 to 10; 5 and 6 are neither good nor bad.
RATING_BOUNDS = (-1.05, -0.75, -0.45, -0.15, 0.0, 0.15, 0.45, 0.75, 1.05)

Drawn = tuple[str, str | None, float]
"""One or two sentences and a label."""


def _neighbour(dice: Dice, label: int, classes: tuple[int, ...]) -> int:
    """Return the class before or after `label` in `classes`."""
    at = classes.index(label)
    return dice.pick([classes[i] for i in (at - 1, at + 1) if 0 <= i < len(classes)])


def _sst(dice: Dice) -> Drawn:
    label = dice.weighted(_SST_CLASSES)
    text = sentence(dice, graded(dice, label).text)
    if dice.chance(NOISE["sst"]):
        label = _neighbour(dice, label, (0, 1, 2, 3, 4))
    return text, None, float(label)


def _para(dice: Dice) -> Drawn:
    first, second, label = paraphrase_pair(dice)
    return first, second, float(label ^ dice.chance(NOISE["para"]))


def _sts(dice: Dice) -> Drawn:
    first, second, score = similar_pair(dice)
    return first, second, round(min(5.0, max(0.0, score + dice.gauss(NOISE["sts"]))), 2)


def _draft(dice: Dice, tone: float, words: int) -> tuple[str, float]:
    """Return a review of about `words` words, a share `tone` of it good, and its mean sentiment."""
    sentences: list[str] = []
    total, weight, length = 0.0, 0.0, 0
    while length < words:
        if dice.chance(0.2):
            text, value = neutral(dice)
        else:
            text, value = opinion(dice, 1 if dice.chance(tone) else -1, REVIEW)
            weight += 1
        total += value
        sentences.append(sentence(dice, text))
        length += len(sentences[-1].split())
    if dice.chance(0.7):
        text, value = clause(dice, 1 if dice.chance(tone) else -1, BARE)
        total += VERDICT * value
        weight += VERDICT
        verdict = sentence(dice, f"{dice.pick(VERDICTS)} {text}")
        sentences.insert(0 if dice.chance(0.15) else len(sentences), verdict)
    return " ".join(sentences), total / max(weight, 1.0)


def _review(dice: Dice, groups: tuple[tuple[int, ...], ...]) -> tuple[str, int]:
    """Return a review of 80 to 300 words and its rating; `groups` are equally likely classes."""
    wanted = dice.pick(groups)
    tone = 0.1 + 0.8 * (sum(wanted) / len(wanted) - 1) / 9
    while True:
        text, mean = _draft(dice, tone, 90 + int(dice.uniform() * dice.uniform() * 180))
        rating = 1 + sum(mean > bound for bound in RATING_BOUNDS)
        if rating in wanted and SHORTEST <= len(text.split()) <= LONGEST:
            return text, rating


def _cfimdb(dice: Dice) -> Drawn:
    text, rating = _review(dice, ((1, 2, 3, 4), (7, 8, 9, 10)))
    return text, None, float((rating > 5) ^ dice.chance(NOISE["cfimdb"]))


def _lmrd(dice: Dice) -> Drawn:
    text, rating = _review(dice, ((1, 2), (3, 4), (7, 8), (9, 10)))
    label = (rating - 1) // 2
    if dice.chance(NOISE["lmrd"]):
        label = _neighbour(dice, label, (0, 1, 3, 4))
    return text, None, float(label)


_MAKERS = {"sst": _sst, "para": _para, "sts": _sts, "cfimdb": _cfimdb, "lmrd": _lmrd}


class Row(NamedTuple):
    """One example of a split."""

    id: str
    sentence1: str
    sentence2: str | None
    label: float


def generate(task: str, seed: int, sizes: Mapping[str, int]) -> dict[str, list[Row]]:
    """Return the rows of `task` by split; `sizes` gives their number.

    Test rows have labels too. No text occurs twice in a task. Test and dev are drawn first, so they
    do not depend on the size of train.
    """
    seen: set[tuple[str, ...]] = set()
    return {
        split: list(_rows(task, split, seed, sizes.get(split, 0), seen))
        for split in ("test", "dev", "train")
    }


def _rows(task: str, split: str, seed: int, size: int, seen: set[tuple[str, ...]]) -> Iterator[Row]:
    """Yield `size` rows whose texts are not `seen` yet."""
    dice = Dice(seed, task, split)
    made = 0
    while made < size:
        drawn = _MAKERS[task](dice)
        text = tuple(sorted(s.lower() for s in drawn[:2] if s is not None))
        if text not in seen:
            seen.add(text)
            yield Row(f"{task}-{split}-{made:05d}", *drawn)
            made += 1
