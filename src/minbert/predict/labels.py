"""What the classes of a task are called. A task may have no names for them."""

from __future__ import annotations

CLASS_NAMES: dict[str, tuple[str, ...]] = {
    "sst": ("negative", "somewhat negative", "neutral", "somewhat positive", "positive"),
    "para": ("different", "paraphrase"),
    "cfimdb": ("negative", "positive"),
    "lmrd": ("1-2 stars", "3-4 stars", "5-6 stars", "7-8 stars", "9-10 stars"),
}


def class_name(task: str, number: int) -> str | None:
    """Return the name of class `number` of `task`, or None if it has none."""
    names = CLASS_NAMES.get(task, ())
    return names[number] if 0 <= number < len(names) else None
