"""Text from specs, made harmless for markdown and LaTeX."""

from __future__ import annotations

import re

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
    "±": r"$\pm$",
    "×": r"$\times$",  # noqa: RUF001 - the sign of multiplication
    "−": r"$-$",  # noqa: RUF001 - the minus sign, which fonts of pdflatex lack
    "→": r"$\to$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "λ": r"$\lambda$",
    "–": "--",  # noqa: RUF001 - the en dash
    "—": "---",
}


def one_line(text: str) -> str:
    """Return `text` on one line: control characters (escape codes too) and runs of space go."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def markdown(text: str) -> str:
    """Return `text` as literal text of one markdown table cell or paragraph."""
    return _MARKDOWN.sub(r"\\\1", one_line(text))


def latex(text: str) -> str:
    """Return `text` as literal text of LaTeX, in characters that pdflatex knows."""
    return "".join(_LATEX.get(c, c) for c in one_line(text))


def label(text: str) -> str:
    """Return `text` as the name of a LaTeX label."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in text)
