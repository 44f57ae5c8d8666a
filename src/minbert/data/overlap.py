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


def overlapping(examples: Iterable[Mapping[str, Any]], split: str) -> set[str]:
    """Return the ids of a split's examples whose text stands in train.

    An example is {id, split, sentence1, sentence2}.
    """
    rows = [(e["split"], e["id"], seen(e["sentence1"], e["sentence2"])) for e in examples]
    train = {text for of, _, text in rows if of == "train"}
    return {name for of, name, text in rows if of == split and text in train}
