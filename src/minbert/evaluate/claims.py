"""What the papers claim, and whether it held here: a separate table."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import stdtr

from minbert.base.files import write_text
from minbert.base.progress import counted as in_number
from minbert.evaluate.bootstrap import LAST, LEAST, RESAMPLES, Estimate, System, Systems, difference
from minbert.evaluate.reading import FAVOURED, LEVEL, read_scores
from minbert.evaluate.seeds import rows_of
from minbert.evaluate.text import (
    ABSENT,
    Line,
    latex_float,
    markdown,
    markdown_table,
    read_csv,
    write_csv,
    write_markdown,
)
from minbert.spec.published import MAJORITY
from minbert.spec.task import TASKS
from minbert.store.job import Job

HOLDS, FAILS, NOISE, NOT_RUN = "holds", "does not hold", "within noise", "not run"
OPEN, SMALL = "cannot be judged", "not testable at this size"
PART = "holds in part"
IN_WORDS = {FAILS: "not as claimed", HOLDS: "as claimed", PART: "as claimed in part"}
IN_WORDS |= {name: name for name in (NOISE, SMALL, OPEN, NOT_RUN)}
COLUMNS = (
    *("paper", "section", "claim", "variant", "against", "strongest", "task", "direction"),
    *("margin", "published_difference", "difference", "low", "high", "low_95", "high_95", "error"),
    *("detectable", "p", "p_holm", "examples", "seeds", "seeds_against", "failed"),
    *("failed_against", "seeds_needed"),
    *("verdict", "reason", "method"),
)
MEASURE = "measure"
"""A column of tables with claims on curves: what of them is compared; empty for scores."""
HEADS = (
    *("Claim", "Section", "Compared", "Task", "Claimed", "Paper", "Ours", "Interval"),
    *("Detectable", "p", "n", "Seeds", "Verdict"),
)
TYPES = "p{4.6cm}lp{2.6cm}" + "l" * 10
"""Of LaTeX columns: claims and what is compared have line breaks."""

ON_CURVES = (
    "Gap: the score on train less that on dev, after the last epoch. Spread: the largest less the "
    f"smallest dev score of the last {LAST} epochs. Epoch: the first with 99 % of the run's best "
    "dev score, as a share of the run. Loss: the mean training loss over the run; overall, the "
    "sum over the tasks. Only seeds say how far these move, so one is not enough. "
    "A claim on a run with too few scored epochs cannot be judged."
)

GENERATED = "builtin"
"""`data` of a configuration without real data."""


def make(job: Job) -> None:
    """Write `claims.csv`, `claims.md` and `claims.tex`: a line per claim and task.

    A claim holds or fails if its p-value, adjusted by Holm for all claims of its paper in the
    grids, is at most .05; otherwise it is within noise, or, if no difference could have confirmed
    it, not testable at this size. A claim about variants without scores is `not run`. One about a
    variant that has not learned the task, about the same training under two names, or about curves
    that are too short or of one seed, cannot be judged. In the csv, with 8 significant digits,
    `low` and `high` are adjusted like p, `low_95` and `high_95` are of this difference alone;
    `seeds` have learned, others have `failed`.
    """
    spec, out = job.spec, job.out
    found = [line for paper in spec["titles"] for line in _of_paper(paper, job)]
    columns = (*COLUMNS, MEASURE) if on_curves(spec) else COLUMNS
    write_csv(out / "claims.csv", columns, found)
    lines, data, how = read_csv(out / "claims.csv"), spec["data"], remarks(spec)
    sections, floats = [], []
    for paper, title in spec["titles"].items():
        of_paper = [line for line in lines if line["paper"] == paper]
        said, rows = f"{counted(of_paper, data)}.", [HEADS, *map(cells, of_paper)]
        sections += [f"## {markdown(title)} ({paper})", markdown(said), markdown_table(rows)]
        caption = f"What {paper} claims ({title}). {' '.join([said, *warning(data)])}"
        floats.append(latex_float(f"claims-{paper}", caption, TYPES, rows, how))
    opening = [*warning(data), f"{counted(lines, data)}."]
    parts = [*map(markdown, opening), *sections, "## How to read this", *map(markdown, how)]
    write_markdown(out / "claims.md", "What the papers claim", parts)
    write_text(out / "claims.tex", "\n".join(floats))


def on_curves(spec: Line) -> bool:
    """Return whether some claims of a node's spec compare curves, not scores."""
    return any(MEASURE in claim for claim in spec["claims"])


