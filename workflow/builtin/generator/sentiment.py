"""Sentences of opinion whose sentiment is composed, as in SST (Socher et al., 2013).

A sentiment is a number: the grade of an opinion word (1 mild, 2 strong, negative if bad), times
the factor of a degree word, times the factor of a negation, which reverses and weakens it. Clauses
joined by `and` are averaged; in a contrast, the main clause outweighs the other. So words alone
are not enough: bad sentences contain many good words, and good ones many bad words.
"""

from typing import NamedTuple

from generator import events
from generator.dice import Dice
from generator.events import join, noun_phrase, plot
from generator.words import PEOPLE, article


def _words(text: str) -> tuple[str, ...]:
    return tuple(" ".join(text.split()).split(", "))


ADJECTIVES: dict[int, tuple[str, ...]] = {
    2: _words("""superb, brilliant, wonderful, magnificent, stunning, dazzling, marvellous,
        masterful, outstanding, breathtaking, exquisite, glorious, splendid, sublime, exceptional,
        spectacular, extraordinary, unforgettable, irresistible, flawless, phenomenal, triumphant,
        luminous, enthralling, radiant, majestic"""),
    1: _words("""pleasant, charming, amusing, engaging, decent, likeable, clever, fresh, enjoyable,
        lively, thoughtful, witty, solid, graceful, agreeable, tender, inventive, entertaining,
        appealing, warm, satisfying, elegant, watchable, sincere, sweet, capable, funny, refined,
        playful, sturdy"""),
    -1: _words("""dull, bland, tedious, predictable, shallow, clumsy, slow, stale, uneven,
        forgettable, muddled, weak, messy, lifeless, tiresome, hollow, thin, plodding, sloppy,
        trite, contrived, feeble, overlong, dreary, monotonous, awkward, flat, confused, mediocre,
        laboured"""),
    -2: _words("""awful, terrible, dreadful, horrible, atrocious, abysmal, appalling, ghastly,
        wretched, unbearable, insufferable, disastrous, pathetic, unwatchable, laughable,
        excruciating, hideous, miserable, dismal, ludicrous, inept, idiotic, worthless, rotten,
        repulsive, putrid"""),
}

VERBS: dict[int, tuple[str, ...]] = {
    2: ("enchant", "captivate", "thrill", "dazzle", "fascinate", "inspire", "enthral"),
    1: ("amuse", "entertain", "please", "impress", "delight", "charm", "satisfy", "engage"),
    -1: ("bore", "annoy", "disappoint", "confuse", "tire", "frustrate", "irritate", "bewilder"),
    -2: ("insult", "exhaust", "disgust", "enrage", "appal", "torment", "sicken"),
}

NOUNS: dict[int, tuple[str, ...]] = {
    2: ("brilliance", "wonder", "genius", "splendour", "magic", "passion", "beauty"),
    1: ("wit", "warmth", "grace", "energy", "humour", "imagination", "insight", "style"),
    -1: _words("laziness, padding, confusion, noise, clutter, filler, gloom, sentimentality"),
    -2: ("nonsense", "stupidity", "drivel", "ugliness", "cruelty", "vulgarity", "rubbish"),
}

STRONGER = _words("""very, truly, really, extremely, remarkably, thoroughly, utterly, deeply,
    absolutely, incredibly, wildly, consistently""")
WEAKER = _words("""somewhat, slightly, fairly, a little, mildly, a bit, vaguely, moderately,
    faintly, partially""")
DEGREE_STRONGER, DEGREE_WEAKER = 1.4, 0.5

# Words that reverse an opinion, and the factor that remains of it.
NOT_ADJECTIVE = (
    ("not", -0.7), ("never", -1.0), ("hardly", -0.6), ("far from", -0.8), ("anything but", -1.0),
)  # fmt: skip
NOT_VERB = (
    ("does not", -0.7), ("will never", -1.0), ("can hardly", -0.6), ("fails to", -0.8),
    ("refuses to", -0.8),
)  # fmt: skip
HAS_NOUN = ("is full of", "is packed with", "offers plenty of", "is bursting with", "is rich in")
HAS_NO_NOUN = (
    ("has no", -0.7), ("is devoid of", -1.0), ("has little", -0.6), ("lacks any", -0.8),
    ("is free of", -0.8),
)  # fmt: skip

GENRES = _words("""film, movie, drama, comedy, thriller, story, romance, western, mystery, musical,
    documentary, sequel, adventure, fantasy, tale, satire, remake, cartoon, biography, epic, fable,
    melodrama, prequel, spectacle""")
ASPECTS = _words("""acting, plot, script, ending, dialogue, music, cast, direction, pacing,
    camerawork, soundtrack, opening, scenery, premise, editing, finale, mood, narration, screenplay,
    chemistry, photography, animation, choreography, lighting, atmosphere, lead performance,
    supporting cast, first half, second half, final twist, central idea, title song""")
AUDIENCES = _words("""the audience, viewers, everyone, me, us, critics, adults, fans, newcomers,
    anybody, parents, teenagers, my friends, the crowd, listeners, cynics""")

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
    """How sentences are made: `detail` scales the plot, `twist` negations and contrasts."""

    detail: float = 1.0
    twist: float = 1.0


PLAIN = Style()


def level(value: float) -> int | None:
    """Return the class, 0 to 4, of a sentiment, or None if it is too close to a bound."""
    if any(abs(value - bound) < MARGIN for bound in BOUNDS):
        return None
    return sum(value > bound for bound in BOUNDS)


