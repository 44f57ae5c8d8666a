"""Text for tables: escaped for markdown and LaTeX, and set as markdown, LaTeX or csv."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError

ABSENT = "—"
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|#&~$])")

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


def p_value(p: float) -> str:
    """Return a p-value as text."""
    return "< .001" if p < 0.001 else f"{p:.3f}"


def markdown(text: str) -> str:
    """Return `text` escaped for a markdown table cell or paragraph."""
    return _MARKDOWN.sub(r"\\\1", one_line(text))


def latex(text: str) -> str:
    """Return `text` escaped for LaTeX, in characters that pdflatex knows."""
    return "".join(_LATEX.get(c, c) for c in one_line(text))


def markdown_table(rows: Sequence[Sequence[str]], left: int | None = None) -> str:
    """Return `rows`, the heading first, as an aligned markdown table, escaped.

    The first `left` columns are aligned left and the others right; None: all left.
    """
    shown = [[markdown(cell) for cell in row] for row in rows]
    widths = [max(3, *(len(row[i]) for row in shown)) for i in range(len(shown[0]))]
    ways = ["<" if left is None or i < left else ">" for i in range(len(widths))]
    columns = list(zip(widths, ways, strict=True))
    rule = [f":{'-' * (w - 1)}" if way == "<" else f"{'-' * (w - 1)}:" for w, way in columns]
    form = f"| {' | '.join(f'{{:{way}{w}}}' for w, way in columns)} |"
    return "\n".join(form.format(*row) for row in (shown[0], rule, *shown[1:]))


def latex_float(
    name: str,
    caption: str,
    columns: str,
    rows: Sequence[Sequence[str]],
    remarks: Iterable[str],
    above: Sequence[str] = (),
) -> str:
    """Return a LaTeX float over both columns, with `remarks` under the table; needs booktabs.

    `name` makes its label, `columns` are the column types and the first of `rows` is the heading.
    `above` are finished lines of LaTeX over the heading; all other text is escaped.
    """
    cells = [[re.sub(r"^-(?=\d)", "$-$", latex(cell)) for cell in row] for row in rows]
    head, *lines = [" & ".join(row) + r" \\" for row in cells]
    label = "".join(c if c.isascii() and c.isalnum() else "-" for c in name)
    top = [r"\begin{table*}[t]", r"\centering\scriptsize\setlength{\tabcolsep}{3pt}"]
    top += [rf"\caption{{{latex(caption)}}}", rf"\label{{tab:{label}}}"]
    top += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", *above, head, r"\midrule"]
    end = [r"\bottomrule", r"\end{tabular}", r"\par\medskip\raggedright"]
    end += [latex(remark) + r"\par" for remark in remarks]
    return "\n".join([*top, *lines, *end, r"\end{table*}", ""])


def read_csv(path: Path, delimiter: str = ",") -> list[dict[str, str]]:
    """Return the lines of a csv file by the names of its heading; `UserError` if it is damaged."""
    try:
        with path.open(encoding="utf-8", newline="") as handle:
            return list(csv.DictReader(handle, delimiter=delimiter, strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: not a table in text: {error}") from None


def csv_text(
    columns: Sequence[str], lines: Iterable[Mapping[str, Any]], delimiter: str = ","
) -> str:
    """Return `lines` as csv with a heading; None is an empty cell.

    Floats have 8 significant digits: the last bits of a sum depend on the processor.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    for line in lines:
        writer.writerow(
            {k: float(f"{v:.8g}") if isinstance(v, float) else v for k, v in line.items()}
        )
    return text.getvalue()
