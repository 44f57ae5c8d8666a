"""What the papers claim, and whether it held here: a table of its own."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scipy.special import stdtr

from minbert.base.files import write_text
from minbert.evaluate.bootstrap import RESAMPLES, Estimate, constant, difference
from minbert.evaluate.marks import FAVOURED
from minbert.evaluate.statistics import LEVEL
from minbert.evaluate.systems import LAST, LEAST, MAJORITY, Systems
from minbert.evaluate.text import (
    ABSENT,
    csv_text,
    latex_float,
    markdown,
    markdown_table,
    p_value,
    read_csv,
)
from minbert.evaluate.verdicts import FAILS, HOLDS, NOISE, NOT_RUN, OPEN
from minbert.spec.task import TASKS
from minbert.store.job import Job

IN_WORDS = {HOLDS: "as claimed", FAILS: "not as claimed"} | {n: n for n in (NOISE, OPEN, NOT_RUN)}
COLUMNS = (
    *("paper", "section", "claim", "variant", "against", "strongest", "task", "direction"),
    *("margin", "published_difference", "difference", "low", "high", "low_95", "high_95", "error"),
    *("detectable", "p", "p_holm", "examples", "seeds", "seeds_against", "seeds_needed"),
    *("verdict", "reason", "method"),
)
MEASURE = "measure"
"""A column of tables with claims on curves: what of them is compared; empty for scores."""
TEXTS = (*COLUMNS[:8], *COLUMNS[-3:], MEASURE)
"""Columns that are not numbers."""
HEADS = (
    *("Claim", "Section", "Compared", "Task", "Claimed", "Paper", "Ours", "Interval"),
    *("Detectable", "p", "n", "Seeds", "Verdict"),
)
WIDE = {"Claim": 4.6, "Compared": 2.6}
"""LaTeX columns with line breaks, and their widths in cm."""

_FULL = 1.0
"""A difference of accuracies cannot be larger; that of losses can."""

ON_CURVES = (
    "Gap: the score on train less that on dev, after the last epoch. Spread: the largest less the "
    f"smallest dev score of the last {LAST} epochs. Epoch: the first with 99 % of the run's best "
    "dev score, as a share of the run. Loss: the mean training loss over the run; overall, the "
    "sum over the tasks. Only seeds say how far these move, so one is not enough. "
    "A claim on a run with too few scored epochs cannot be judged."
)

GENERATED = "builtin"
"""`data` of a configuration without real data."""

Line = Mapping[str, Any]


def make(job: Job) -> None:
    """Judge what the papers claim."""
    build_claims(job.spec, job.needs("scores"), job.needs("run"), job.out)


def build_claims(
    spec: Line,
    scores: Mapping[str, Path],
    runs: Mapping[str, Path],
    out_dir: Path,
) -> None:
    """Write `claims.csv`, `claims.md` and `claims.tex` in `out_dir`: a line per claim and task.

    `spec` is that of the node; `scores` are the papers' score tables by paper, `runs` has a file of
    each run by KEY.SEED, beside which its others are. A claim holds or fails if its p-value,
    adjusted by Holm for all claims of its paper in the grids, is at most .05; otherwise it is
    within noise. A claim about variants without scores is `not run`. One about a variant that has
    not learnt the task, about the same training under two names, or about curves that are too short
    or of one seed, cannot be judged. In the csv, with 8 significant digits, `low` and `high` are
    adjusted like p, `low_95` and `high_95` are of this difference alone.
    """
    lines: list[dict[str, Any]] = []
    for paper in spec["titles"]:
        claims = [claim for claim in spec["claims"] if claim["paper"] == paper]
        compared, curved = _compared(claims), _compared(c for c in claims if MEASURE in c)
        of_overall = spec["overall_tasks"][paper]
        systems = Systems(paper, scores[paper], runs, compared, of_overall, curved)
        of_paper = [_about(claim) | _judged(claim, systems) for claim in claims]
        judged = [line for line in of_paper if "p" in line]
        adjusted = holm([line["p"] for line in judged], len(of_paper))
        for line, (p, level) in zip(judged, adjusted, strict=True):
            line.update(_adjusted(line, p, level))
        lines += of_paper
    columns = (*COLUMNS, MEASURE) if on_curves(spec) else COLUMNS
    write_text(out_dir / "claims.csv", csv_text(columns, lines))
    write_text(out_dir / "claims.md", _to_markdown(spec, lines))
    write_text(out_dir / "claims.tex", _to_latex(spec, lines))


def _compared(claims: Iterable[Line]) -> set[str]:
    """Return the variants that claims compare."""
    return {name for claim in claims for name in (claim["variant"], *claim["others"])}


def read_claims(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a `claims.csv`, without empty values, as `cells` takes them."""
    blank = {"section": "", "published_difference": None, "margin": "", "seeds_against": None}
    return [
        blank
        | {name: text if name in TEXTS else json.loads(text) for name, text in line.items() if text}
        for line in read_csv(path)
    ]


