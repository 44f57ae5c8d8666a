"""The index of all published rows: which of them were scored here, and what they scored."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from minbert.common.errors import UserError
from minbert.common.files import write_text
from minbert.evaluate.table_rows import SCORED
from minbert.evaluate.write import csv_text, markdown_table

NOT_CONFIGURED = "not configured"
FIGURES = ("sst", "para", "sts", "other", "overall")
COLUMNS = (
    *("paper", "table", "row", "variant", "split", "status", "seeds"),
    *(f"{figure}_{side}" for figure in FIGURES for side in ("published", "ours")),
    *("reason", "keys"),
)


def build_index(
    published: Sequence[Mapping[str, Any]], tables: Iterable[Path], out_dir: Path
) -> str:
    """Write `index.csv` and `index.md` in `out_dir`; return how many rows are scored, in words.

    `published` are the rows of published.csv, in order: {paper, table, row, variant, split,
    figures}. `tables` are the papers' csv tables, as `build_table` makes them. A row whose paper
    or variant is in none of them is `not configured`.
    """
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for path in tables:
        with path.open(encoding="utf-8", newline="") as handle:
            for line in csv.DictReader(handle):
                found[tuple(line[name] for name in ("paper", "table", "row", "variant"))] = line
    lines = [_line(row, found) for row in published]
    summary = in_words(lines)
    write_text(out_dir / "index.csv", csv_text(COLUMNS, lines))
    write_text(out_dir / "index.md", _markdown(summary, lines))
    return summary


def in_words(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return how many of the index's lines have scores, and what the others are."""
    counts = Counter(line["status"] for line in lines)
    rest = ", ".join(f"{n} {status}" for status, n in counts.items() if status != SCORED)
    said = f"{counts[SCORED]} of {len(lines)} published rows scored"
    return said + (f" ({rest})" if rest else "")


def _line(
    row: Mapping[str, Any], found: Mapping[tuple[str, ...], Mapping[str, str]]
) -> dict[str, Any]:
    names = tuple(str(row[name]) for name in ("paper", "table", "row", "variant"))
    line = {name: row[name] for name in ("paper", "table", "row", "variant", "split")}
    line |= {f"{figure}_published": row["figures"][figure] for figure in FIGURES}
    ours = found.get(names)
    if ours is None:
        return line | {"status": NOT_CONFIGURED}
    if ours["split"] != row["split"]:
        raise UserError(
            f"{' / '.join(names)}: the paper's table has split '{ours['split']}', published.csv "
            f"'{row['split']}'; make the tables anew"
        )
    scores = {figure: ours[f"{figure}_mean"] for figure in FIGURES if figure != "overall"}
    scores["overall"] = ours[f"overall_{ours['overall_rule']}_mean"]
    line |= {f"{figure}_ours": scores[figure] for figure in FIGURES}
    return line | {name: ours[name] for name in ("status", "seeds", "reason", "keys")}


def _markdown(summary: str, lines: Sequence[Mapping[str, Any]]) -> str:
    heads = ("Paper", "Table", "Row", "Split", "Status", "Published", "Ours")
    cells: list[tuple[str, ...]] = [heads]
    for line in lines:
        about = (line["paper"], line["table"], line["row"], line["split"], line["status"])
        sides = (_figures(line, "published"), _figures(line, "ours"))
        cells.append(tuple(map(str, (*about, *sides))))
    said = "Accuracy of SST, para and other; Pearson r of STS; overall by the paper's own rule."
    return (
        "\n".join(["# Every published row", "", f"{summary}.", "", said, "", markdown_table(cells)])
        + "\n"
    )


def _figures(line: Mapping[str, Any], side: str) -> str:
    """Return the figures that the paper gives for a row, published or ours, in words.

    Ours are shown where the paper has one, or all where it has none.
    """
    given = [name for name in FIGURES if line[f"{name}_published"] not in ("", None)]
    shown = {name: line.get(f"{name}_{side}") for name in given}
    return ", ".join(f"{name} {float(v):.3f}" for name, v in shown.items() if v not in ("", None))