def _of_paper(paper: str, job: Job) -> list[dict[str, Any]]:
    """Return the lines of a paper's claims."""
    claims = [claim for claim in job.spec["claims"] if claim["paper"] == paper]
    scores = read_scores(job.need(f"scores.{paper}"), paper)
    systems = Systems(rows_of(scores, job.spec["overall_tasks"][paper]), job.needs("run"))
    lines = [_judged(claim, systems) for claim in claims]
    judged = [line for line in lines if "p" in line]
    adjusted = holm([line["p"] for line in judged], len(lines))
    for line, (p, level) in zip(judged, adjusted, strict=True):
        _adjust(line, p, level)
    return lines


def _judged(claim: Line, systems: Systems) -> dict[str, Any]:
    """Return the line of a claim, with a verdict and its reason, or else with its own p-value.

    `strongest` is the one of several others that speaks most against the claim. The `estimate` of
    that difference and all `tails` are for `_adjust`.
    """
    line = {**claim, "against": " ".join(claim["against"])}
    given, measure = claim["score"], claim.get(MEASURE, "")
    found = systems.of(claim["task"], measure)
    if given is not None:
        found = found | {line["against"]: System(np.full((RESAMPLES + 1, 1), given))}
    names = [claim["variant"], *claim["against"]]
    if missing := [name for name in names if name not in (*found, MAJORITY)]:
        return line | {"verdict": NOT_RUN, "reason": f"no scores of {', '.join(missing)}"}
    one, *others = sides = [found[name] for name in names]
    if reason := _why_open(names, sides, measure):
        return line | {"verdict": OPEN, "reason": reason}
    # What one example weighs, or one scored epoch.
    least = 1 / (min(of.epochs for of in sides) if measure == "epoch" else one.examples)
    estimates = [difference(one, other, least) for other in others]
    tails = [tail(each, claim["direction"], claim["margin"]) for each in estimates]
    worst = tails.index(max(tails))
    other = others[worst]
    methods = ["bootstrap over examples, paired"] * (not measure)
    methods += ["variance over seeds"] * (max(len(one.seeds), len(other.seeds)) > 1)
    return line | {
        "strongest": claim["against"][worst],
        "estimate": estimates[worst],
        "tails": tails,
        "p": decision(tails)[0],
        "examples": one.examples,
        "seeds": len(one.seeds),
        "failed": one.failed,
        "seeds_against": len(other.seeds) or None,
        "failed_against": other.failed,
        "method": "; ".join(methods),
    }


def _why_open(names: Sequence[str], sides: Sequence[System], measure: str) -> str:
    """Return why a claim about `sides`, its variant first, cannot be judged; empty if it can."""
    one, *others = sides
    for name, other in zip(names[1:], others, strict=True):
        if any(run in other.runs for run in one.runs):
            return f"{names[0]} and {name} are the same training"
    if not any(other.learned for other in others):
        return f"{', '.join(names[1:])} did not learn" if one.learned else "neither learned"
    if not one.learned and others[0].runs:
        return f"{names[0]} did not learn"
    if measure and 1 in (len(side.seeds) for side in sides):
        return "one seed"
    least = LEAST.get(measure, 0)
    short = min(side.epochs for side in sides) < least
    return f"fewer than {least} scored epochs" * short


def _adjust(line: dict[str, Any], p: float, level: float) -> None:
    """Complete a judged line by its verdict, and its numbers at the `level` of its test."""
    estimate, tails = line["estimate"], line["tails"]
    _, supports = decision(tails)
    # "Does not hold" was corrected for the number of others, so its interval is too.
    level = level if supports else level / len(tails)
    said = NOISE if p > LEVEL else HOLDS if supports else FAILS
    low, high = region(line["direction"], line["margin"])
    half = (high - low) / 2  # of what is claimed: infinite but for `same`
    if said == NOISE and estimate.interval()[1] - estimate.value >= half:
        said = SMALL
    line |= {
        "verdict": said,
        "p_holm": p,
        "detectable": estimate.detectable(level),
        "difference": estimate.value,
        "error": estimate.error,
    }
    line["low"], line["high"] = estimate.interval(level)
    line["low_95"], line["high_95"] = estimate.interval()
    fewest = min(filter(None, (line["seeds"], line["seeds_against"])))
    if said == NOISE and fewest > 1:
        distance = min(abs(estimate.value - bound) for bound in (low, high))
        line["seeds_needed"] = estimate.seeds_needed(distance, fewest, level)