def on_curves(spec: Line) -> bool:
    """Return whether some claims of a node's spec compare curves, not scores."""
    return any(MEASURE in claim for claim in spec["claims"])


def _about(claim: Line) -> dict[str, Any]:
    """Return the columns of a claim that say what is claimed."""
    names = ("paper", "section", "variant", "task", "direction", MEASURE)
    line = {name: claim[name] for name in names if name in claim}
    margin = claim["margin"] if claim["direction"] not in ("higher", "lower") else ""
    line |= {"claim": claim["text"], "against": " ".join(_others(claim)), "margin": margin}
    return line | {"published_difference": claim["published"]}


def _others(claim: Line) -> Sequence[str]:
    """Return what a claim compares its variant with: others, a score, or the majority class."""
    score = MAJORITY if claim["score"] is None else f"{claim['score']:g}"
    return claim["others"] or [score]


def _judged(claim: Line, systems: Systems) -> dict[str, Any]:
    """Return what the systems say of a claim: a verdict with its reason, or else a p-value."""
    task, compared = claim["task"], (claim["variant"], *claim["others"])
    if missing := [name for name in compared if not systems.seeds(name, task)]:
        return {"verdict": NOT_RUN, "reason": f"no scores of {', '.join(missing)}"}
    if reason := _why_open(claim, compared, systems):
        return {"verdict": OPEN, "reason": reason}
    return _judge(claim, compared, systems)


def _why_open(claim: Line, compared: Sequence[str], systems: Systems) -> str:
    """Return why a claim cannot be judged; empty if it can."""
    task, measure = claim["task"], claim.get(MEASURE)
    variant, *others = compared
    if twins := [name for name in others if systems.same(variant, name, task)]:
        return f"{variant} and {twins[0]} are the same training"
    sides = [any(systems.learned(name, task) for name in side) for side in ([variant], others)]
    if others and not all(sides):
        said = f"{', '.join(others) if sides[0] else variant} did not learn"
        return said if any(sides) else "neither learned"
    if not measure:
        return ""
    if 1 in (len(systems.seeds(name, task)) for name in compared):
        return "one seed"
    epochs = {name: systems.epochs(name, task, measure) for name in compared}
    short = [f"{name} {n}" for name, n in epochs.items() if n < LEAST[measure]]
    return f"fewer than {LEAST[measure]} scored epochs: {', '.join(short)}" if short else ""


def _judge(claim: Line, compared: Sequence[str], systems: Systems) -> dict[str, Any]:
    """Return what the systems say of a claim, before the claims judged beside it are counted.

    `strongest` is the one of several others that speaks most against the claim.
    """
    task, measure, given = claim["task"], claim.get(MEASURE, ""), claim["score"]
    one, *others = (systems.sample(name, task, measure) for name in compared)
    if not others:
        others = [systems.majority(task) if given is None else constant(given)]
    examples = systems.examples(task)
    least = 1 / examples  # What one example weighs, or one scored epoch.
    if measure == "epoch":
        least = 1 / min(systems.epochs(name, task, measure) for name in compared)
    estimates = [difference(one, other, least) for other in others]
    tails = [against(each, claim["direction"], claim["margin"]) for each in estimates]
    worst = tails.index(max(tails))
    p, supports = decision(tails)
    seeds, seeds_against = len(one.values), len(others[worst].values)
    methods = ["bootstrap over examples, paired"] * (not measure)
    methods += ["variance over seeds"] * (max(seeds, seeds_against) > 1)
    return {
        "strongest": _others(claim)[worst],
        "estimate": estimates[worst],
        "p": p,
        "supports": supports,
        "compared": len(others),
        "examples": examples,
        "seeds": seeds,
        "seeds_against": seeds_against if claim["others"] else None,
        "method": "; ".join(methods),
    }


def _adjusted(line: dict[str, Any], p: float, level: float) -> Line:
    """Return the verdict of a judged line, and its numbers at the `level` of its test."""
    estimate, supports, compared = (line.pop(n) for n in ("estimate", "supports", "compared"))
    # "Does not hold" was corrected for the number of others, so its interval is too.
    level = level if supports else level / compared
    low, high = estimate.interval(level)
    low_95, high_95 = estimate.interval()
    found: dict[str, Any] = {
        "p_holm": p,
        "verdict": verdict(p, supports),
        "difference": estimate.value,
        "error": estimate.error,
        "low": low,
        "high": high,
        "low_95": low_95,
        "high_95": high_95,
        "detectable": estimate.detectable(level),
    }
    fewest = min(line["seeds"], line["seeds_against"] or line["seeds"])
    if found["verdict"] == NOISE and fewest > 1:
        margin = line["margin"] or 0.0
        bounds = {"not higher": [margin], "not lower": [-margin]}
        among = bounds.get(line["direction"], [margin, -margin])
        distance = min(abs(estimate.value - bound) for bound in among)
        found["seeds_needed"] = estimate.seeds_needed(distance, fewest, level)
    return found


