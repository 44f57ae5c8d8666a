"""The words of opinion, each list with its grade: what sentiment is composed of.

A sentiment is a number: the grade of an opinion word (1 mild, 2 strong, negative when bad) times
the factor of its degree word, times the factor of its negation.
"""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ADJECTIVES: dict[int, tuple[str, ...]] = {
    2: _words("""superb brilliant wonderful magnificent stunning dazzling marvellous masterful
        outstanding breathtaking exquisite glorious splendid sublime exceptional spectacular
        extraordinary unforgettable irresistible flawless phenomenal triumphant luminous
        enthralling radiant majestic"""),
    1: _words("""pleasant charming amusing engaging decent likeable clever fresh enjoyable lively
        thoughtful witty solid graceful agreeable tender inventive entertaining appealing warm
        satisfying elegant watchable sincere sweet capable funny refined playful sturdy"""),
    -1: _words("""dull bland tedious predictable shallow clumsy slow stale uneven forgettable
        muddled weak messy lifeless tiresome hollow thin plodding sloppy trite contrived feeble
        overlong dreary monotonous awkward flat confused mediocre laboured"""),
    -2: _words("""awful terrible dreadful horrible atrocious abysmal appalling ghastly wretched
        unbearable insufferable disastrous pathetic unwatchable laughable excruciating hideous
        miserable dismal ludicrous inept idiotic worthless rotten repulsive putrid"""),
}  # fmt: skip

VERBS: dict[int, tuple[str, ...]] = {
    2: ("enchant", "captivate", "thrill", "dazzle", "fascinate", "inspire", "enthral"),
    1: ("amuse", "entertain", "please", "impress", "delight", "charm", "satisfy", "engage"),
    -1: ("bore", "annoy", "disappoint", "confuse", "tire", "frustrate", "irritate", "bewilder"),
    -2: ("insult", "exhaust", "disgust", "enrage", "appal", "torment", "sicken"),
}

NOUNS: dict[int, tuple[str, ...]] = {
    2: ("brilliance", "wonder", "genius", "splendour", "magic", "passion", "beauty"),
    1: ("wit", "warmth", "grace", "energy", "humour", "imagination", "insight", "style"),
    -1: (
        "laziness",
        "padding",
        "confusion",
        "noise",
        "clutter",
        "filler",
        "gloom",
        "sentimentality",
    ),
    -2: ("nonsense", "stupidity", "drivel", "ugliness", "cruelty", "vulgarity", "rubbish"),
}

STRONGER = (
    "very", "truly", "really", "extremely", "remarkably", "thoroughly", "utterly", "deeply",
    "absolutely", "incredibly", "wildly", "consistently",
)  # fmt: skip
WEAKER = (
    "somewhat", "slightly", "fairly", "a little", "mildly", "a bit", "vaguely", "moderately",
    "faintly", "partially",
)  # fmt: skip
DEGREE_STRONGER, DEGREE_WEAKER = 1.4, 0.5

# What turns an opinion round, and how much of it is left.
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

GENRES = (
    "film", "movie", "drama", "comedy", "thriller", "story", "romance", "western", "mystery",
    "musical", "documentary", "sequel", "adventure", "fantasy", "tale", "satire", "remake",
    "cartoon", "biography", "epic", "fable", "melodrama", "prequel", "spectacle",
)  # fmt: skip
ASPECTS = (
    "acting", "plot", "script", "ending", "dialogue", "music", "cast", "direction", "pacing",
    "camerawork", "soundtrack", "opening", "scenery", "premise", "editing", "finale", "mood",
    "narration", "screenplay", "chemistry", "photography", "animation", "choreography",
    "lighting", "atmosphere", "lead performance", "supporting cast", "first half", "second half",
    "final twist", "central idea", "title song",
)  # fmt: skip
AUDIENCES = (
    "the audience", "viewers", "everyone", "me", "us", "critics", "adults", "fans", "newcomers",
    "anybody", "parents", "teenagers", "my friends", "the crowd", "listeners", "cynics",
)  # fmt: skip
