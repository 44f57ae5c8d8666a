"""Events put into words in many ways: synonyms, active and passive, order of phrases."""

from __future__ import annotations

from dataclasses import dataclass

from minbert.data.corpus.dice import Dice
from minbert.data.corpus.events import Event
from minbert.data.corpus.verbs import VERBS, Verb
from minbert.data.corpus.words import NUMBERS, Concept, article, plural


def word(dice: Dice, concept: Concept) -> str:
    """Return a word for `concept`: its usual one, or a synonym."""
    return concept.words[0] if dice.chance(0.65) else dice.pick(concept.words)


def noun_phrase(
    dice: Dice, noun: Concept, trait: Concept | None, count: int = 1, definite: bool = False
) -> str:
    """Return `a big dog`, `the hound` or `three small dogs`."""
    name = word(dice, noun)
    if count > 1:
        name = plural(name)
    if trait is not None:
        name = f"{word(dice, trait)} {name}"
    if count > 1:
        return f"{NUMBERS[count - 2]} {name}"
    return f"the {name}" if definite else f"{article(name)} {name}"


@dataclass(frozen=True)
class Wording:
    """The words chosen for an event, ready to be put in an order."""

    agent: str
    patient: str
    verb: Verb
    several: bool
    negated: bool
    manner: str | None
    tail: tuple[str, ...]

    @property
    def negation(self) -> str | None:
        """`not` or nothing."""
        return "not" if self.negated else None

    def be(self, singular: str, many: str) -> str:
        """Return the form of `to be` that agrees with the patient."""
        return many if self.several else singular


def choose_words(dice: Dice, event: Event, definite: bool = False) -> Wording:
    """Choose the words for `event`: synonyms, and the order of place and time."""
    tail = [f"{c.group} {word(dice, c)}" for c in (event.place, event.time) if c is not None]
    if dice.chance(0.5):
        tail.reverse()
    return Wording(
        agent=noun_phrase(dice, event.agent, event.agent_trait, definite=definite),
        patient=noun_phrase(dice, event.patient, event.patient_trait, event.count, definite),
        verb=VERBS[word(dice, event.action)],
        several=event.count > 1,
        negated=event.negated,
        manner=None if event.manner is None else word(dice, event.manner),
        tail=tuple(tail),
    )


def join(*parts: str | None) -> str:
    """Join the parts that there are by spaces."""
    return " ".join(part for part in parts if part)


def statement(dice: Dice, event: Event) -> str:
    """Return a sentence that says that `event` is going on, or went on."""
    w = choose_words(dice, event)
    not_, verb = w.negation, w.verb
    form = dice.weighted(
        [("active", 3), ("passive", 2), ("there is", 1), ("past", 1.5), ("passive past", 1)]
    )
    if form == "active":
        clause = join(w.agent, "is", not_, w.manner, verb.ing, w.patient)
    elif form == "passive":
        be = w.be("is", "are")
        clause = join(w.patient, be, not_, "being", w.manner, verb.participle, "by", w.agent)
    elif form == "there is":
        clause = join("there is", w.agent, not_, verb.ing, w.patient, w.manner)
    elif form == "past":
        action = join("did not", w.manner, verb.base) if w.negated else join(w.manner, verb.past)
        clause = join(w.agent, action, w.patient)
    else:
        be = w.be("was", "were")
        clause = join(w.patient, be, not_, w.manner, verb.participle, "by", w.agent)
    if w.tail and dice.chance(0.25):
        return join(w.tail[0], ",", clause, *w.tail[1:], ".")
    return join(clause, *w.tail, ".")


def plot(dice: Dice, event: Event) -> str:
    """Return `a chef who steals two boats near the river`: the event as what a film is about."""
    w = choose_words(dice, event)
    return join(w.agent, "who", w.manner, w.verb.third, w.patient, *w.tail)


QUESTIONS = ("why", "how", "whether", "should", "when", "cost")


def question(dice: Dice, event: Event, kind: str) -> str:
    """Return a question of `kind` (one of `QUESTIONS`) about `event`."""
    w = choose_words(dice, event, definite=dice.chance(0.5))
    n, m, v, who, what = w.negation, w.manner, w.verb, w.agent, w.patient
    past = join("did not", m, v.base) if w.negated else join(m, v.past)
    passive = join(m, v.participle, "by", who)
    was = w.be("was", "were")
    forms = {
        "why": (
            ("why did", who, n, m, v.base, what),
            ("what is the reason that", who, past, what),
            ("why", was, what, n, passive),
            ("how come", who, past, what),
        ),
        "how": (
            ("how can", who, n, m, v.base, what),
            ("what is the best way for", who, n, "to", m, v.base, what),
            ("how can", what, n, "be", passive),
            ("in what way might", who, n, m, v.base, what),
        ),
        "whether": (
            ("did", who, n, m, v.base, what),
            ("is it true that", who, past, what),
            (was, what, n, passive),
            ("has", who, n, "really", m, v.participle, what),
        ),
        "should": (
            ("should", who, n, m, v.base, what),
            ("is it a good idea for", who, n, "to", m, v.base, what),
            ("should", what, n, "be", passive),
            ("ought", who, n, "to", m, v.base, what),
        ),
        "when": (
            ("when did", who, n, m, v.base, what),
            ("at what time", was, what, n, passive),
            ("does anyone know when", who, past, what),
            ("on which day did", who, n, m, v.base, what),
        ),
        "cost": (
            ("how much does it cost if", who, "does", n, m, v.base, what),
            ("what is the price when", what, w.be("is", "are"), n, passive),
            ("how expensive is it for", who, n, "to", m, v.base, what),
            ("what does", who, "pay to", n, m, v.base, what),
        ),
    }
    clause = join(*dice.pick(forms[kind]))
    if w.tail and dice.chance(0.2):
        return join(w.tail[0], ",", clause, *w.tail[1:], "?")
    return join(clause, *w.tail, "?")
