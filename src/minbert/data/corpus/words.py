"""The small world that all tasks speak of: people, things, places, times, traits, manners.

A concept is one meaning with its synonyms, the usual word first. Concepts of one group are
related (a nurse and a dentist); every word belongs to one concept only, so that which words mean
the same can be learnt from the text.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Concept:
    """One meaning: its words, synonyms of each other, and the group of its relatives."""

    words: tuple[str, ...]
    group: str


def concepts(text: str) -> list[Concept]:
    """Read lines of `group: word/synonym, word, ...`; the order is kept."""
    found = []
    for line in text.strip().splitlines():
        group, _, entries = line.partition(": ")
        for entry in entries.split(", "):
            found.append(Concept(tuple(w.strip() for w in entry.split("/")), group.strip()))
    return found


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

# "in X" and the like; the preposition goes with the place, whatever word is used for it.
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

# Invented names of towns; rare ones are split by the WordPiece vocabulary, as real names are.
TOWNS = tuple(
    first + last
    for last in ("mora", "rick", "wick", "holm", "vik", "mere", "sted", "garde")
    for first in ("vel", "os", "bre", "kal", "lun", "dra", "sil", "wex", "pim", "zel", "quo")
)

_PLURALS = {
    "child": "children", "man": "men", "gentleman": "gentlemen", "woman": "women",
    "fisherman": "fishermen", "hangman": "hangmen", "postman": "postmen", "thief": "thieves",
    "loaf": "loaves", "knife": "knives", "shelf": "shelves", "wolf": "wolves", "scarf": "scarves",
    "goose": "geese", "potato": "potatoes", "midwife": "midwives",
    "monarch": "monarchs",
}  # fmt: skip


def plural(noun: str) -> str:
    """Return the plural of `noun`."""
    if noun in _PLURALS:
        return _PLURALS[noun]
    if noun.endswith(("s", "x", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"


def article(word: str) -> str:
    """Return `a` or `an`, whichever stands before `word`."""
    sounds_like_you = ("uni", "use")
    vowel = word[0] in "aeiou" and not word.startswith(sounds_like_you)
    return "an" if vowel or word.startswith("hon") else "a"
