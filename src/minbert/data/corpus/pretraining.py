"""Unlabelled text to pretrain on: the same language as the tasks', in running discourse.

What people write tells its own tale: who restates an event says `indeed`, who goes on to another
says `meanwhile`, and who has described a film says whether they loved it. A model that fills in
such a word, when it is masked, has compared two sentences or weighed up an opinion.
"""

from __future__ import annotations

from minbert.data.corpus.dice import Dice
from minbert.data.corpus.events import draw_event
from minbert.data.corpus.pairs import drifted
from minbert.data.corpus.phrasing import QUESTIONS, question, statement
from minbert.data.corpus.sentiment import Style, graded, opinion, sentence

Item = str | tuple[str, str]

SAME = ("indeed", "again")
OTHER = ("meanwhile", "instead")
REACTIONS = ("hated", "disliked", "watched", "liked", "loved")
REVIEWERS = ("i", "we", "they", "most people")
PLAINER = Style(detail=0.5, twist=0.5)


def _events(dice: Dice) -> Item:
    """Return an event and, as often as not, the same event in other words."""
    event = draw_event(dice, detail=0.8)
    same = dice.chance(0.5)
    other = event
    while not same and other == event:
        other = drifted(dice, event, 0.6) if dice.chance(0.6) else draw_event(dice, detail=0.8)
    if dice.chance(0.5):
        first = second = statement(dice, event)
        while second == first:
            second = statement(dice, other)
    else:
        kind = dice.pick(QUESTIONS)
        first = second = question(dice, event, kind)
        while second == first:
            second = question(dice, other, kind)
    if dice.chance(0.8):
        second = f"{dice.pick(SAME if same else OTHER)} , {second}"
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

    A pair is two statements or questions, the same event told twice or another one; or an opinion
    and a second one, or a reaction, of its writer. The stream is none of those that the tasks'
    examples are drawn from.
    """
    dice = Dice(seed, "pretraining")
    kinds = [(_events, 5.0), (_reaction, 3.0), (_opinions, 1.5), (_opinion, 0.5)]
    return [dice.weighted(kinds)(dice) for _ in range(n)]
