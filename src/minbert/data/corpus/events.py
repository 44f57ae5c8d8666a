"""Who does what to whom, where and how: the meaning that sentences of all tasks put into words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from minbert.data.corpus.dice import Dice
from minbert.data.corpus.verbs import ACTIONS
from minbert.data.corpus.words import (
    MANNERS,
    NUMBERS,
    PEOPLE,
    PERSON_TRAITS,
    PLACES,
    THING_TRAITS,
    THINGS,
    TIMES,
    TOWNS,
    Concept,
)


@dataclass(frozen=True)
class Event:
    """One event. `patient` is who or what the action is done to; `count` says how many of them.

    A place is a concept whose group is its preposition; so is a time. `None` leaves a slot out.
    """

    agent: Concept
    action: Concept
    patient: Concept
    agent_trait: Concept | None = None
    patient_trait: Concept | None = None
    count: int = 1
    place: Concept | None = None
    time: Concept | None = None
    manner: Concept | None = None
    negated: bool = False

    @property
    def personal(self) -> bool:
        """Whether the action is done to a person, so that the two could change roles."""
        return self.action.group == "person"


_PLACES: tuple[Concept, ...] = tuple(PLACES)
_TOWNS = tuple(Concept((town,), "in") for town in TOWNS)
_OF_KIND = {
    kind: tuple(thing for thing in THINGS if thing.group == kind)
    for kind in dict.fromkeys(thing.group for thing in THINGS)
}
_ACTIONS_OF = {
    kind: tuple(action for action in ACTIONS if action.group == kind)
    for kind in dict.fromkeys(action.group for action in ACTIONS)
}


def other(dice: Dice, items: Sequence[Concept], than: Concept | None) -> Concept:
    """Return one of `items` that is not `than`."""
    while (item := dice.common(items)) == than:
        pass
    return item


def draw_place(dice: Dice) -> Concept:
    """Return a place or, one time in ten, a town."""
    return dice.pick(_TOWNS) if dice.chance(0.1) else dice.common(_PLACES)


def draw_patient(dice: Dice, action: Concept, than: Concept | None = None) -> Concept:
    """Return someone or something that `action` can be done to, and that is not `than`."""
    return other(dice, PEOPLE if action.group == "person" else _OF_KIND[action.group], than)


def draw_action(dice: Dice, kind: str, than: Concept | None = None) -> Concept:
    """Return an action that can be done to things of `kind`, other than `than`."""
    return other(dice, _ACTIONS_OF[kind], than)


def draw_trait(dice: Dice, kind: str, than: Concept | None = None) -> Concept:
    """Return a trait that people (`person`) or things (any other kind) can have."""
    return other(dice, PERSON_TRAITS if kind == "person" else THING_TRAITS, than)


def draw_event(
    dice: Dice, personal: bool | None = None, several: bool | None = None, detail: float = 1.0
) -> Event:
    """Draw an event; `detail` multiplies how often it has traits, place, time and manner.

    `personal` asks for an action done to a person (or not), `several` for a count above one.
    """
    personal = dice.chance(0.3) if personal is None else personal
    kind = "person" if personal else dice.pick([k for k in _ACTIONS_OF if k != "person"])
    action = draw_action(dice, kind)
    agent = dice.common(PEOPLE)
    several = dice.chance(0.25) if several is None else several
    return Event(
        agent=agent,
        action=action,
        patient=draw_patient(dice, action, than=agent),
        agent_trait=draw_trait(dice, "person") if dice.chance(0.35 * detail) else None,
        patient_trait=draw_trait(dice, kind) if dice.chance(0.35 * detail) else None,
        count=2 + dice.below(len(NUMBERS)) if several else 1,
        place=draw_place(dice) if dice.chance(0.6 * detail) else None,
        time=dice.common(TIMES) if dice.chance(0.2 * detail) else None,
        manner=dice.common(MANNERS) if dice.chance(0.2 * detail) else None,
        negated=dice.chance(0.12),
    )


def swapped(event: Event) -> Event:
    """Return `event` with the two people in each other's role (and each with its own trait)."""
    return replace(
        event,
        agent=event.patient,
        patient=event.agent,
        agent_trait=event.patient_trait,
        patient_trait=event.agent_trait,
    )
