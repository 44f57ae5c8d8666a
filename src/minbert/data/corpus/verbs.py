"""What people do to people and things, with the forms of every verb."""

from __future__ import annotations

from dataclasses import dataclass

from minbert.data.corpus.words import Concept, concepts


@dataclass(frozen=True)
class Verb:
    """The forms of a verb: eat, eats, ate, eaten, eating."""

    base: str
    third: str
    past: str
    participle: str
    ing: str


# An action's group is the kind of thing that it can be done to.
ACTIONS: list[Concept] = concepts("""
    person: help/assist, follow/trail, teach/instruct, greet/welcome, visit, thank, praise/commend
    person: scold/reprimand, invite, hug/embrace, call/phone, blame/accuse, marry/wed, warn/caution
    person: ignore/disregard, forgive/pardon, trick/deceive, hire/employ, trust, rescue/save
    person: interview, kick, betray, obey, challenge/defy
    food: eat/devour, cook/prepare, serve, taste/sample, slice/chop, burn/scorch, share, order
    food: freeze, smell, bake
    vehicle: repair/fix, sell, buy/purchase, steal, rent/lease, inspect/examine, wreck/demolish
    vehicle: drive, design, tow/haul, push/shove
    document: read/peruse, write, copy/duplicate, hide/conceal, sign, send/dispatch, print
    document: tear/rip, translate, deliver, publish
    tool: use, find/discover, lose/misplace, borrow, drop, grab/seize, sharpen
    furniture: build/construct, move/shift, paint, break/smash, clean/scrub, carry, polish
    clothing: wear, wash/rinse, fold, knit, mend/sew, throw/toss, donate
    animal: feed, chase/pursue, ride, brush/groom, catch/capture, watch/observe, tame
    animal: frighten/scare, photograph, stroke, adopt
""")

_IRREGULAR = {
    "teach": "taught taught", "eat": "ate eaten", "freeze": "froze frozen",
    "sell": "sold sold", "buy": "bought bought", "steal": "stole stolen",
    "drive": "drove driven", "read": "read read", "write": "wrote written",
    "hide": "hid hidden", "send": "sent sent", "tear": "tore torn", "find": "found found",
    "lose": "lost lost", "build": "built built", "break": "broke broken", "wear": "wore worn",
    "throw": "threw thrown", "feed": "fed fed", "ride": "rode ridden", "catch": "caught caught",
    "sew": "sewed sewn", "forgive": "forgave forgiven",
}  # fmt: skip
# Short verbs that double their last letter: hug, hugged, hugging.
_DOUBLING = ("hug", "wed", "scrub", "chop", "rip", "drop", "grab", "knit")


def _stem(base: str) -> str:
    return base + base[-1] if base in _DOUBLING else base


def _third(base: str) -> str:
    if base.endswith(("s", "x", "ch", "sh")):
        return base + "es"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + "s"


def _past(base: str) -> str:
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return _stem(base) + "ed"


def _ing(base: str) -> str:
    return base[:-1] + "ing" if base.endswith("e") else _stem(base) + "ing"


def verb(base: str) -> Verb:
    """Return the forms of the verb whose infinitive is `base`."""
    past, participle = _IRREGULAR.get(base, f"{_past(base)} {_past(base)}").split()
    return Verb(base, _third(base), past, participle, _ing(base))


VERBS: dict[str, Verb] = {word: verb(word) for action in ACTIONS for word in action.words}
