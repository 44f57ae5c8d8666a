"""Tables of the study's page, from study/tables and study/reasons.yaml."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import pandas as pd
import yaml

from minbert.commands.plan import CLEARLY
from minbert.evaluate import claims
from minbert.evaluate.claims import FAILS, NOT_RUN
from minbert.evaluate.claims import IN_WORDS as WORDS
from minbert.evaluate.reading import LEAST_GAIN, gain
from minbert.evaluate.text import read_csv

from .study_bundles import STUDY, reports, runs

TASKS = {"sst": "SST", "para": "paraphrases", "sts": "STS"}
ALL = TASKS | {"cfimdb": "CFIMDB", "lmrd": "LMRD"}
MINUS = "\N{MINUS SIGN}"
PAPERS = ("hybrid-bert", "adapter-fusion", "minbert-downstream", "minibert-unleashed")
IN_WORDS = {name: words for name, words in WORDS.items() if name != NOT_RUN}

Line = tuple[str, ...]


@cache
def table(paper: str) -> pd.DataFrame:
    """Return a paper's rows with scores on dev."""
    rows = pd.read_csv(STUDY / "tables" / f"{paper}.csv")
    return rows[(rows["split"] == "dev") & (rows["status"] == "scored")]


def row_of(name: str) -> dict[str, Any]:
    """Return the row PAPER/VARIANT."""
    paper, variant = name.split("/")
    rows = table(paper)
    first, *_ = rows[rows["variant"] == variant].to_dict("records")
    return {str(column): value for column, value in first.items()}


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
    """Yield for each paper and task: rows above the floor, of all and of those that are due.

    Due are those whose published score is clearly above it.
    """
    yield "paper", "task", "rows above the floor", "of those due", "published", "ours"
    counts = Counter[bool]()
    for paper in PAPERS:
        for task, title in ALL.items():
            if f"{task}_mean" not in table(paper):
                continue
            both = table(paper).dropna(subset=[f"{task}_published", f"{task}_mean"])
            above = both[f"{task}_above"] * 2 > both[f"{task}_n"]
            due = [published_above(row, task) for row in both.to_dict("records")]
            counts.update(above[due])
            spans = (_span(both[f"{task}_{of}"]) for of in ("published", "mean"))
            yield paper, title, _of(above), _of(above[due]), *spans
    yield "all", "", "", f"{counts[True]} of {counts.total()}", "", ""


def _of(flags: pd.Series[bool]) -> str:
    return f"{flags.sum()} of {len(flags)}"


def _span(scores: pd.Series[float]) -> str:
    ends = dict.fromkeys(f"{score:.3f}" for score in (scores.min(), scores.max()))
    return " to ".join(ends).replace("-", MINUS)


def at_the_floor() -> Iterator[Line]:
    """Yield where scores of ours are not clearly above their floor, and why."""
    yield "rows (task: seeds at the floor)", "reason", "evidence"
    found: dict[str, list[str]] = {why["row"]: [] for why in reasons()["floors"]}
    for paper in PAPERS:
        for row in table(paper).drop_duplicates("variant").to_dict("records"):
            name = f"{paper}/{row['variant']}"
            failed = [task for task in ALL if at_floor(row, task)]
            if not failed:
                continue
            why = next((pattern for pattern in found if fnmatchcase(name, pattern)), None)
            assert why, f"study/reasons.yaml gives no reason why {name} is at its floor"
            counts = (f"{ALL[t]}: {at_floor(row, t)} of {row[f'{t}_n']:.0f}" for t in failed)
            found[why].append(f"{row['variant']} ({', '.join(counts)})")
    for why in reasons()["floors"]:
        assert found[why["row"]], f"study/reasons.yaml: {why['row']} is not at its floor"
        yield f"{why['row'].split('/')[0]}: {', '.join(found[why['row']])}", *_because(why)


def published_above(row: Mapping[str, Any], task: str) -> bool:
    """Return whether the paper's score is clearly above the floor of our dev set.

    That is as in `minbert learned`: by the test, and by an effect.
    """
    floor, n = row[f"{task}_floor"], reports()[task]["rows"]["dev"]
    error = (floor * (1 - floor) / n) ** 0.5 or n**-0.5
    score = row[f"{task}_published"]
    return bool(score > floor + CLEARLY * error and gain(score, floor) >= LEAST_GAIN)


def at_floor(row: Mapping[str, Any], task: str) -> int:
    """Return how many seeds are at the floor of `task`; none of a row without it."""
    n = row.get(f"{task}_n", 0)
    return int(n - row[f"{task}_above"]) if n > 0 else 0


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
        row = row_of(name)
        yield name.replace("/", ": "), *(f"{row[f'{task}_mean']:.3f}" for task in TASKS)


def verdicts() -> Iterator[Line]:
    """Yield what each paper's claims came to: a claim has a comparison for each of its tasks."""
    yield "paper", "claims", *IN_WORDS.values(), "comparisons"
    for paper in (*PAPERS, "all"):
        of = [one for one in claimed() if paper in (one["paper"], "all")]
        whole: dict[tuple[str, str], list[str]] = {}
        for one in of:
            whole.setdefault((one["paper"], one["claim"]), []).append(one["verdict"])
        counts = Counter(claims.verdict(found) for found in whole.values())
        assert sum(counts[name] for name in IN_WORDS) == len(whole), "some were not run"
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
                published_above(row, task) and row[f"{task}_above"] * 2 > row[f"{task}_n"]
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
        if not (one["verdict"] == FAILS or outside(one)):
            continue
        name = "/".join(one[part] for part in ("paper", "variant", "against", "task"))
        pattern = next((pattern for pattern in given if fnmatchcase(name, pattern)), "")
        _, _, compared, task, _, paper, ours, *_ = claims.cells(one)
        found[pattern].append(f"{one['paper']}: {compared} ({task}: {paper}, {ours})")
    for pattern, said in found.items():
        assert said or not pattern, f"study/reasons.yaml: no difference is {pattern}"
        because = _because(given[pattern]) if pattern else ("not known", "")
        if said:
            yield "; ".join(said), *because


def outside(one: Mapping[str, str]) -> bool:
    """Return whether the published difference lies outside our interval."""
    if not (one["published_difference"] and one["difference"]):
        return False
    low, published, high = (float(one[n]) for n in ("low", "published_difference", "high"))
    return not low <= published <= high


def _because(why: Mapping[str, Any]) -> Line:
    return why["reason"], why["evidence"]


def data() -> Iterator[Line]:
    """Yield how many examples the splits of each task have."""
    splits = ("train", "dev", "test")
    yield "task", *splits
    for task, title in ALL.items():
        yield title, *(f"{reports()[task]['rows'][split]:,}" for split in splits)


def devices() -> Iterator[Line]:
    """Yield how many trainings there are on each device, and how long they took."""
    yield "device", "trainings", "hours, each for itself", "seconds each"
    for device, seconds in runs().groupby("device")["seconds"]:
        span = f"{seconds.min():,.0f} to {seconds.max():,.0f}"
        yield str(device), str(len(seconds)), f"{seconds.sum() / 3600:.1f}", span


TABLES: Mapping[str, Callable[..., Iterator[Line]]] = {
    "rows": rows_reached,
    "floors": at_the_floor,
    "differences": differences,
    "scores": scores,
    "verdicts": verdicts,
    "ranks": ranks,
    "reasons": why_different,
    "data": data,
    "runs": devices,
}

LISTS = ("floors", "reasons")
"""Tables of long texts, which the page has as lists."""
