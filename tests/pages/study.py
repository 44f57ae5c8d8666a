"""docs/study.md: its tables, from study/tables and the bundles.

`cd tests && python -m pages.study` fills them; a test holds them to it. A table stands between the
lines `<!-- NAME -->` and `<!-- end -->`, where NAME is one of `TABLES`.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from minbert.base.files import write_text

ROOT = Path(__file__).parents[2]
STUDY, PAGE = ROOT / "study", ROOT / "docs" / "study.md"
TASKS = {"sst": "SST", "para": "paraphrases", "sts": "STS"}
MINUS = "\N{MINUS SIGN}"
PAPERS = ("hybrid-bert", "adapter-fusion", "minbert-downstream", "minibert-unleashed")


def filled(page: str) -> str:
    """Return `page` with every table made anew."""

    def table(found: re.Match[str]) -> str:
        rows = [" | ".join(row) for row in TABLES[found[1]]()]
        rows.insert(1, " | ".join(["---"] * (rows[0].count(" | ") + 1)))
        return "\n".join([f"<!-- {found[1]} -->", *(f"| {row} |" for row in rows), "<!-- end -->"])

    return re.sub(r"<!-- (\w+) -->\n.*?<!-- end -->", table, page, flags=re.DOTALL)


def rows_reached() -> Iterator[tuple[str, ...]]:
    """Yield for each paper and task: rows, those above the floor, and whether the order holds."""
    yield "paper", "task", "rows", "above the floor", "published", "ours", "rank correlation"
    for paper in PAPERS:
        rows = pd.read_csv(STUDY / "tables" / f"{paper}.csv")
        rows = rows[(rows["split"] == "dev") & (rows["status"] == "scored")]
        for task, title in TASKS.items():
            both = rows.dropna(subset=[f"{task}_published", f"{task}_mean"])
            if both.empty:
                continue
            published, ours = both[f"{task}_published"], both[f"{task}_mean"]
            above = (both[f"{task}_above"] * 2 > both[f"{task}_n"]).sum()
            order = f"{published.corr(ours, 'spearman'):.2f}" if len(both) > 3 else "—"
            spans = (f"{scores.min():.3f} to {scores.max():.3f}" for scores in (published, ours))
            yield paper, title, str(len(both)), str(above), *spans, order


def claims() -> Iterator[tuple[str, ...]]:
    """Yield every claim with the difference that the paper found, and ours."""
    yield "claim", "compared", "task", "paper", "ours, interval", "detectable", "p", "verdict"
    found = pd.read_csv(STUDY / "tables" / "claims.csv")
    for one in found.itertuples():
        others = str(one.against).split()
        against = one.against if pd.isna(one.strongest) else one.strongest
        compared = f"{one.variant} {MINUS} {against}"
        compared += f", of {len(others)} others" if len(others) > 1 else ""
        paper = "—" if pd.isna(one.published_difference) else _signed(one.published_difference)
        ours, detectable, p = "—", "—", "—"
        if not pd.isna(one.difference):
            ours = f"{_signed(one.difference)} ({_signed(one.low)} to {_signed(one.high)})"
            detectable, p = f"{one.detectable:.3f}", f"{one.p_holm:.2g}"
        task = TASKS.get(str(one.task), str(one.task))
        yield str(one.claim), compared, task, paper, ours, detectable, p, str(one.verdict)


def verdicts() -> Iterator[tuple[str, ...]]:
    """Yield how many of each paper's claims have which verdict."""
    found = pd.read_csv(STUDY / "tables" / "claims.csv")
    counts = pd.crosstab(found["paper"], found["verdict"])
    yield "paper", *map(str, counts.columns)
    for paper in PAPERS:
        yield paper, *(str(number) for number in counts.loc[paper])


def cost() -> Iterator[tuple[str, ...]]:
    """Yield for each bundle: runs, hours of one core, tokens a second, machine and precision."""
    yield "bundle", "trainings", "hours on a core", "tokens a second", "precision", "platform"
    for path in sorted(STUDY.glob("seed-*.zip")):
        with zipfile.ZipFile(path) as archive:
            runs = [name for name in archive.namelist() if name.endswith("/run.json")]
            records = [json.loads(archive.read(name)) for name in runs]
        hours = sum(record["outcome"]["seconds"] for record in records) / 3600
        rates = pd.Series([record["outcome"]["tokens_per_second"] for record in records])
        low, middle, high = (f"{rates.quantile(q):,.0f}" for q in (0.25, 0.5, 0.75))
        where = [record["environment"] for record in records]
        precision, platform = (
            ", ".join(sorted({one[of] for one in where})) for of in ("precision", "platform")
        )
        rate = f"{middle} ({low} to {high})"
        yield path.name, str(len(runs)), f"{hours:.1f}", rate, precision, platform


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", MINUS)


TABLES = {"rows": rows_reached, "claims": claims, "verdicts": verdicts, "cost": cost}

if __name__ == "__main__":
    write_text(PAGE, filled(PAGE.read_text("utf-8")))
