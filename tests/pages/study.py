"""docs/study.md: its tables, from study/tables and study/reasons.yaml.

`cd tests && python -m pages.study` fills them; a test holds the page to them. A table stands
between the lines `<!-- NAME ARGUMENTS -->` and `<!-- end -->`, where NAME is one of `TABLES`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from minbert.base.files import write_text
from minbert.commands.plan import CLEARLY
from minbert.evaluate import claims
from minbert.evaluate.claims import FAILS, NOT_RUN
from minbert.evaluate.claims import IN_WORDS as WORDS
from minbert.evaluate.reading import LEAST_GAIN, gain
from minbert.evaluate.text import ABSENT, read_csv
from minbert.plan.cost import SIZES

ROOT = Path(__file__).parents[2]
STUDY, PAGE = ROOT / "study", ROOT / "docs" / "study.md"
TASKS = {"sst": "SST", "para": "paraphrases", "sts": "STS"}
FLOORS = {"sst": 0.262, "para": 0.631, "sts": 0.0}
"""Of the papers' dev sets: the share of the most frequent class; r = 0."""
OTHERS = {"cfimdb": "CFIMDB", "lmrd": "LMRD"}
MINUS = "\N{MINUS SIGN}"
PAPERS = ("hybrid-bert", "adapter-fusion", "minbert-downstream", "minibert-unleashed")
IN_WORDS = {name: words for name, words in WORDS.items() if name != NOT_RUN}

Line = tuple[str, ...]


def filled(page: str) -> str:
    """Return `page` with every table made anew."""

    def block(found: re.Match[str]) -> str:
        name, *arguments = found[1].split()
        heads, *rows = TABLES[name](*arguments)
        if name in LISTS:
            lines = [f"- {what}: {why} ({evidence})." for what, why, evidence in rows]
        else:
            lines = [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows)]
        return "\n".join([f"<!-- {found[1]} -->", *lines, "<!-- end -->"])

    return re.sub(r"<!-- ([a-z][^>]*?) -->\n.*?<!-- end -->", block, page, flags=re.DOTALL)


@cache
def table(paper: str, part: str = "") -> pd.DataFrame:
    """Return a paper's rows with scores on dev, of all rows or of a `part` of the study."""
    rows = pd.read_csv(STUDY / "tables" / part / f"{paper}.csv")
    return rows[(rows["split"] == "dev") & (rows["status"] == "scored")]


def _by_variant(paper: str, part: str) -> dict[str, dict[str, Any]]:
    first = table(paper, part).drop_duplicates("variant")
    rows = first.set_index("variant").to_dict("index")
    return {str(variant): row for variant, row in rows.items()}


@cache
def claimed() -> list[dict[str, str]]:
    """Return every claim with its verdict, the paper's difference and ours."""
    return read_csv(STUDY / "tables" / "claims.csv")


def about(name: str) -> list[dict[str, str]]:
    """Return the claims about PAPER/VARIANT/AGAINST."""
    of = ("paper", "variant", "against")
    found = [one for one in claimed() if "/".join(one[part] for part in of) == name]
    assert found, f"there is no claim about {name}"
    return found


@cache
def reasons() -> Mapping[str, Any]:
    """Return the reasons that we give for what the tables show."""
    return dict(yaml.safe_load((STUDY / "reasons.yaml").read_text("utf-8")))


def rows_reached() -> Iterator[Line]:
    """Yield for each paper and task: rows, and how many of them are above the floor."""
    yield "paper", "task", "rows above the floor", "published", "ours"
    for paper in PAPERS:
        for task, title in (TASKS | OTHERS).items():
            if f"{task}_mean" not in table(paper):
                continue
            both = table(paper).dropna(subset=[f"{task}_published", f"{task}_mean"])
            published, ours = both[f"{task}_published"], both[f"{task}_mean"]
            above = (both[f"{task}_above"] * 2 > both[f"{task}_n"]).sum()
            yield paper, title, f"{above} of {len(both)}", _span(published), _span(ours)


def _span(scores: pd.Series[float]) -> str:
    ends = dict.fromkeys(f"{score:.3f}" for score in (scores.min(), scores.max()))
    return " to ".join(ends).replace("-", MINUS)


