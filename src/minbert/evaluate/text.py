"""Text for tables: escaped for markdown and LaTeX, and set as markdown, LaTeX or csv."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from minbert.base.files import write_text

ABSENT = "—"

Line = Mapping[str, Any]
"""A row of a table, by the names of its columns."""

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    '"': "''",
    "[": "{[}",  # a row that opens with a bracket would be the option of the line break before it
    "]": "{]}",
    "*": "{*}",
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
    "°": r"$^\circ$",
    "±": r"$\pm$",
    "×": r"$\times$",  # noqa: RUF001 - the sign of multiplication
    "−": r"$-$",  # noqa: RUF001 - the minus sign, which fonts of pdflatex lack
    "→": r"$\to$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "λ": r"$\lambda$",
    "Δ": r"$\Delta$",
    "–": "--",  # noqa: RUF001 - the en dash
    "—": "---",
}


def one_line(text: str) -> str:
    """Return `text` on one line, without control characters, escape codes or runs of space."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def markdown(text: str) -> str:
    """Return `text` escaped for a markdown table cell or paragraph."""
    return re.sub(r"([\\`*_\[\]<>|#&~$])", r"\\\1", one_line(text))


def latex(text: str) -> str:
    """Return `text` escaped for LaTeX, in characters that pdflatex knows."""
    return "".join(_LATEX.get(c, c) for c in one_line(text))


def markdown_table(rows: Sequence[Sequence[str]], left: int | None = None) -> str:
    """Return `rows`, the heading first, as an aligned markdown table, escaped.

    The first `left` columns are aligned left and the others right; None: all left.
    """
    columns = []
    for place, cells in enumerate(zip(*rows, strict=True)):
        shown = [*map(markdown, cells)]
        width = max(3, *map(len, shown))
        aligned = str.ljust if left is None or place < left else str.rjust
        head, *others = (aligned(cell, width) for cell in shown)
        columns.append([head, aligned(":", width, "-"), *others])
    return "\n".join(f"| {' | '.join(row)} |" for row in zip(*columns, strict=True))


def write_markdown(path: Path, title: str, parts: Iterable[str]) -> None:
    """Write a page of `parts`, which are markdown, below its `title`; empty ones are left out."""
    write_text(path, "\n\n".join(filter(None, [f"# {markdown(title)}", *parts])) + "\n")


def latex_float(
    name: str,
    caption: str,
    columns: str,
    rows: Sequence[Sequence[str]],
    remarks: Iterable[str],
    groups: Sequence[tuple[str, int]] = (),
) -> str:
    """Return a LaTeX float over both columns, with `remarks` under the table; needs booktabs.

    `name` makes its label, `columns` are the column types and the first of `rows` is the heading.
    `groups` are of columns, with the number of each, and stand above the heading, if named.
    """
    label = re.sub("[^0-9A-Za-z]", "-", name)
    lines = [r"\begin{table*}[t]", r"\centering\scriptsize\setlength{\tabcolsep}{3pt}"]
    lines += [rf"\caption{{{latex(caption)}}}", rf"\label{{tab:{label}}}"]
    lines += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    above, rules, end = [], "", 0
    for group, n in groups:
        end += n
        above += [rf"\multicolumn{{{n}}}{{c}}{{{latex(group)}}}"] if group else [""] * n
        rules += rf"\cmidrule(lr){{{end - n + 1}-{end}}}" if group else ""
    lines += [" & ".join(above) + r" \\", rules] * bool(groups)
    cells = [[re.sub(r"^-(?=\d)", "$-$", latex(cell)) for cell in row] for row in rows]
    head, *body = [" & ".join(row) + r" \\" for row in cells]
    lines += [head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]
    lines += [r"\par\medskip\raggedright", *(latex(remark) + r"\par" for remark in remarks)]
    return "\n".join([*lines, r"\end{table*}", ""])


def read_csv(path: Path) -> list[dict[str, str]]:
    """Return the lines of a csv file that `write_csv` made, by the names of its heading."""
    with path.open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def write_csv(
    path: Path, columns: Sequence[str], lines: Iterable[Line], delimiter: str = ","
) -> None:
    """Write the `columns` of `lines` as csv with a heading; None, or nothing, is an empty cell.

    Floats have 8 significant digits: the last bits of a sum depend on the processor.
    """
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    for line in lines:
        cells = (line.get(column) for column in columns)
        writer.writerow(float(f"{c:.8g}") if isinstance(c, float) else c for c in cells)
    write_text(path, text.getvalue())
