"""The vocabulary that all tasks share: people, things, places, times, traits, manners, verbs.

A concept is one meaning with its synonyms, the usual word first. Concepts of one group are
related (a nurse and a dentist). Every noun belongs to one concept only, so that a model can learn
from the text which words mean the same.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Concept:
    """One meaning: its words, which are synonyms, and the group of related meanings."""

    words: tuple[str, ...]
    group: str


def concepts(text: str) -> list[Concept]:
    """Read lines of `group: word/synonym, word, ...`, in order."""
    lines = (line.strip().partition(": ") for line in text.strip().splitlines())
    return [
        Concept(tuple(entry.split("/")), group)
        for group, _, entries in lines
        for entry in entries.split(", ")
    ]


PEOPLE = concepts("""
    family: child/kid, boy/lad, woman/lady, man/gentleman, girl, grandmother/granny, uncle, aunt
    family: cousin/relative, neighbour, grandfather, widow, orphan, twin
    kitchen: chef, baker, waiter, butcher, grocer/shopkeeper, brewer
    care: doctor/physician, nurse, dentist, surgeon, pharmacist, midwife
    school: teacher/instructor, student/pupil, professor/lecturer, librarian, scholar/academic
    sea: sailor/mariner, captain/skipper, fisherman/angler, pirate/buccaneer, diver, lifeguard
    art: painter, singer/vocalist, actor/performer, writer/author, dancer, poet, sculptor
    art: pianist, drummer, violinist/fiddler, magician/conjurer, clown/jester
    law: lawyer/attorney, detective/investigator, thief/burglar, guard/sentry, judge/magistrate
    law: soldier/trooper, smuggler, spy, hangman
    land: farmer, gardener, hunter, shepherd, woodcutter/lumberjack, miner, beekeeper
    trade: merchant/trader, carpenter/joiner, mechanic, tailor, plumber, barber/hairdresser
    trade: blacksmith, banker, clerk, postman, engineer, weaver
    crown: king/monarch, queen, prince, knight, servant/butler, duke, minister, princess
""")

THINGS = concepts("""
    food: cake, soup/broth, apple, sandwich, pie, potato/spud, pancake/flapjack, biscuit/cookie
    food: stew/casserole, loaf, onion, sausage, pudding/dessert, omelette, pear, melon, carrot
    food: dumpling, salad, peach, lemon, cabbage
    vehicle: car/automobile, boat/vessel, bicycle/bike, lorry/truck, train, wagon/cart, van
    vehicle: plane/airplane, motorcycle/motorbike, taxi/cab, tractor, tram/streetcar, raft
    vehicle: sledge/sleigh, balloon, scooter, submarine
    document: letter, book/volume, map/chart, newspaper/gazette, diary/journal, recipe, poem
    document: contract/agreement, novel, invoice/bill, postcard, manual/handbook, ticket
    document: manuscript, notebook, essay
    tool: lamp/lantern, hammer/mallet, rope/cord, key, clock, ladder, bucket/pail, knife/blade
    tool: shovel/spade, camera, umbrella/parasol, telescope/spyglass, compass, needle, guitar
    tool: trumpet, violin/fiddle, drum, piano, candle, whistle
    furniture: chair/seat, table, sofa/couch, box/crate, door, carpet/rug, cupboard/cabinet
    furniture: basket/hamper, mirror, bed, curtain/drape, window, shelf, vase/urn, statue
    clothing: coat/jacket, hat/cap, boot, scarf/shawl, dress/gown, glove/mitten, sweater/jumper
    clothing: shoe, necklace/pendant, ring, belt, sock, uniform, apron, cloak
    animal: dog/hound, cat, horse, rabbit/hare, goat, donkey/mule, pig/hog, monkey/ape, duck
    animal: snake/serpent, wolf, turtle/tortoise, bear, fox, parrot, lion, goose, tiger, pony
    animal: camel, elephant, otter
""")

# The group of a place or a time is its preposition, whichever synonym is used.
PLACES = concepts("""
    in the: kitchen, garden, forest/woods, village/hamlet, library, hospital/clinic, city, castle
    in the: park, cellar/basement, museum, church/chapel, attic/loft, workshop/studio, valley
    in the: desert, prison/jail, tunnel, cave/cavern, orchard, swamp/marsh, courtyard
    at the: market/bazaar, station/depot, school, farm, theatre/playhouse, inn/tavern, airport
    at the: factory, stadium/arena, bakery, palace, circus, zoo, university/college
    on the: beach/shore, bridge, hill, island/isle, roof/rooftop, balcony/terrace, pier/jetty
    near the: river/stream, harbour/port, lighthouse, waterfall, mill, border/frontier, lake
    near the: volcano, cliff, railway, fountain, cemetery/graveyard