def at_the_floor() -> Iterator[Line]:
    """Yield where the paper's score is clearly above its floor and ours is not, and why."""
    yield "rows (task: seeds at the floor)", "reason", "evidence"
    found: dict[str, list[str]] = {why["row"]: [] for why in reasons()["floors"]}
    for paper in PAPERS:
        for row in table(paper).to_dict("records"):
            name = f"{paper}/{row['variant']}"
            failed = [task for task in TASKS if _published_above(row, task) and _failed(row, task)]
            if not failed:
                continue
            why = next((pattern for pattern in found if fnmatchcase(name, pattern)), None)
            assert why, f"study/reasons.yaml gives no reason why {name} is at its floor"
            counts = (f"{TASKS[t]}: {_failed(row, t)} of {row[f'{t}_n']:.0f}" for t in failed)
            found[why].append(f"{row['variant']} ({', '.join(counts)})")
    for why in reasons()["floors"]:
        assert found[why["row"]], f"study/reasons.yaml: {why['row']} is not at its floor"
        yield f"{why['row'].split('/')[0]}: {', '.join(found[why['row']])}", *_because(why)


def _published_above(row: Mapping[str, Any], task: str) -> bool:
    """Return whether the paper's score is clearly above the floor of `task`."""
    floor, n = FLOORS[task], SIZES[task].dev
    error = (floor * (1 - floor) / n) ** 0.5 or n**-0.5
    score = row[f"{task}_published"]
    return bool(score > floor + CLEARLY * error and gain(score, floor) >= LEAST_GAIN)


def _failed(row: Mapping[str, Any], task: str) -> int:
    """Return how many seeds are at the floor of `task`; none of a row without it."""
    return int(row[f"{task}_n"] - row[f"{task}_above"]) if row[f"{task}_n"] > 0 else 0


def depths(part: str) -> Iterator[Line]:
    """Yield the overall scores of each line at every depth that a `part` of the study has."""
    *_, path = yaml.safe_load((STUDY / f"{part}.yaml").read_text("utf-8"))["grids"]
    grid = yaml.safe_load((STUDY.parent / path).read_text("utf-8"))
    rows = _by_variant(grid["paper"], part)
    lines = grid["figures"]["sharing-depth"]["options"]["lines"]
    heads = ((f"overall, {label}", "seeds at the floor") for label in lines)
    yield "shared layers", "parameters", *(head for pair in heads for head in pair)
    for depth in sorted({depth for line in lines.values() for depth in line.values()}):
        cells = []
        for line in lines.values():
            (row,) = (rows[variant] for variant, at in line.items() if at == depth)
            cells += [_spread(row, "overall_normalised"), _floored(row)]
        yield str(depth), f"{row['parameters'] / 1e6:.1f} million", *cells


def heads() -> Iterator[Line]:
    """Yield the scores of 1-bert with heads of three layers and of one, with and without PCGrad."""
    yield "layers per head", "surgery", "overall", *TASKS.values(), "seeds at the floor"
    rows = _by_variant("hybrid-bert", "depths")
    for layers, surgery, variant in (
        ("3", "PCGrad", "1-bert"),
        ("3", "none", "shared-6-no-surgery"),
        ("1", "PCGrad", "1-bert-linear"),
        ("1", "none", "1-bert-linear-no-surgery"),
    ):
        row = rows[variant]
        scores = (_spread(row, name) for name in ("overall_normalised", *TASKS))
        yield layers, surgery, *scores, _floored(row)


def _spread(row: Mapping[str, Any], name: str) -> str:
    """Return a score's mean over seeds, and its standard deviation."""
    return f"{row[f'{name}_mean']:.3f} ({row[f'{name}_sd']:.3f})".replace("-", MINUS)


def _floored(row: Mapping[str, Any]) -> str:
    """Return how many seeds are at the floor of which tasks."""
    failed = {task: _failed(row, task) for task in TASKS}
    return ", ".join(f"{TASKS[task]}: {count}" for task, count in failed.items() if count) or "none"


