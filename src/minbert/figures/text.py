"""Text from data on a figure: on one line, in letters that the font has, wrapped to a width."""

from __future__ import annotations

from functools import cache

from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.textpath import TextToPath

from minbert.evaluate.escape import one_line

_FAMILY = "DejaVu Sans"
_PATHS = TextToPath()


def plain(text: str) -> str:
    """Return `text` on one line, without control characters (marks of direction too).

    A character that the font has not stands as its code point, `<U+4E2D>`. Letters that are
    written from right to left stand in their logical order.
    """
    known = _known()
    return "".join(c if ord(c) in known else f"<U+{ord(c):04X}>" for c in one_line(text))


@cache
def _known() -> frozenset[int]:
    return frozenset(get_font(findfont(_FAMILY)).get_charmap())


def width(text: str, size: float) -> float:
    """Return how wide `text` is at a font size, both in points."""
    font = FontProperties(family=_FAMILY, size=size)
    return float(_PATHS.get_text_width_height_descent(text, font, ismath=False)[0])


def wrapped(text: str, size: float, limit: float, most: int) -> list[str]:
    """Return `text` in at most `most` lines, none wider than `limit` points.

    A word that is wider than a line is broken; what is left over is cut off and marked by an
    ellipsis.
    """
    lines: list[str] = []
    line = ""
    for word in text.split():
        rest = word
        while rest:
            tried = f"{line} {rest}" if line else rest
            if width(tried, size) <= limit:
                line, rest = tried, ""
            elif line:
                lines.append(line)
                line = ""
            else:
                fits = _fitting(rest, size, limit)
                lines.append(rest[:fits])
                rest = rest[fits:]
            if len(lines) > most:
                break
    lines += [line] if line else []
    if len(lines) <= most:
        return lines
    last = lines[most - 1]
    while last and width(f"{last}\u2026", size) > limit:
        last = last[:-1]
    return [*lines[: most - 1], f"{last.rstrip()}\u2026"]


def _fitting(word: str, size: float, limit: float) -> int:
    """Return how many of a word's letters fit on a line, at least one."""
    low, high = 1, len(word)
    while low < high:
        middle = (low + high + 1) // 2
        if width(word[:middle], size) <= limit:
            low = middle
        else:
            high = middle - 1
    return low
