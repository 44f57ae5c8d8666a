"""Sentences of opinion whose sentiment is composed, in the sense of Socher et al. (2013, SST).

An opinion word has a grade (1 mild, 2 strong, below 0 when bad); a degree word multiplies it, a
negation turns it round and weakens it; clauses joined by `and` are averaged; of contrasted ones
the main clause outweighs the other. So the words alone do not tell: many good words stand in bad
sentences, and the other way round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from minbert.data.corpus import opinions as o
from minbert.data.corpus.dice import Dice
from minbert.data.corpus.events import draw_event, draw_place
from minbert.data.corpus.phrasing import join, noun_phrase, plot, statement, word
from minbert.data.corpus.words import PEOPLE, article

NEGATED = 0.2
MINOR = 0.15
BOUNDS = (-1.2, -0.4, 0.4, 1.2)
MARGIN = 0.08
LONGEST = 40


class Opinion(NamedTuple):
    """A piece of text and its sentiment, about -2.8 to 2.8."""

    text: str
    value: float


class Style(NamedTuple):
    """How sentences are made: `detail` scales how much plot, `twist` how often they turn round."""

    detail: float = 1.0
    twist: float = 1.0

    def negates(self, dice: Dice) -> bool:
        """Draw whether an opinion is put as the negation of its opposite."""
        return dice.chance(NEGATED * self.twist)


PLAIN = Style()


def level(value: float) -> int | None:
    """Return the class 0 to 4 of a sentiment, or None if it lies too near a bound to tell."""
    if any(abs(value - bound) < MARGIN for bound in BOUNDS):
        return None
    return sum(value > bound for bound in BOUNDS)


def _grade(dice: Dice, sign: int) -> int:
    return sign * (2 if dice.chance(0.5) else 1)


def _degree(dice: Dice, negated: bool) -> tuple[str | None, float]:
    """Return a degree word and its factor; what is negated is not weakened as well."""
    kind = dice.weighted([("none", 5), ("stronger", 2.5), ("weaker", 0 if negated else 2.5)])
    if kind == "none":
        return None, 1.0
    if kind == "stronger":
        return dice.common(o.STRONGER), o.DEGREE_STRONGER
    return dice.common(o.WEAKER), o.DEGREE_WEAKER


def described(dice: Dice, sign: int, negated: bool) -> Opinion:
    """Return an adjective with or without a degree word: `very charming`."""
    grade = _grade(dice, sign)
    degree, factor = _degree(dice, negated)
    return Opinion(join(degree, dice.common(o.ADJECTIVES[grade])), grade * factor)


def subject(dice: Dice, detail: float) -> str:
    """Return what an opinion is about: `the plot`, `this western about a chef who ...`."""
    kind = dice.weighted([("aspect", 4), ("of", 2), ("genre", 2), ("about", 4 * detail)])
    aspect, genre = dice.common(o.ASPECTS), dice.common(o.GENRES)
    if kind == "aspect":
        return f"the {aspect}"
    if kind == "of":
        return f"the {aspect} of this {genre}"
    if kind == "genre":
        return f"this {genre}"
    return f"this {genre} about {_plot(dice, detail)}"


def _plot(dice: Dice, detail: float) -> str:
    if dice.chance(0.25):
        return noun_phrase(dice, dice.common(PEOPLE), None)
    return plot(dice, draw_event(dice, detail=detail))


def _copular(dice: Dice, sign: int, style: Style) -> Opinion:
    about = subject(dice, style.detail)
    if style.negates(dice):
        negation, factor = dice.pick(o.NOT_ADJECTIVE)
        text, value = described(dice, -sign, negated=True)
        return Opinion(join(about, "is", negation, text), value * factor)
    text, value = described(dice, sign, negated=False)
    return Opinion(join(about, "is", text), value)


def _verbal(dice: Dice, sign: int, style: Style) -> Opinion:
    about, whom = subject(dice, style.detail), dice.common(o.AUDIENCES)
    if style.negates(dice):
        negation, factor = dice.pick(o.NOT_VERB)
        grade = _grade(dice, -sign)
        return Opinion(join(about, negation, dice.pick(o.VERBS[grade]), whom), grade * factor)
    grade = _grade(dice, sign)
    return Opinion(join(about, "will", dice.pick(o.VERBS[grade]), whom), float(grade))


def _nominal(dice: Dice, sign: int, style: Style) -> Opinion:
    about = subject(dice, style.detail)
    if style.negates(dice):
        phrase, factor = dice.pick(o.HAS_NO_NOUN)
        grade = _grade(dice, -sign)
        return Opinion(join(about, phrase, dice.pick(o.NOUNS[grade])), grade * factor)
    grade = _grade(dice, sign)
    return Opinion(join(about, dice.pick(o.HAS_NOUN), dice.pick(o.NOUNS[grade])), float(grade))


def _fragment(dice: Dice, sign: int, style: Style) -> Opinion:
    genre = dice.common(o.GENRES)
    if dice.chance(0.4 * style.detail):
        genre = f"{genre} about {_plot(dice, style.detail)}"
    if style.negates(dice):
        negation, factor = dice.pick(o.NOT_ADJECTIVE)
        text, value = described(dice, -sign, negated=True)
        return Opinion(join(negation, article(text), text, genre), value * factor)
    text, value = described(dice, sign, negated=False)
    return Opinion(join(article(text), text, genre), value)


def clause(dice: Dice, sign: int, style: Style = PLAIN, whole: bool = True) -> Opinion:
    """Return one clause that is good (`sign` 1) or bad (-1); plot and turns as in `style`.

    One that need not be `whole` may have no verb: `a truly charming western`.
    """
    kinds: list[tuple[Callable[[Dice, int, Style], Opinion], float]] = [
        (_copular, 4),
        (_verbal, 2.5),
        (_nominal, 2),
        (_fragment, 0 if whole else 3),
    ]
    return dice.weighted(kinds)(dice, sign, style)


def _opening(dice: Dice) -> str:
    place, genre = draw_place(dice), dice.common(o.GENRES)
    where = f"{place.group} {word(dice, place)}"
    who = noun_phrase(dice, dice.common(PEOPLE), None)
    return dice.pick(
        (
            f"set {where} ,",
            f"as {article(genre)} {genre} ,",
            f"as a story of {who} ,",
            "in its own way ,",
            "from the first scene to the last ,",
            f"shot {where} ,",
        )
    )


def opinion(dice: Dice, sign: int, style: Style = PLAIN) -> Opinion:
    """Return a sentence, without its full stop, whose sentiment has the sign given."""
    turns = style.twist
    form = dice.weighted(
        [
            ("single", 2.5),
            ("and", 2.5),
            ("but", 1.8 * turns),
            ("although", 1.0 * turns),
            ("main first", 0.7 * turns),
        ]
    )
    whole = form != "single" or dice.chance(0.5)
    main = clause(dice, sign, style, whole)
    text, value = main
    if form != "single":
        second = clause(dice, sign if form == "and" else -sign, style)
        value += MINOR * second.value
    if form == "and":
        text = join(text, dice.pick(("and", ", and", ";")), second.text)
        value = (main.value + second.value) / 2
    elif form == "but":
        text = join(second.text, dice.pick((", but", "but", ", yet", "; still ,")), text)
    elif form == "although":
        text = join(dice.pick(("although", "while", "even if")), second.text, ",", text)
    elif form == "main first":
        text = join(text, dice.pick((", although", ", even if")), second.text)
    if whole and dice.chance(0.35 * style.detail):
        text = join(_opening(dice), text)
    if dice.chance(0.25 * style.detail):
        text = join(text, ", featuring", _plot(dice, style.detail))
    return Opinion(text, value)


def neutral(dice: Dice) -> Opinion:
    """Return a sentence without an opinion, or with two that cancel out."""
    if dice.chance(0.55):
        genre = dice.common(o.GENRES)
        if dice.chance(0.5):
            start = dice.pick((f"this {genre} is about", f"the {genre} follows", "we meet"))
            return Opinion(join(start, plot(dice, draw_event(dice))), 0.0)
        text = statement(dice, draw_event(dice)).removesuffix(" .")
        return Opinion(join(f"in this {genre} ,", text), 0.0)
    sign = 1 if dice.chance(0.5) else -1
    grade = 2 if dice.chance(0.5) else 1
    a, b = dice.common(o.ADJECTIVES[sign * grade]), dice.common(o.ADJECTIVES[-sign * grade])
    both = dice.pick((f"by turns {a} and {b}", f"half {a} , half {b}", f"as {a} as it is {b}"))
    return Opinion(join(subject(dice, 1.0), "is", both), 0.0)


def graded(dice: Dice, target: int) -> Opinion:
    """Return a sentence of class `target` (0 to 4), at most `LONGEST` words long."""
    while True:
        found = neutral(dice) if target == 2 else opinion(dice, 1 if target > 2 else -1)
        if level(found.value) == target and len(found.text.split()) < LONGEST:
            return found


def sentence(dice: Dice, text: str) -> str:
    """Return `text` as a sentence: a capital, and a full stop or, rarely, another mark."""
    return f"{text[0].upper()}{text[1:]} {dice.weighted([('.', 9), ('!', 0.7), ('...', 0.3)])}"