def differences(*names: str) -> Iterator[Line]:
    """Yield the claims about each of `names`, PAPER/VARIANT/AGAINST."""
    yield "compared", "task", "claimed", "paper", "ours", "interval", "verdict"
    for name in names:
        for one in about(name):
            _, _, compared, *cells = claims.cells(one)
            yield f"{one['paper']}: {compared}", *cells[:5], cells[-1]


def scores(*names: str) -> Iterator[Line]:
    """Yield the mean scores of rows, PAPER/VARIANT."""
    yield "row", *TASKS.values()
    for name in names:
        paper, variant = name.split("/")
        row = _by_variant(paper, "")[variant]
        yield f"{paper}: {variant}", *(f"{row[f'{task}_mean']:.3f}" for task in TASKS)


def verdicts() -> Iterator[Line]:
    """Yield what each paper's claims came to: a claim has a comparison for each of its tasks."""
    yield "paper", "claims", *IN_WORDS.values(), "comparisons"
    for paper in (*PAPERS, "all"):
        of = [one for one in claimed() if paper in (one["paper"], "all")]
        whole: dict[tuple[str, str], list[str]] = {}
        for one in of:
            whole.setdefault((one["paper"], one["claim"]), []).append(one["verdict"])
        counts = Counter(claims.verdict(found) for found in whole.values())
        yield paper, str(len(whole)), *(str(counts[name]) for name in IN_WORDS), str(len(of))


def ranks() -> Iterator[Line]:
    """Yield Spearman's rho of published and our scores, over rows where both are above floors."""
    yield "paper", *TASKS.values()
    for paper in PAPERS:
        cells = []
        for task in TASKS:
            scored = table(paper).dropna(subset=[f"{task}_published", f"{task}_mean"])
            rows = scored.drop_duplicates("variant")
            kept = [
                _published_above(row, task) and row[f"{task}_above"] * 2 > row[f"{task}_n"]
                for row in rows.to_dict("records")
            ]
            both = rows[kept]
            rho = both[f"{task}_published"].corr(both[f"{task}_mean"], method="spearman")
            cells.append(f"{rho:.2f} ({len(both)} of {len(rows)} rows)".replace("-", MINUS))
        yield paper, *cells


def why_different() -> Iterator[Line]:
    """Yield the claims that failed, or have the paper's difference outside our interval, and why.

    A line has those with one reason; the last one those without.
    """
    yield "differences: published, ours", "likely reason", "evidence"
    given = {why["claim"]: why for why in reasons()["differences"]}
    found: dict[str, list[str]] = {pattern: [] for pattern in [*given, ""]}
    for one in claimed():
        if not (one["verdict"] == FAILS or _outside(one)):
            continue
        name = "/".join(one[part] for part in ("paper", "variant", "against", "task"))
        pattern = next((pattern for pattern in given if fnmatchcase(name, pattern)), "")
        _, _, compared, task, _, paper, ours, *_ = claims.cells(one)
        found[pattern].append(f"{one['paper']}: {compared} ({task}: {paper}, {ours})")
    for pattern, said in found.items():
        assert said or not pattern, f"study/reasons.yaml: no difference is {pattern}"
        because = _because(given[pattern]) if pattern else ("not known", ABSENT)
        if said:
            yield "; ".join(said), *because


def _outside(one: Mapping[str, str]) -> bool:
    """Return whether the published difference lies outside our interval."""
    if not (one["published_difference"] and one["difference"]):
        return False
    low, published, high = (float(one[n]) for n in ("low", "published_difference", "high"))
    return not low <= published <= high


def _because(why: Mapping[str, Any]) -> Line:
    return why["reason"], why["evidence"]


TABLES: Mapping[str, Callable[..., Iterator[Line]]] = {
    "rows": rows_reached,
    "floors": at_the_floor,
    "depths": depths,
    "heads": heads,
    "differences": differences,
    "scores": scores,
    "verdicts": verdicts,
    "ranks": ranks,
    "reasons": why_different,
}

LISTS = ("floors", "reasons")
"""Tables of long texts, which the page has as lists."""

if __name__ == "__main__":
    write_text(PAGE, filled(PAGE.read_text("utf-8")))
