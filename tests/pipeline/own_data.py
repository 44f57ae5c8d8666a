"""Files like AG News and MRPC, small enough to train on in a test."""

from __future__ import annotations

import random
from pathlib import Path

TOPICS = {
    "world": "minister border treaty election embassy parliament troops president",
    "sports": "match striker coach league goal referee stadium season",
    "business": "shares profit market bank merger investors quarter revenue",
    "technology": "software chip browser server startup network laptop update",
}
PLACES = ("Monday", "a report", "the city", "this week", "officials", "two sources")


def news(draw: random.Random) -> tuple[str, str]:
    """Return a headline and its topic."""
    topic = draw.choice(list(TOPICS))
    words = draw.sample(TOPICS[topic].split(), 4)
    first, second = draw.sample(PLACES, 2)
    return (
        f"The {words[0]} and the {words[1]}, {first} said of {words[2]} {second} {words[3]}",
        topic,
    )


def pair(draw: random.Random) -> tuple[str, str, int]:
    """Return two sentences, and whether they say the same."""
    one, _ = news(draw)
    words = one.split()
    if same := draw.random() < 0.6:
        words[1], words[4] = words[4].rstrip(","), words[1]
    else:
        words = news(draw)[0].split()
    return one, f'"{" ".join(words)}" she said.', int(same)


def write(folder: Path, seed: int = 0, rows: int = 240) -> None:
    """Write `news/train.tsv`, `news/dev.tsv`, `news/test.tsv` and `mrpc.tsv`."""
    draw = random.Random(seed)
    (folder / "news").mkdir()
    for split, count in (("train", rows), ("dev", rows // 4), ("test", rows // 4)):
        lines = [f"{topic}\t{text}" for text, topic in (news(draw) for _ in range(count))]
        text = "\n".join(["topic\ttext", *lines]) + "\n"
        (folder / "news" / f"{split}.tsv").write_text(text, encoding="utf-8")
    pairs = [
        f"{same}\t{n}\t{a}\t{b}" for n, (a, b, same) in enumerate(map(pair, [draw] * rows * 2))
    ]
    (folder / "mrpc.tsv").write_text("\n".join(["same\tid\ta\tb", *pairs]) + "\n", encoding="utf-8")
