"""The index of all published rows: which of them were scored here, and what they scored."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from minbert.base.files import write_text
from minbert.evaluate.table_rows import SCORED
from minbert.evaluate.text import csv_text, markdown, markdown_table, read_csv
from minbert.spec.published import FIGURES
from minbert.store.job import Job

NAMES = ("paper", "table", "row", "variant", "split")
"""What tells published rows apart."""

COLUMNS = (
    *(*NAMES, "status", "seeds"),
    *(f"{figure}_{side}" for figure in FIGURES for side in ("published", "ours")),
    *("backbone", "reason", "keys"),
)

NOT_CONFIGURED = "not configured"
"""The status of a row whose variant no configured grid has."""

Line = Mapping[str, Any]


def make(job: Job) -> None:
    """List every published row with its status and scores."""
    build_index(job.spec["published"], job.needs("table").values(), job.out)


def build_index(published: Sequence[Line], tables: Iterable[Path], out_dir: Path) -> None:
    """Write `index.csv` and `index.md` in `out_dir`.

    `published` are the rows of published.csv, in order: {paper, table, row, variant, split,
    figures}. `tables` are the papers' csv tables. A row whose paper or variant is
    in none of them is `not configured`.
    """
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for line in chain.from_iterable(map(read_csv, tables)):
        found[tuple(line[name] for name in NAMES)] = line
    lines = [_line(row, found) for row in published]
    write_text(out_dir / "index.csv", csv_text(COLUMNS, lines))
    write_text(out_dir / "index.md", _markdown(lines))


def in_words(lines: Sequence[Line]) -> str:
    """Return how many of the index's lines have scores, and what the others are."""
    if not lines:
        return "none of these papers has a published row"
    counts = Counter(line["status"] for line in lines)
    rest = ", ".join(f"{n} {status}" for status, n in counts.items() if status != SCORED)
    said = f"{counts[SCORED]} of {len(lines)} published rows scored"
    return said + (f" ({rest})" if rest else "")


def _line(row: Line, found: Mapping[tuple[str, ...], Line]) -> dict[str, Any]:
    line = {name: row[name] for name in NAMES}
    line |= {f"{figure}_published": row["figures"][figure] for figure in FIGURES}
    if (ours := found.get(tuple(str(row[name]) for name in NAMES))) is None:
        return line | {"status": NOT_CONFIGURED}
    columns = {"other": ours["other_task"], "overall": f"overall_{ours['overall_rule']}"}
    scores = {figure: ours.get(f"{columns.get(figure, figure)}_mean", "") for figure in FIGURES}
    line |= {f"{figure}_ours": scores[figure] for figure in FIGURES}
    return line | {name: ours[name] for name in ("status", "seeds", *COLUMNS[-3:])}


def _markdown(lines: Sequence[Line]) -> str:
    about = ("paper", "table", "row", "split", "status")
    cells = [[*map(str.capitalize, about), "Published", "Ours"]]
    for line in lines:
        sides = [_figures(line, "published"), _figures(line, "ours")]
        cells.append([*(str(line[name]) for name in about), *sides])
    summary = in_words(lines)
    said = "Accuracy for SST, para and other; Pearson r for STS; overall by the paper's own rule."
    parts = ["# Every published row", f"{summary[0].upper()}{summary[1:]}."]
    parts += [said, markdown_table(cells)] if lines else []
    names = dict.fromkeys(line["backbone"] for line in lines if "backbone" in line)
    parts += [f"Backbone: {markdown(name)}." for name in names]
    return "\n\n".join(parts) + "\n"


def _figures(line: Line, side: str) -> str:
    """Return those figures that the paper gives for a row, `published` or `ours`, in words."""
    given = [name for name in FIGURES if line[f"{name}_published"] not in ("", None)]
    shown = {name: line.get(f"{name}_{side}") for name in given}
    return ", ".join(f"{name} {float(v):.3f}" for name, v in shown.items() if v not in ("", None))