def region(direction: str, margin: float | None) -> tuple[float, float]:
    """Return the bounds of the differences that are claimed.

    `higher` and `lower` claim one above or below 0, without a margin; `not higher` and `not lower`
    one of at most `margin`, or at least minus `margin` (a test of non-inferiority); `same` both.
    """
    by = margin or 0.0
    low = -by if direction in ("higher", "not lower", "same") else -math.inf
    return low, by if direction in ("lower", "not higher", "same") else math.inf


def tail(estimate: Estimate, direction: str, margin: float | None) -> float:
    """Return the one-sided p-value against a true difference outside of what is claimed.

    Of two bounds, the larger of their two counts (two one-sided tests, Schuirmann 1987).
    """
    bounds = np.array(region(direction, margin))
    low, high = stdtr(estimate.freedom, (bounds - estimate.value) / estimate.error)
    return float(max(low, 1 - high))


def decision(tails: Sequence[float]) -> tuple[float, bool]:
    """Return (p, whether for the claim) of a claim about one or several pairs, from `tail`.

    The claim holds only if it does for every pair, so the largest tail counts (an
    intersection-union test, Berger 1982). It fails if it does for any of k pairs, whose smallest
    probability is multiplied by k (Bonferroni). p is two-sided: twice the smaller of the two.
    """
    worst = max(tails)
    fails = min(1.0, len(tails) * (1 - worst))
    return min(1.0, 2 * min(worst, fails)), worst <= fails


def holm(p: Sequence[float], tests: int) -> list[tuple[float, float]]:
    """Return p-values adjusted by Holm's step-down procedure (Holm 1979), and the levels of tests.

    The smallest of m `tests` is multiplied by m, the next by m - 1 and so on; none may fall below
    the one before it or rise above 1. The chance that any of those at or below .05 is a false alarm
    is at most 5 %, however the tests depend on each other. Tests without a p-value count too, so
    that what could not be judged does not change what is said of the others.

    From the first p-value that is not rejected, all are tested at that one's level: so an interval
    at its level lies wholly on one side if and only if the adjusted p-value is at most .05.
    """
    order = np.argsort(p, kind="stable")
    left = tests - np.arange(len(p))
    adjusted = np.minimum(1.0, np.maximum.accumulate(left * np.sort(p)))
    levels = LEVEL / np.maximum(left, tests - np.sum(adjusted <= LEVEL))
    places = np.argsort(order)
    return [*zip(adjusted[places].tolist(), levels[places].tolist(), strict=True)]


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
    claims: dict[tuple[str, ...], list[str]] = {}
    for line in lines:
        claims.setdefault((line["paper"], line["claim"]), []).append(line["verdict"])
    number = f"{in_number(len(claims), 'claim')} ({in_number(len(lines), 'comparison')})"
    if data == GENERATED:
        return f"{number} on generated data, so the verdicts are not findings"
    counts = Counter(map(verdict, claims.values()))
    said = [f"{counts[name]} {words}" for name, words in IN_WORDS.items() if counts[name]]
    sides = {n for line in lines for n in _seeds(line)}
    alone = f" (one run of {'each variant' if sides == {'1'} else 'some variants'})"
    return f"{number}: {', '.join(said)}" + alone * ("1" in sides)


def verdict(found: Sequence[str]) -> str:
    """Return what a claim comes to, of what was `found` in its comparisons.

    It does not hold if it does not in one of them, and holds if it does in all; in part, if in some
    and nothing speaks against the others.
    """
    if HOLDS in found and FAILS not in found:
        return PART if {*found} != {HOLDS} else HOLDS
    return next(name for name in IN_WORDS if name in found)