def _grade(dice: Dice, sign: int) -> int:
    return sign * (2 if dice.chance(0.5) else 1)


def _degree(dice: Dice, negated: bool) -> tuple[str | None, float]:
    """Return a degree word, if any, and its factor; a negated opinion gets no weakening one."""
    kind = dice.weighted([("none", 5), ("stronger", 2.5), ("weaker", 0 if negated else 2.5)])
    if kind == "none":
        return None, 1.0
    if kind == "stronger":
        return dice.common(STRONGER), DEGREE_STRONGER
    return dice.common(WEAKER), DEGREE_WEAKER


def _turned(
    dice: Dice, sign: int, style: Style, negations: tuple[tuple[str, float], ...]
) -> tuple[str, int, float]:
    """Return a negation, if any, the grade of the word after it, and the factor that is left."""
    if dice.chance(NEGATED * style.twist):  # as the negation of its opposite
        phrase, left = dice.pick(negations)
        return phrase, _grade(dice, -sign), left
    return "", _grade(dice, sign), 1.0


def _adjective(dice: Dice, sign: int, style: Style) -> tuple[str, str, float]:
    """Return a negation, if any, an adjective (`very charming`), and the sentiment of both."""
    negation, grade, left = _turned(dice, sign, style, NOT_ADJECTIVE)
    degree, factor = _degree(dice, bool(negation))
    return negation, join(degree, dice.common(ADJECTIVES[grade])), grade * factor * left


def subject(dice: Dice, detail: float) -> str:
    """Return the subject of an opinion: `the plot`, `this western about a chef who ...`."""
    kind = dice.weighted([("aspect", 4), ("of", 2), ("genre", 2), ("about", 4 * detail)])
    aspect, genre = dice.common(ASPECTS), dice.common(GENRES)
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
    return plot(dice, events.draw_event(dice, detail=detail))


def _copular(dice: Dice, sign: int, style: Style) -> Opinion:
    about = subject(dice, style.detail)
    negation, adjective, value = _adjective(dice, sign, style)
    return Opinion(join(about, "is", negation, adjective), value)


def _verbal(dice: Dice, sign: int, style: Style) -> Opinion:
    about, whom = subject(dice, style.detail), dice.common(AUDIENCES)
    negation, grade, left = _turned(dice, sign, style, NOT_VERB)
    text = join(about, negation or "will", dice.pick(VERBS[grade]), whom)
    return Opinion(text, grade * left)


def _nominal(dice: Dice, sign: int, style: Style) -> Opinion:
    about = subject(dice, style.detail)
    negation, grade, left = _turned(dice, sign, style, HAS_NO_NOUN)
    text = join(about, negation or dice.pick(HAS_NOUN), dice.pick(NOUNS[grade]))
    return Opinion(text, grade * left)


def _fragment(dice: Dice, sign: int, style: Style) -> Opinion:
    genre = dice.common(GENRES)
    if dice.chance(0.4 * style.detail):
        genre = f"{genre} about {_plot(dice, style.detail)}"
    negation, adjective, value = _adjective(dice, sign, style)
    return Opinion(join(negation, article(adjective), adjective, genre), value)


def clause(dice: Dice, sign: int, style: Style = PLAIN, whole: bool = True) -> Opinion:
    """Return a clause that is good (`sign` 1) or bad (-1); if not `whole`, maybe without a verb."""
    kinds = [(_copular, 4.0), (_verbal, 2.5), (_nominal, 2.0), (_fragment, 0.0 if whole else 3.0)]
    return dice.weighted(kinds)(dice, sign, style)


def _opening(dice: Dice) -> str:
    place, genre = events.draw_place(dice), dice.common(GENRES)
    where = f"{place.group} {events.word(dice, place)}"
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
    """Return a sentence of opinion, without its full stop, that is good (`sign` 1) or bad (-1)."""
    twist = style.twist
    forms = [("single", 2.5), ("and", 2.5), ("but", 1.8 * twist), ("although", twist)]
    form = dice.weighted([*forms, ("main first", 0.7 * twist)])
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
    """Return a sentence with no opinion, or with two that cancel out."""
    if dice.chance(0.55):
        genre = dice.common(GENRES)
        if dice.chance(0.5):
            start = dice.pick((f"this {genre} is about", f"the {genre} follows", "we meet"))
            return Opinion(join(start, plot(dice, events.draw_event(dice))), 0.0)
        text = events.statement(dice, events.draw_event(dice)).removesuffix(" .")
        return Opinion(join(f"in this {genre} ,", text), 0.0)
    grade = _grade(dice, 1 if dice.chance(0.5) else -1)
    a, b = dice.common(ADJECTIVES[grade]), dice.common(ADJECTIVES[-grade])
    both = dice.pick((f"by turns {a} and {b}", f"half {a} , half {b}", f"as {a} as it is {b}"))
    return Opinion(join(subject(dice, 1.0), "is", both), 0.0)


def graded(dice: Dice, target: int) -> Opinion:
    """Return a sentence of class `target` (0 to 4) of less than `LONGEST` words."""
    while True:
        found = neutral(dice) if target == 2 else opinion(dice, 1 if target > 2 else -1)
        if level(found.value) == target and len(found.text.split()) < LONGEST:
            return found


def sentence(dice: Dice, text: str) -> str:
    """Return `text` as a sentence: a capital, and a full stop or, rarely, another mark."""
    return f"{text[0].upper()}{text[1:]} {dice.weighted([('.', 9), ('!', 0.7), ('...', 0.3)])}"
