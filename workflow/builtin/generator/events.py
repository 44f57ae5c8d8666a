"""Events (who does what to whom, where and how) and the many sentences that can describe each."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from generator import words
from generator.dice import Dice
from generator.words import Concept


@dataclass(frozen=True)
class Event:
    """One event: `agent` does `action` to `count` of `patient`; an empty slot is None."""

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


def _by_group(concepts: list[Concept]) -> dict[str, list[Concept]]:
    groups = dict.fromkeys(concept.group for concept in concepts)
    return {group: [c for c in concepts if c.group == group] for group in groups}


_TOWNS = [Concept((town,), "in") for town in words.TOWNS]
_ACTIONS = _by_group(words.ACTIONS)
_PATIENTS = _by_group(words.THINGS) | {"person": words.PEOPLE}


def other(dice: Dice, items: Sequence[Concept], *than: Concept | None) -> Concept:
    """Return one of `items` that is none of `than`."""
    while (item := dice.common(items)) in than:
        pass
    return item


def draw_place(dice: Dice) -> Concept:
    """Return a place or, one time in ten, a town."""
    return dice.pick(_TOWNS) if dice.chance(0.1) else dice.common(words.PLACES)


def draw_patient(dice: Dice, action: Concept, *than: Concept) -> Concept:
    """Return someone or something, none of `than`, that `action` can be done to."""
    return other(dice, _PATIENTS[action.group], *than)


def draw_action(dice: Dice, kind: str, than: Concept | None = None) -> Concept:
    """Return an action other than `than` that can be done to things of `kind`."""
    return other(dice, _ACTIONS[kind], than)


def draw_trait(dice: Dice, kind: str, than: Concept | None = None) -> Concept:
    """Return a trait that people (`person`) or things (any other kind) can have."""
    return other(dice, words.PERSON_TRAITS if kind == "person" else words.THING_TRAITS, than)


def draw_event(
    dice: Dice, personal: bool | None = None, several: bool | None = None, detail: float = 1.0
) -> Event:
    """Draw an event; `detail` scales how often it has traits, a place, a time and a manner.

    `personal` asks for an action done to a person (or not), `several` for a count above one;
    None leaves either to chance.
    """
    personal = dice.chance(0.3) if personal is None else personal
    kind = "person" if personal else dice.pick([k for k in _ACTIONS if k != "person"])
    action = draw_action(dice, kind)
    agent = dice.common(words.PEOPLE)
    several = dice.chance(0.25) if several is None else several
    return Event(
        agent=agent,
        action=action,
        patient=draw_patient(dice, action, agent),
        agent_trait=draw_trait(dice, "person") if dice.chance(0.35 * detail) else None,
        patient_trait=draw_trait(dice, kind) if dice.chance(0.35 * detail) else None,
        count=2 + dice.below(len(words.NUMBERS)) if several else 1,
        place=draw_place(dice) if dice.chance(0.6 * detail) else None,
        time=dice.common(words.TIMES) if dice.chance(0.2 * detail) else None,
        manner=dice.common(words.MANNERS) if dice.chance(0.2 * detail) else None,
        negated=dice.chance(0.12),
    )


def swapped(event: Event) -> Event:
    """Return `event` with its two people, and their traits, in swapped roles."""
    return replace(
        event,
        agent=event.patient,
        patient=event.agent,
        agent_trait=event.patient_trait,
        patient_trait=event.agent_trait,
    )


def word(dice: Dice, concept: Concept) -> str:
    """Return the usual word of `concept` or a synonym."""
    return concept.words[0] if dice.chance(0.65) else dice.pick(concept.words)


def noun_phrase(
    dice: Dice, noun: Concept, trait: Concept | None, count: int = 1, definite: bool = False
) -> str:
    """Return `a big dog`, `the hound` or `three small dogs`."""
    name = word(dice, noun)
    if count > 1:
        name = words.plural(name)
    if trait is not None:
        name = f"{word(dice, trait)} {name}"
    if count > 1:
        return f"{words.NUMBERS[count - 2]} {name}"
    return f"the {name}" if definite else f"{words.article(name)} {name}"


def choose_words(
    dice: Dice, event: Event, definite: bool = False
) -> tuple[dict[str, str], list[str]]:
    """Return the synonyms chosen for `event`, as templates name them, and its place and time."""
    tail = [f"{c.group} {word(dice, c)}" for c in (event.place, event.time) if c is not None]
    if dice.chance(0.5):
        tail.reverse()
    who = noun_phrase(dice, event.agent, event.agent_trait, definite=definite)
    what = noun_phrase(dice, event.patient, event.patient_trait, event.count, definite)
    verb = words.VERBS[word(dice, event.action)]
    how = "" if event.manner is None else word(dice, event.manner)
    chosen = {**asdict(verb), "who": who, "what": what, "how": how}
    chosen["not"] = "not" if event.negated else ""
    chosen["did"] = f"did not {how} {verb.base}" if event.negated else f"{how} {verb.past}"
    chosen["is"], chosen["was"] = ("are", "were") if event.count > 1 else ("is", "was")
    return chosen, tail


def join(*parts: str | None) -> str:
    """Join the parts that are not empty by spaces."""
    return " ".join(part for part in parts if part)


def _fill(template: str, chosen: dict[str, str]) -> str:
    return join(*template.format_map(chosen).split())


def _around(dice: Dice, clause: str, tail: list[str], fronting: float) -> str:
    """Add place and time to `clause`; one may come first, with the probability `fronting`."""
    if tail and dice.chance(fronting):
        return join(tail[0], ",", clause, *tail[1:])
    return join(clause, *tail)


_STATEMENTS = (
    ("{who} is {not} {how} {ing} {what}", 3),
    ("{what} {is} {not} being {how} {participle} by {who}", 2),
    ("there is {who} {not} {ing} {what} {how}", 1),
    ("{who} {did} {what}", 1.5),
    ("{what} {was} {not} {how} {participle} by {who}", 1),
)


def statement(dice: Dice, event: Event) -> str:
    """Return a sentence that says that `event` is happening or happened."""
    chosen, tail = choose_words(dice, event)
    clause = _fill(dice.weighted(_STATEMENTS), chosen)
    return f"{_around(dice, clause, tail, 0.25)} ."


def plot(dice: Dice, event: Event) -> str:
    """Return `event` as the plot of a film: `a chef who steals two boats near the river`."""
    chosen, tail = choose_words(dice, event)
    return join(_fill("{who} who {how} {third} {what}", chosen), *tail)


_QUESTIONS = {
    "why": (
        "why did {who} {not} {how} {base} {what}",
        "what is the reason that {who} {did} {what}",
        "why {was} {what} {not} {how} {participle} by {who}",
        "how come {who} {did} {what}",
    ),
    "how": (
        "how can {who} {not} {how} {base} {what}",
        "what is the best way for {who} {not} to {how} {base} {what}",
        "how can {what} {not} be {how} {participle} by {who}",
        "in what way might {who} {not} {how} {base} {what}",
    ),
    "whether": (
        "did {who} {not} {how} {base} {what}",
        "is it true that {who} {did} {what}",
        "{was} {what} {not} {how} {participle} by {who}",
        "has {who} {not} really {how} {participle} {what}",
    ),
    "should": (
        "should {who} {not} {how} {base} {what}",
        "is it a good idea for {who} {not} to {how} {base} {what}",
        "should {what} {not} be {how} {participle} by {who}",
        "ought {who} {not} to {how} {base} {what}",
    ),
    "when": (
        "when did {who} {not} {how} {base} {what}",
        "at what time {was} {what} {not} {how} {participle} by {who}",
        "does anyone know when {who} {did} {what}",
        "on which day did {who} {not} {how} {base} {what}",
    ),
    "cost": (
        "how much does it cost if {who} does {not} {how} {base} {what}",
        "what is the price when {what} {is} {not} {how} {participle} by {who}",
        "how expensive is it for {who} {not} to {how} {base} {what}",
        "what does {who} pay to {not} {how} {base} {what}",
    ),
}
QUESTIONS = tuple(_QUESTIONS)


def question(dice: Dice, event: Event, kind: str) -> str:
    """Return a question of `kind` (one of `QUESTIONS`) about `event`."""
    chosen, tail = choose_words(dice, event, definite=dice.chance(0.5))
    clause = _fill(dice.pick(_QUESTIONS[kind]), chosen)
    return f"{_around(dice, clause, tail, 0.2)} ?"