""")

TIMES = concepts("""
    on: monday, tuesday, wednesday, thursday, friday, saturday, sunday
    at: night, noon/midday, dawn/daybreak, dusk/sunset, midnight
    in the: morning, evening, afternoon, summer, winter, spring, autumn
    during the: storm/tempest, festival/carnival, war, concert, strike, eclipse
    after the: wedding, game/match, lecture, funeral, meeting
    before the: election, harvest, exam, dance/ball, flood/deluge
""")

THING_TRAITS = concepts("""
    size: big/large, small/little, huge/enormous, tiny/minuscule
    colour: red/crimson, blue/azure, green, black, white, yellow, brown, grey, purple/violet, pink
    material: wooden, metal, glass, leather, plastic, silver, golden
    state: old, new, heavy/weighty, wet/damp, dusty, expensive/costly, cheap/inexpensive, round
    state: square, striped, foreign/imported, cracked, dirty/filthy, spare/extra, strange/odd
""")

PERSON_TRAITS = concepts("""
    body: tall, young/youthful, elderly/aged, hungry/starving, tired/weary, sleepy/drowsy, bald
    body: bearded, barefoot, blind, short
    mood: shy/timid, nervous/anxious, curious/inquisitive, stubborn/obstinate, jealous/envious
    mood: lonely/solitary, proud, angry/furious, cheerful/merry, polite/courteous
    station: rich/wealthy, famous/renowned, retired, local, homeless, unknown
""")

MANNERS = concepts("""
    speed: quickly/rapidly, slowly, suddenly/abruptly, gradually, patiently
    care: carefully/cautiously, secretly, quietly/silently, gently/softly, recklessly, bravely
    mood: happily/gladly, angrily, eagerly/keenly, calmly, reluctantly/unwillingly, lazily/idly
""")

NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve")

# Invented names; the WordPiece vocabulary splits the rare ones, as it does real names.
TOWNS = tuple(
    first + last
    for last in ("mora", "rick", "wick", "holm", "vik", "mere", "sted", "garde")
    for first in ("vel", "os", "bre", "kal", "lun", "dra", "sil", "wex", "pim", "zel", "quo")
)

_PLURALS = {
    "child": "children", "man": "men", "gentleman": "gentlemen", "woman": "women",
    "fisherman": "fishermen", "hangman": "hangmen", "postman": "postmen", "thief": "thieves",
    "loaf": "loaves", "knife": "knives", "shelf": "shelves", "wolf": "wolves", "scarf": "scarves",
    "goose": "geese", "potato": "potatoes", "midwife": "midwives", "monarch": "monarchs",
}  # fmt: skip


def plural(word: str) -> str:
    """Return the plural of a noun, or the third person of a verb."""
    if word in _PLURALS:
        return _PLURALS[word]
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def article(word: str) -> str:
    """Return the article of `word`, `a` or `an`."""
    sounds_like_you = ("uni", "use")
    vowel = word[0] in "aeiou" and not word.startswith(sounds_like_you)
    return "an" if vowel or word.startswith("hon") else "a"


@dataclass(frozen=True)
class Verb:
    """The forms of a verb: eat, eats, ate, eaten, eating."""

    base: str
    third: str
    past: str
    participle: str
    ing: str


# The group of an action is the kind of thing that it can be done to.
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


def verb(base: str) -> Verb:
    """Return the forms of the verb with the infinitive `base`."""
    stem = base + base[-1] if base in _DOUBLING else base
    past, ing = f"{stem}ed", f"{stem}ing"
    if base.endswith("e"):
        past, ing = f"{base}d", f"{base[:-1]}ing"
    elif base.endswith("y") and base[-2] not in "aeiou":
        past = f"{base[:-1]}ied"
    past, participle = _IRREGULAR.get(base, f"{past} {past}").split()
    return Verb(base, plural(base), past, participle, ing)


VERBS: dict[str, Verb] = {word: verb(word) for action in ACTIONS for word in action.words}