def against(estimate: Estimate, direction: str, margin: float) -> float:
    """Return the one-sided p-value against a true difference outside of what is claimed.

    `higher` and `lower` claim a difference above or below 0; `not higher` and `not lower` one of
    at most `margin`, or at least minus `margin` (a test of non-inferiority); `same` claims both
    (two one-sided tests, Schuirmann 1987), and the larger of the two p-values counts.
    """
    if direction == "higher":
        return _below(estimate, 0.0)
    if direction == "lower":
        return 1 - _below(estimate, 0.0)
    low, high = _below(estimate, -margin), 1 - _below(estimate, margin)
    return {"same": max(low, high), "not lower": low, "not higher": high}[direction]


def _below(estimate: Estimate, bound: float) -> float:
    return float(stdtr(estimate.freedom, (bound - estimate.value) / estimate.error))


def decision(tails: Sequence[float]) -> tuple[float, bool]:
    """Return (p, whether for the claim) of a claim about one or several pairs, from `against`.

    The claim holds only if it does for every pair, so the largest tail counts (an
    intersection-union test, Berger 1982). It fails if it does for any of k pairs, whose smallest
    probability is multiplied by k (Bonferroni). p is two-sided: twice the smaller of the two.
    """
    worst = max(tails)
    fails = min(1.0, len(tails) * (1 - worst))
    return min(1.0, 2 * min(worst, fails)), worst <= fails


def verdict(adjusted: float, supports: bool) -> str:
    """Return the verdict from a claim's p-value, adjusted by `holm`."""
    if adjusted > LEVEL:
        return NOISE
    return HOLDS if supports else FAILS


def holm(p: Sequence[float], tests: int) -> list[tuple[float, float]]:
    """Return p-values adjusted by Holm's step-down procedure (Holm 1979), and the levels of tests.

    The smallest of m `tests` is multiplied by m, the next by m - 1 and so on; none may fall below
    the one before it or rise above 1. The chance that any of those at or below .05 is a false alarm
    is at most 5 %, however the tests depend on each other. Tests without a p-value count too, so
    that what could not be judged does not change what is said of the others.

    From the first p-value that is not rejected, all are tested at that one's level: so an interval
    at its level lies wholly on one side if and only if the adjusted p-value is at most .05.
    """
    found = {}
    largest, passed = 0.0, 0
    for rank, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        largest = max(largest, (tests - rank) * p[i])
        level = LEVEL / (tests - passed)
        passed += p[i] <= level
        found[i] = min(1.0, largest), level
    return [found[i] for i in range(len(p))]


def _to_markdown(spec: Line, lines: Sequence[Line]) -> str:
    """Return the claims as markdown, a section for each paper, and how to read them at the end."""
    data = spec["data"]
    parts = ["# What the papers claim", *map(markdown, warning(data))]
    parts.append(markdown(f"{counted(lines, data)}."))
    for paper, title in spec["titles"].items():
        of_paper = [line for line in lines if line["paper"] == paper]
        parts += [f"## {markdown(title)}", markdown(f"{counted(of_paper, data)}.")]
        parts.append(markdown_table([HEADS, *map(cells, of_paper)]))
    parts += ["## How to read this", *map(markdown, remarks(spec))]
    return "\n\n".join(parts) + "\n"


def _to_latex(spec: Line, lines: Sequence[Line]) -> str:
    """Return a LaTeX float for each paper."""
    columns = "".join(f"p{{{WIDE[head]}cm}}" if head in WIDE else "l" for head in HEADS)
    floats = []
    for paper, title in spec["titles"].items():
        of_paper = [line for line in lines if line["paper"] == paper]
        said = [counted(of_paper, spec["data"]) + ".", *warning(spec["data"])]
        caption = f"What {paper} claims ({title}). {' '.join(said)}"
        rows = [HEADS, *map(cells, of_paper)]
        floats.append(latex_float(f"claims-{paper}", caption, columns, rows, remarks(spec)))
    return "\n".join(floats)


def warning(data: str) -> list[str]:
    """Return what to know before all verdicts: nothing, or that the data are generated."""
    if data != GENERATED:
        return []
    return [
        "The data are generated: no verdict here says anything about the papers. The lines show "
        "what this page looks like on real data."
    ]


