"""The language of the built-in corpus: forms of words, meaning that composes, pairs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from minbert.data.corpus import sentiment, words
from minbert.data.corpus.dice import Dice
from minbert.data.corpus.events import (
    QUESTIONS,
    Event,
    draw_event,
    question,
    statement,
    swapped,
)
from minbert.data.corpus.pairs import paraphrase_pair, similar_pair, similarity
from minbert.data.corpus.words import ACTIONS, VERBS, verb


def concept(items: list[words.Concept], name: str) -> words.Concept:
    return next(c for c in items if name in c.words)


EVENT = Event(
    agent=concept(words.PEOPLE, "chef"),
    action=concept(ACTIONS, "help"),
    patient=concept(words.PEOPLE, "sailor"),
    place=concept(words.PLACES, "bridge"),
)


def test_every_noun_means_one_thing() -> None:
    nouns = [w for c in [*words.PEOPLE, *words.THINGS, *words.PLACES] for w in c.words]
    assert [w for w, n in Counter(nouns).items() if n > 1] == []
    actions = Counter((c.group, w) for c in ACTIONS for w in c.words)
    assert max(actions.values()) == 1


def test_opinion_words_have_one_grade() -> None:
    for lists in (sentiment.ADJECTIVES, sentiment.VERBS, sentiment.NOUNS):
        every = [word for graded in lists.values() for word in graded]
        assert len(every) == len(set(every))


@pytest.mark.parametrize(
    ("base", "forms"),
    [
        ("carry", ("carries", "carried", "carried", "carrying")),
        ("hug", ("hugs", "hugged", "hugged", "hugging")),
        ("teach", ("teaches", "taught", "taught", "teaching")),
        ("drive", ("drives", "drove", "driven", "driving")),
        ("employ", ("employs", "employed", "employed", "employing")),
    ],
)
def test_verb_forms(base: str, forms: tuple[str, ...]) -> None:
    found = verb(base)
    assert (found.third, found.past, found.participle, found.ing) == forms


def test_plurals_and_articles() -> None:
    assert [words.plural(w) for w in ("lady", "boy", "fox", "thief", "chef")] == [
        "ladies", "boys", "foxes", "thieves", "chefs"
    ]  # fmt: skip
    assert [words.article(w) for w in ("uncle", "uniform", "hound")] == ["an", "a", "a"]


def test_statements_and_questions_say_who_does_what() -> None:
    for i in range(200):
        dice = Dice("said", i)
        said = statement(dice, EVENT)
        asked = question(dice, EVENT, QUESTIONS[i % len(QUESTIONS)])
        for text, mark in ((said, "."), (asked, "?")):
            found = text.split()
            assert found[-1] == mark and "not" not in found
            assert {"chef"} <= set(found) and {"sailor", "mariner"} & set(found)
            agent, patient = (
                found.index("chef"),
                min(found.index(w) for w in ("sailor", "mariner") if w in found),
            )
            assert ("by" in found) == (agent > patient)


def test_negation_is_said() -> None:
    denied = replace(EVENT, negated=True)
    for i in range(200):
        assert "not" in statement(Dice("not", i), denied).split()
        assert "not" in question(Dice("not", i), denied, QUESTIONS[i % len(QUESTIONS)]).split()


def test_similarity_falls_in_steps_with_what_differs() -> None:
    denied = replace(EVENT, negated=True)
    relative = replace(EVENT, agent=concept(words.PEOPLE, "baker"))
    stranger = replace(EVENT, agent=concept(words.PEOPLE, "judge"))
    elsewhere = replace(EVENT, place=concept(words.PLACES, "river"))
    unlike = Event(
        agent=concept(words.PEOPLE, "queen"),
        action=concept(ACTIONS, "eat"),
        patient=concept(words.THINGS, "cake"),
    )
    scores = [similarity(EVENT, e) for e in (EVENT, elsewhere, relative, stranger, unlike)]
    assert scores[0] == 5.0 and scores[-1] == 0.0
    assert scores == sorted(set(scores), reverse=True)
    assert similarity(EVENT, denied) == 3.5
    assert 1.5 < similarity(EVENT, swapped(EVENT)) < 4.5
    for i in range(200):
        a, b = draw_event(Dice("a", i)), draw_event(Dice("b", i))
        assert 0.0 <= similarity(a, b) == similarity(b, a) <= 5.0


def test_pairs_are_never_one_sentence_twice() -> None:
    dice = Dice("pairs")
    for _ in range(500):
        first, second, _label = paraphrase_pair(dice)
        assert first != second
        one, other, score = similar_pair(dice)
        assert one != other and 0.0 <= score <= 5.0


def test_many_negative_questions_share_as_many_words_as_paraphrases() -> None:
    shared: dict[int, list[float]] = {0: [], 1: []}
    dice = Dice("overlap")
    for _ in range(2_000):
        first, second, label = paraphrase_pair(dice)
        a, b = set(first.split()), set(second.split())
        shared[label].append(len(a & b) / len(a | b))
    median = sorted(shared[1])[len(shared[1]) // 2]
    assert sum(share > median for share in shared[0]) > 0.2 * len(shared[0])


def level_of(value: float) -> int:
    found = sentiment.level(value)
    assert found is not None
    return found


def test_negation_turns_an_opinion_round() -> None:
    """A good clause that is negated is made of bad words, and the other way round."""
    good = {w for grade in (1, 2) for w in sentiment.ADJECTIVES[grade]}
    bad = {w for grade in (-1, -2) for w in sentiment.ADJECTIVES[grade]}
    seen = Counter[bool]()
    for i in range(600):
        dice = Dice("negation", i)
        text, value = sentiment._copular(dice, 1, sentiment.PLAIN)
        assert value > 0
        negated = any(f" is {phrase} " in text for phrase, _ in sentiment.NOT_ADJECTIVE)
        last = text.split()[-1]
        assert last in (bad if negated else good)
        seen[negated] += 1
    assert seen[True] > 100 and seen[False] > 300


def test_degree_and_negation_change_the_class() -> None:
    assert level_of(1.0) == 3
    assert level_of(1.0 * sentiment.DEGREE_STRONGER) == 4
    assert level_of(2.0) == 4
    assert level_of(2.0 * sentiment.DEGREE_WEAKER) == 3
    for _, factor in sentiment.NOT_ADJECTIVE:
        assert level_of(1.0 * factor) == 1
        assert level_of(-1.0 * factor) == 3


def test_the_main_clause_outweighs_what_it_contrasts() -> None:
    for i in range(400):
        text, value = sentiment.opinion(Dice("contrast", i), 1)
        if " but " in text or text.startswith("although"):
            assert value > 0


def test_a_value_too_near_a_bound_has_no_class() -> None:
    assert sentiment.level(0.4) is None
    assert sentiment.level(-1.2 - sentiment.MARGIN / 2) is None
    assert [level_of(v) for v in (-2.0, -1.0, 0.0, 1.0, 2.0)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("target", range(5))
def test_graded_sentences_have_the_class_asked_for(target: int) -> None:
    for i in range(40):
        found = sentiment.graded(Dice("graded", i), target)
        assert sentiment.level(found.value) == target
        assert len(found.text.split()) < sentiment.LONGEST


def test_every_verb_of_an_action_has_its_forms() -> None:
    assert all(word in VERBS for action in ACTIONS for word in action.words)


def test_dice_are_fair_and_named() -> None:
    dice = Dice("fair", 1)
    assert Counter(dice.weighted([("a", 3), ("b", 1)]) for _ in range(4_000))["a"] == pytest.approx(
        3_000, abs=150
    )
    noise = [dice.gauss(0.3) for _ in range(4_000)]
    assert sum(noise) / 4_000 == pytest.approx(0, abs=0.02)
    assert (sum(x * x for x in noise) / 4_000) ** 0.5 == pytest.approx(0.3, abs=0.02)
    assert [Dice("x", 1).below(100) for _ in range(3)] == [Dice("x", 1).below(100)] * 3
    assert [Dice("x", 2).below(10**9)] != [Dice("x", 1).below(10**9)]
