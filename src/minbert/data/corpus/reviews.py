"""Long reviews: sentences of mixed opinion, and the rating that they add up to."""

from __future__ import annotations

from minbert.data.corpus.dice import Dice
from minbert.data.corpus.sentiment import Style, clause, neutral, opinion, sentence

SHORTEST, LONGEST = 80, 300
# Many plain sentences and some that turn: a review is long enough to be hard without more.
STYLE = Style(detail=0.7, twist=0.4)
BARE = Style(detail=0.0, twist=0.4)
# A verdict says what the reviewer thinks of the whole; it counts as much as this many sentences.
VERDICT = 3.0
VERDICTS = ("overall ,", "in the end ,", "all in all ,", "to sum up ,", "in short ,")


def _rating(mean: float) -> int:
    """Return 1 to 10 for a mean sentiment; 5 and 6 are for those that are neither."""
    steps = (-1.05, -0.75, -0.45, -0.15, 0.0, 0.15, 0.45, 0.75, 1.05)
    return 1 + sum(mean > step for step in steps)


def _draft(dice: Dice, tone: float, words: int) -> tuple[str, float]:
    """Return a review about `words` long and its mean sentiment; `tone` is its share of good."""
    sentences: list[str] = []
    total, weight, length = 0.0, 0.0, 0
    while length < words:
        if dice.chance(0.2):
            text, value = neutral(dice)
        else:
            text, value = opinion(dice, 1 if dice.chance(tone) else -1, STYLE)
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


def review(dice: Dice, groups: tuple[tuple[int, ...], ...]) -> tuple[str, int]:
    """Return a review of 80 to 300 words and its rating, 1 to 10.

    `groups` are ratings that share a class; each class is as likely as another.
    """
    wanted = dice.pick(groups)
    tone = 0.1 + 0.8 * (sum(wanted) / len(wanted) - 1) / 9
    while True:
        text, mean = _draft(dice, tone, 90 + int(dice.uniform(0, 1) * dice.uniform(0, 1) * 180))
        rating = _rating(mean)
        if rating in wanted and SHORTEST <= len(text.split()) <= LONGEST:
            return text, rating
