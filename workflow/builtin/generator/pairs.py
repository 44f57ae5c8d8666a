"""Pairs of sentences: questions that ask the same or not, statements more or less similar."""

from dataclasses import replace

from generator import events
from generator.dice import Dice
from generator.events import Event
from generator.words import NUMBERS, PEOPLE, Concept

# How often a question is asked again in other words, by what it asks. In Quora's pairs, too, the
# words of single questions alone predict .73 of the labels, where .61 are of one class.
_ASKED_AGAIN = {
    "why": 0.68, "how": 0.68, "should": 0.3, "cost": 0.3, "whether": 0.13, "when": 0.13,
}  # fmt: skip

# How a question that asks something else differs from the first. As in Quora's pairs, most are
# about something else, and a minority differ by so little that shared words cannot tell.
_DIFFERENCES = (
    ("event", 0.42), ("words", 0.22), ("word", 0.14), ("swap", 0.04), ("count", 0.04),
    ("negation", 0.08), ("question", 0.06),
)  # fmt: skip

# The weight of each slot in the similarity, and the share of it that a relative gets.
_WEIGHTS = {"action": 3.0, "patient": 3.0, "agent": 2.5, "place": 1.0, "traits": 1.0, "count": 0.5}
_RELATIVE = 0.4
_NEGATION = 1.5
# How far the second statement drifts from the first, by whether the event is done to a person.
# STS-B's sources, captions and headlines among them, also differ in how similar their pairs are:
# the words of single sentences alone predict its labels with r = .34.
_DRIFTS = {True: (0.0, 0.0, 0.15, 0.3, 0.5, 0.7), False: (0.15, 0.5, 0.7, 0.7, 1.0, 1.0)}


def _changed_count(dice: Dice, count: int) -> int:
    return dice.pick([n for n in range(1, len(NUMBERS) + 2) if n != count])


def _change(dice: Dice, event: Event, slot: str) -> Event:
    """Return `event` with another concept in `slot`: agent, action or patient."""
    if slot == "agent":
        return replace(event, agent=events.other(dice, PEOPLE, event.agent, event.patient))
    if slot == "action":
        return replace(event, action=events.draw_action(dice, event.action.group, event.action))
    return replace(
        event, patient=events.draw_patient(dice, event.action, event.patient, event.agent)
    )


def _different(dice: Dice, event: Event, kind: str, difference: str) -> tuple[Event, str]:
    """Return an event and a question kind that differ from these as `difference` says."""
    if difference == "event":
        return events.draw_event(dice, detail=0.7), kind
    if difference == "swap":
        return events.swapped(event), kind
    if difference == "count":
        return replace(event, count=_changed_count(dice, event.count)), kind
    if difference == "negation":
        return replace(event, negated=not event.negated), kind
    if difference == "question":
        return event, dice.pick([q for q in events.QUESTIONS if q != kind])
    slots = ["agent", "action", "patient"]
    one = dice.pick(slots)
    changed = [one] if difference == "word" else [slot for slot in slots if slot != one]
    for slot in changed:
        event = _change(dice, event, slot)
    return event, kind


def paraphrase_pair(dice: Dice) -> tuple[str, str, int]:
    """Return two questions, and 1 if they ask the same in other words, else 0.

    The possible difference is drawn before whether the pair differs, so that neither question
    alone gives the answer away.
    """
    difference = dice.weighted(_DIFFERENCES)
    several = True if difference == "count" else False if difference == "swap" else None
    personal = True if difference == "swap" else None
    event = events.draw_event(dice, personal, several, detail=0.7)
    if difference == "negation":
        event = replace(event, negated=dice.chance(0.5))
    kind = dice.pick(events.QUESTIONS)
    first = events.question(dice, event, kind)
    if same := dice.chance(_ASKED_AGAIN[kind]):
        second = events.question(dice, event, kind)
        while second == first:
            second = events.question(dice, event, kind)
    else:
        event, kind = _different(dice, event, kind, difference)
        second = events.question(dice, event, kind)
    if dice.chance(0.5):
        first, second = second, first
    return first, second, int(same)


def _alike(a: Concept | None, b: Concept | None) -> float:
    if a == b:
        return 1.0
    return _RELATIVE if a and b and a.group == b.group else 0.0


def similarity(a: Event, b: Event) -> float:
    """Return the similarity of two events, 0 to 5: the weighted share of slots that agree."""
    agent, patient = _alike(a.agent, b.agent), _alike(a.patient, b.patient)
    if a.agent == b.patient and a.patient == b.agent:  # the same two people in swapped roles
        agent = patient = 0.6
    slots = ((a.agent_trait, b.agent_trait), (a.patient_trait, b.patient_trait))
    traits = [_alike(x, y) for x, y in slots if x or y]
    # Verbs of one group are not related in meaning: selling a boat is not much like towing one.
    shares = {
        "action": float(a.action == b.action),
        "patient": patient,
        "agent": agent,
        "place": _alike(a.place, b.place) if a.place or b.place else None,
        "traits": sum(traits) / len(traits) if traits else None,
        "count": float(a.count == b.count),
    }
    present = {slot: share for slot, share in shares.items() if share is not None}
    total = sum(_WEIGHTS[slot] for slot in present)
    score = 5 * sum(_WEIGHTS[slot] * share for slot, share in present.items()) / total
    # Unrelated events may agree by chance in minor slots (count, traits); they still score 0.
    if not (agent or patient or a.action == b.action):
        score = 0.0
    return max(0.0, score - _NEGATION * (a.negated != b.negated))


def _drift(dice: Dice, event: Event, amount: float) -> Event:
    """Return `event` with each slot changed, dropped or added with probability `amount`."""
    for slot in ("agent", "action", "patient"):
        if dice.chance(amount):
            event = _change(dice, event, slot)
    if dice.chance(amount):
        event = replace(event, place=events.draw_place(dice) if dice.chance(0.5) else None)
    if dice.chance(amount):
        trait = events.draw_trait(dice, "person", event.agent_trait) if dice.chance(0.5) else None
        event = replace(event, agent_trait=trait)
    if dice.chance(amount):
        trait = events.draw_trait(dice, event.action.group) if dice.chance(0.5) else None
        event = replace(event, patient_trait=trait)
    if dice.chance(0.4 * amount):
        event = replace(event, count=_changed_count(dice, event.count))
    if dice.chance(0.1):
        event = replace(event, negated=not event.negated)
    return event


def similar_pair(dice: Dice) -> tuple[str, str, float]:
    """Return two statements and their similarity, 0 to 5, without noise."""
    personal = dice.chance(0.5)
    first = events.draw_event(dice, personal)
    manner = dice.weighted([("drift", 0.8), ("swap", 0.06), ("event", 0.14)])
    if manner == "event":
        second = events.draw_event(dice)
    elif manner == "swap" and personal and first.count == 1:
        second = events.swapped(first)
    else:
        second = _drift(dice, first, dice.pick(_DRIFTS[personal]))
    a, b = events.statement(dice, first), events.statement(dice, second)
    while a == b:
        b = events.statement(dice, second)
    return a, b, similarity(first, second)
