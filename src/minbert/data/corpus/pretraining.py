"""Unlabelled text to pretrain on: the same language as the tasks', in running discourse.

Consecutive sentences belong together: an event is told again in other words; who has described a
film goes on to say how they liked it. A model that fills in a masked word from the sentence
before, or tells the next sentence from a stray one (Devlin et al., 2019, section 3.1), compares
two sentences and weighs up opinions.
"""

from __future__ import annotations

from minbert.data.corpus.dice import Dice
from minbert.data.corpus.events import draw_event
from minbert.data.corpus.phrasing import QUESTIONS, question, statement
from minbert.data.corpus.sentiment import Style, graded, opinion, sentence

Item = str | tuple[str, str]

REACTIONS = ("hated", "disliked", "watched", "liked", "loved")
REVIEWERS = ("i", "we", "they", "most people")
PLAINER = Style(detail=0.5, twist=0.5)


def _retold(dice: Dice) -> Item:
    """Return an event told, or asked about, twice."""
    event = draw_event(dice, detail=0.8)
    kind = dice.pick(QUESTIONS) if dice.chance(0.5) else None

    def tell() -> str:
        return statement(dice, event) if kind is None else question(dice, event, kind)

    first = second = tell()
    while second == first:
        second = tell()
    return first, second


def _reaction(dice: Dice) -> Item:
    """Return an opinion and how much its writer liked what it is about."""
    target = dice.below(5)
    text = sentence(dice, graded(dice, target).text)
    return text, f"{dice.pick(REVIEWERS)} {REACTIONS[target]} it ."


def _opinions(dice: Dice) -> Item:
    """Return two opinions of one writer, both good or both bad."""
    sign = 1 if dice.chance(0.5) else -1
    first, second = (sentence(dice, opinion(dice, sign, PLAINER).text) for _ in range(2))
    return first, second


def _opinion(dice: Dice) -> Item:
    return sentence(dice, opinion(dice, 1 if dice.chance(0.5) else -1).text)


def pretraining_text(seed: int, n: int) -> list[Item]:
    """Return `n` unlabelled items for masked language modelling: sentences, and related pairs.

    A pair is two sentences that follow each other: the same event told twice, or an opinion and a
    second one, or a reaction, of its writer. The stream is none of those that the tasks' examples
    are drawn from.
    """
    dice = Dice(seed, "pretraining")
    kinds = [(_retold, 6.0), (_reaction, 2.5), (_opinions, 0.5), (_opinion, 1.0)]
    return [dice.weighted(kinds)(dice) for _ in range(n)]
