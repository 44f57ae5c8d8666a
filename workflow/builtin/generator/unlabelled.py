"""Unlabelled text for pretraining, in the language of the tasks.

Two sentences in a row belong together: they describe the same event in different words, or a film
and how the writer liked it. So masked words, next sentences (Devlin et al., 2019, section 3.1) and
contrasts between sentences teach a model to compare sentences and weigh opinions.
"""

from generator.dice import Dice
from generator.events import QUESTIONS, draw_event, question, statement
from generator.sentiment import Style, graded, opinion, sentence

Item = str | tuple[str, str]

REACTIONS = ("hated", "disliked", "watched", "liked", "loved")
REVIEWERS = ("i", "we", "they", "most people")
PLAINER = Style(detail=0.5, twist=0.5)


def _retold(dice: Dice) -> Item:
    """Return two statements of, or two questions about, the same event."""
    event = draw_event(dice, detail=0.8)
    kind = dice.pick(QUESTIONS) if dice.chance(0.5) else None

    def tell() -> str:
        return statement(dice, event) if kind is None else question(dice, event, kind)

    first = second = tell()
    while second == first:
        second = tell()
    return first, second


def _reaction(dice: Dice) -> Item:
    """Return an opinion of a film and how much the writer liked it."""
    target = dice.below(5)
    text = sentence(dice, graded(dice, target).text)
    return text, f"{dice.pick(REVIEWERS)} {REACTIONS[target]} it ."


def told_apart(second: str) -> str:
    """Return what tells the second sentence of a pair from others: of a reaction, not whose it is.

    "We loved it" is as good a second sentence as "i loved it".
    """
    words = second.split()
    return words[-3] if words[-2:] == ["it", "."] and words[-3] in REACTIONS else second


def _opinions(dice: Dice) -> Item:
    """Return two opinions of one writer, both good or both bad."""
    sign = 1 if dice.chance(0.5) else -1
    first, second = (sentence(dice, opinion(dice, sign, PLAINER).text) for _ in range(2))
    return first, second


def _opinion(dice: Dice) -> Item:
    return sentence(dice, opinion(dice, 1 if dice.chance(0.5) else -1).text)


def unlabelled_text(seed: int, n: int) -> list[Item]:
    """Return `n` unlabelled items: single sentences, and pairs that belong together."""
    dice = Dice(seed, "pretraining")
    kinds = [(_retold, 6.0), (_reaction, 2.5), (_opinions, 0.5), (_opinion, 1.0)]
    return [dice.weighted(kinds)(dice) for _ in range(n)]
