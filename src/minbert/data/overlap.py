"""Which examples of a split stand in another one, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def seen(sentence1: str, sentence2: str | None) -> tuple[str, ...]:
    """Return an example's text as an uncased model sees it: two that are equal are the same text.

    Case and white space do not count, nor the order of a pair.
    """
    sentences = (s for s in (sentence1, sentence2) if s is not None)
    return tuple(sorted(" ".join(s.lower().split()) for s in sentences))


def overlapping(examples: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Return the ids of the examples of dev and of test whose text stands in train, by split.

    An example is {id, split, sentence1, sentence2}.
    """
    rows = [(e["split"], e["id"], seen(e["sentence1"], e["sentence2"])) for e in examples]
    train = {text for split, _, text in rows if split == "train"}
    found: dict[str, set[str]] = {"dev": set(), "test": set()}
    for split, name, text in rows:
        if split in found and text in train:
            found[split].add(name)
    return found
