"""Tables as text: markdown with aligned columns, and csv."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from minbert.evaluate import escape


def markdown_table(rows: Sequence[Sequence[str]], left: int | None = None) -> str:
    """Return `rows`, heads first, as a markdown table; text is escaped.

    The first `left` columns are aligned to the left and the others to the right; None: all left.
    """
    shown = [[escape.markdown(cell) for cell in row] for row in rows]
    widths = [max(3, *(len(row[i]) for row in shown)) for i in range(len(shown[0]))]
    ways = ["<" if left is None or i < left else ">" for i in range(len(widths))]
    columns = list(zip(widths, ways, strict=True))
    rule = [f":{'-' * (w - 1)}" if way == "<" else f"{'-' * (w - 1)}:" for w, way in columns]
    form = f"| {' | '.join(f'{{:{way}{w}}}' for w, way in columns)} |"
    return "\n".join(form.format(*row) for row in (shown[0], rule, *shown[1:]))


def csv_text(columns: Sequence[str], lines: Iterable[Mapping[str, Any]]) -> str:
    """Return `lines` as csv with a head; None is an empty cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()