def cells(line: Mapping[str, str]) -> tuple[str, ...]:
    """Return the cells of a line of the csv as plain text, none of them empty."""
    (versus, *more), claimed, said = (line["against"].split(), line["direction"], line["verdict"])
    if more:
        versus = f"{line['strongest']}, of" if line["strongest"] else "each of"
        versus += f" {1 + len(more)} others"
    if margin := line["margin"]:
        claimed += f" ({'within' if claimed == 'same' else 'by more than'} {float(margin):g})"
    task, measure = line["task"], line.get(MEASURE)
    of_task = TASKS[task].title if task in TASKS else f"overall, {task}"
    of_task += f": {measure}" if measure else ""
    compared = f"{line['variant']} − {versus}"  # noqa: RUF001 - the minus sign
    published = _signed(line["published_difference"])
    own = (line["claim"], line["section"] or ABSENT, compared, of_task, claimed, published)
    if not line["difference"]:
        return (*own, *[ABSENT] * 6, f"{said}: {line['reason']}" if said == OPEN else said)
    interval = f"{_signed(line['low'])} to {_signed(line['high'])}"
    p, examples = float(line["p_holm"]), ABSENT if measure else line["examples"]
    seeds = _seeds(line)
    said += " for these runs" * (said in (HOLDS, FAILS) and "1" in seeds)
    below = "< .001" if p < 0.001 else f"{p:.3f}"
    ours = _signed(line["difference"]), interval, f"{float(line['detectable']):.3f}"
    return *own, *ours, below, examples, _of_seeds(line), said


def _seeds(line: Mapping[str, str]) -> list[str]:
    """Return how many seeds of each trained side are compared; none if it was not judged."""
    return [n for name in ("seeds", "seeds_against") if (n := line[name])]


def _of_seeds(line: Mapping[str, str]) -> str:
    """Return the same for people, with how many there are if some failed: "2 of 3/3"."""
    failed = (line["failed"], line["failed_against"])
    return "/".join(
        f"{n} of {int(n) + int(k)}" if int(k) else n
        for n, k in zip(_seeds(line), failed, strict=False)
    )


def _signed(value: str) -> str:
    return f"{float(value):+.3f}".replace("-", "−") if value else ABSENT  # noqa: RUF001


def remarks(spec: Line) -> list[str]:
    """Return the sentences under the table, as plain text, that say how to read it."""
    return [
        "Paper and Ours: the first score minus the second, on dev; of several others, the one that "
        "contradicts the claim most. Scores: accuracy; Pearson r for STS; overall by the paper's "
        "own rule.",
        f"Interval: from the paired bootstrap over examples ({RESAMPLES:,} resamples; Efron & "
        "Tibshirani 1993); with several seeds, compared seed by seed, with their variance, which "
        "is the mean over the paper's rows, or the row's own if that is larger, and Student's t. "
        "It is widened for the paper's number of claims, so that it agrees with the verdict; "
        "low_95 and high_95 in the csv are not widened. Detectable: how far beyond its bound (0, "
        "or the margin) the true difference must lie for this test to find it in 80 of 100 cases.",
        f"p: adjusted by Holm (1979) for all of the paper's claims. At most {LEVEL:g}: the claim "
        "holds, or, if the difference contradicts it, does not hold. Above: within noise; neither "
        f"is shown. {SMALL.capitalize()}: no difference could have confirmed it, as half of the "
        "plain 95 % interval is more than the margin. A claim holds in part if it does in some of "
        "its comparisons, and fails in none. n: examples; for an overall score, those of all its "
        "tasks.",
        "Seeds: only trainings that learned are compared. A seed that failed to learn "
        "what most seeds of its row did is left out: 2 of 3.",
        "With one seed, verdict, interval and p are about these runs on other examples: they say "
        "nothing about how another training run would score. Cannot be judged: one side has not "
        "learned (half or more of its seeds are not clearly above the floor), or both sides are "
        "the same training.",
        *[ON_CURVES] * on_curves(spec),
        f"{FAVOURED[spec['selection_split']]}; see the tables for the last epoch's scores."
        + " Both kinds are compared on that other half." * (spec["selection_split"] == "both"),
        f"Backbone: {spec['backbone']}. Data: {spec['data']}. Seeds asked for: {spec['seeds']}. "
        f"{ABSENT}: not published, or not run.",
    ]