def counted(lines: Sequence[Line], data: str) -> str:
    """Return how many claims came to which verdict, in words; on generated data only how many."""
    comparisons = f"{len(lines)} comparison{'s' * (len(lines) != 1)}"
    if data == GENERATED:
        return f"{comparisons} on generated data, so the verdicts are not findings"
    counts = Counter(line["verdict"] for line in lines)
    said = [f"{counts[name]} {words}" for name, words in IN_WORDS.items() if counts[name]]
    sides = set().union(*map(_seeds, lines))
    alone = f" (one run of {'each variant' if sides == {1} else 'some variants'})" * (1 in sides)
    return f"{comparisons}: {', '.join(said)}{alone}"


def cells(line: Line) -> tuple[str, ...]:
    """Return a claim's cells as plain text, none of them empty."""
    names, task, claimed = line["against"].split(), line["task"], line["direction"]
    versus = names[0]
    if len(names) > 1:
        which = f"{line['strongest']}, of" if "strongest" in line else "each of"
        versus = f"{which} {len(names)} others"
    if line["margin"] != "":
        claimed = f"{claimed} ({'within' if claimed == 'same' else 'by'} {line['margin']:g})"
    of_task = TASKS[task].title if task in TASKS else f"overall, {task}"
    of_task += f": {line[MEASURE]}" if MEASURE in line else ""
    own = (
        *(line["claim"], line["section"] or ABSENT, f"{line['variant']} − {versus}"),  # noqa: RUF001
        *(of_task, claimed),
        _signed(line["published_difference"]),
    )
    said = line["verdict"]
    if "difference" not in line:
        reason = f": {line['reason']}" if said == OPEN else ""
        return (*own, *[ABSENT] * 6, said + reason)
    if said in (HOLDS, FAILS) and 1 in _seeds(line):
        said += " for these runs"
    full = math.inf if line.get(MEASURE) == "loss" else _FULL
    excludes = line["high"] - line["low"] < 2 * full
    interval = f"{_signed(line['low'])} to {_signed(line['high'])}" if excludes else "any"
    p = p_value(line["p_holm"])
    seeds = "/".join(str(s) for s in (line["seeds"], line["seeds_against"]) if s is not None)
    detectable = f"{line['detectable']:.3f}" if line["detectable"] < full else "none"
    examples = ABSENT if MEASURE in line else str(line["examples"])
    ours = (_signed(line["difference"]), interval, detectable, p, examples, seeds)
    return (*own, *ours, said)


def _seeds(line: Line) -> set[int]:
    """Return how many seeds the sides that were trained have; none if it was not judged."""
    return {n for name in ("seeds", "seeds_against") if (n := line.get(name)) is not None}


def _signed(value: float | None) -> str:
    return ABSENT if value is None else f"{value:+.3f}".replace("-", "−")  # noqa: RUF001


def remarks(spec: Mapping[str, Any]) -> list[str]:
    """Return the sentences under the table, as plain text, that say how to read it."""
    return [
        "Paper and Ours: the first score minus the second, on dev; of several others, the one that "
        "contradicts the claim most. Scores: accuracy; Pearson r for STS; overall by the paper's "
        "own rule.",
        f"Interval: from the paired bootstrap over examples ({RESAMPLES:,} resamples; Efron & "
        "Tibshirani 1993); with several seeds, with their variance, which is the mean over the "
        "compared rows, or the row's own if that is larger, and Student's t. It is widened for the "
        "paper's number of claims, so that it agrees with the verdict; low_95 and high_95 in the "
        "csv are not widened. Detectable: how far beyond its bound (0, or the margin) the true "
        "difference must lie for this test to find it in 80 of 100 cases. An interval of ±1 or "
        "more is 'any', a detectable difference of 1 or more 'none': a side's seeds differ far "
        "more than those of other rows.",
        f"p: adjusted by Holm (1979) for all of the paper's claims. At most {LEVEL:g}: the claim "
        "holds, or, if the difference contradicts it, does not hold. Above: within noise; neither "
        "is shown. n: examples; for an overall score, the examples of all its tasks.",
        "With one seed, verdict, interval and p are about these runs on other examples: they say "
        "nothing about how another training run would score. Cannot be judged: one side is not "
        "above its floor (the most frequent class; r = 0), or both sides are the same training.",
        *[ON_CURVES] * on_curves(spec),
        f"{FAVOURED[spec['selection_split']]}; see the tables for the last epoch's scores."
        + " Both kinds are compared on that other half." * (spec["selection_split"] == "both"),
        f"Backbone: {spec['backbone']}. Data: {spec['data']}. Seeds asked for: {spec['seeds']}. "
        f"{ABSENT}: not published, or not run.",
    ]
