"""The claims table as people read it: markdown and LaTeX."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from minbert.evaluate import escape
from minbert.evaluate.bootstrap import RESAMPLES
from minbert.evaluate.verdict import FAILS, HOLDS, LEVEL, NOISE, NOT_RUN
from minbert.evaluate.write import markdown_table
from minbert.grid.tasks import TASKS

ABSENT = "—"
HEADS = (
    *("Claim", "Section", "Compared", "Task", "Claimed", "Paper", "Ours", "95 % interval"),
    *("p", "n", "Seeds", "Verdict"),
)
WIDE = {"Claim": 4.6, "Compared": 2.6}
"""Columns of LaTeX that break their lines, and their widths in cm."""

VERDICTS = {HOLDS: "as claimed", FAILS: "not as claimed", NOISE: NOISE, NOT_RUN: NOT_RUN}
"""Each verdict, in words for several of them."""

Line = Mapping[str, Any]


def to_markdown(spec: Mapping[str, Any], lines: Sequence[Line]) -> str:
    """Return the claims as markdown, a section a paper; what holds for all stands at the end."""
    parts = ["# What the papers claim", escape.markdown(f"{counted(lines)}.")]
    for paper, title in spec["titles"].items():
        of_paper = [line for line in lines if line["paper"] == paper]
        parts += [f"## {escape.markdown(title)}", escape.markdown(f"{counted(of_paper)}.")]
        parts.append(markdown_table([HEADS, *map(cells, of_paper)]))
    parts += ["## How to read this", *map(escape.markdown, remarks(spec))]
    return "\n\n".join(parts) + "\n"


def to_latex(spec: Mapping[str, Any], lines: Sequence[Line]) -> str:
    """Return a LaTeX float over both columns for each paper. They need the package booktabs."""
    return "\n".join(
        _float(spec, paper, [line for line in lines if line["paper"] == paper])
        for paper in spec["titles"]
    )


def _float(spec: Mapping[str, Any], paper: str, lines: Sequence[Line]) -> str:
    columns = "".join(rf"p{{{WIDE[head]}cm}}" if head in WIDE else "l" for head in HEADS)
    caption = f"What {paper} claims ({spec['titles'][paper]}). {counted(lines)}."
    rows = [HEADS, *map(cells, lines)]
    text = [" & ".join(map(escape.latex, row)) + r" \\" for row in rows]
    return "\n".join(
        [
            r"\begin{table*}[t]",
            r"\centering\scriptsize\setlength{\tabcolsep}{3pt}",
            rf"\caption{{{escape.latex(caption)}}}",
            rf"\label{{tab:claims-{escape.label(paper)}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            text[0],
            r"\midrule",
            *text[1:],
            r"\bottomrule",
            r"\end{tabular}",
            r"\par\medskip\raggedright",
            *(escape.latex(remark) + r"\par" for remark in remarks(spec)),
            r"\end{table*}",
            "",
        ]
    )


def counted(lines: Sequence[Line]) -> str:
    """Return how many claims came to which verdict, in words."""
    counts = Counter(line["verdict"] for line in lines)
    said = [f"{counts[verdict]} {words}" for verdict, words in VERDICTS.items() if counts[verdict]]
    return f"{len(lines)} comparison{'s' * (len(lines) != 1)}: {', '.join(said)}"


def cells(line: Line) -> tuple[str, ...]:
    """Return a claim's cells as plain text, none of them empty."""
    own = (line["claim"], line["section"], _compared(line), _task(line["task"]), _claimed(line))
    published = _signed(line["published_difference"])
    if "difference" not in line:
        return (*own, published, *[ABSENT] * 5, line["verdict"])
    interval = f"{_signed(line['low'])} to {_signed(line['high'])}"
    p = "< .001" if line["p_holm"] < 0.001 else f"{line['p_holm']:.3f}"
    seeds = "/".join(str(s) for s in (line["seeds"], line["seeds_against"]) if s is not None)
    ours = (_signed(line["difference"]), interval, p, str(line["examples"]), seeds)
    return (*own, published, *ours, line["verdict"])


def _compared(line: Line) -> str:
    names = line["against"].split()
    if len(names) == 1:
        return f"{line['variant']} − {names[0]}"  # noqa: RUF001 - the minus sign
    which = f"{line['strongest']}, of" if "strongest" in line else "each of"
    return f"{line['variant']} − {which} {len(names)} others"  # noqa: RUF001 - the minus sign


def _task(task: str) -> str:
    return TASKS[task].title if task in TASKS else f"overall, {task}"


def _claimed(line: Line) -> str:
    if line["margin"] == "":
        return str(line["direction"])
    return f"{line['direction']} (by {line['margin']:g})".replace("same (by", "same (within")


def _signed(value: float | None) -> str:
    return ABSENT if value is None else f"{value:+.3f}".replace("-", "−")  # noqa: RUF001


def remarks(spec: Mapping[str, Any]) -> list[str]:
    """Return the sentences under the table, as plain text, that say how to read it."""
    return [
        "Paper and Ours: the score of the first less that of the second, on dev; of several "
        "others, the one that speaks most against the claim. Scores: accuracy; STS Pearson r; "
        "overall by the paper's own rule.",
        f"Interval: of this difference alone, by the paired bootstrap over examples "
        f"({RESAMPLES:,} resamples; Efron & Tibshirani 1993); with several seeds, hierarchical "
        "over seeds and examples, with Student's t and Satterthwaite's degrees of freedom. One "
        "seed says nothing of what another training run would score.",
        f"p: adjusted by Holm (1979) for the paper's claims. At most {LEVEL:g}: the claim holds, "
        "or does not hold, where the difference lies outside of what it claims; above: within "
        "noise, neither is shown. n: examples; of an overall score, those of its tasks together.",
        "Dev also chose the epoch of every run, which favours all of them; see the tables for the "
        "last epoch's scores.",
        f"Backbone: {spec['backbone']}. Data: {spec['data']}. Seeds asked for: {spec['seeds']}. "
        f"{ABSENT}: not published, or not run.",
    ]
