"""What the papers claim, and whether it held here: a table of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minbert.common.files import write_text
from minbert.evaluate.bootstrap import Estimate, Sample, difference
from minbert.evaluate.claims_text import to_latex, to_markdown
from minbert.evaluate.holm import holm
from minbert.evaluate.systems import Systems, constant
from minbert.evaluate.verdict import NOT_RUN, against, decision, verdict
from minbert.evaluate.write import csv_text

COLUMNS = (
    *("paper", "section", "claim", "variant", "against", "strongest", "task", "direction"),
    *("margin", "published_difference", "difference", "low", "high", "error", "p", "p_holm"),
    *("examples", "seeds", "seeds_against", "verdict", "reason", "method"),
)


class Judged(NamedTuple):
    """One claim that could be judged, before what is judged beside it is taken into account.

    `other` is the one of several others that speaks most against the claim; `seeds` are the
    numbers of seeds of the variant and of that one (None: a score or the majority).
    """

    estimate: Estimate
    other: str
    p: float
    supports: bool
    examples: int
    seeds: tuple[int, int | None]


def build_claims(
    spec: Mapping[str, Any],
    scores: Mapping[str, Path],
    predictions: Mapping[str, Path],
    out_dir: Path,
) -> None:
    """Write `claims.csv`, `claims.md` and `claims.tex` in `out_dir`, a line a claim and task.

    `spec` is that of the node (`minbert.grid.claims`); `scores` are the papers' score tables by
    paper, `predictions` the runs' by KEY.SEED. A claim holds or fails if its p-value, adjusted by
    Holm for the claims of its paper that could be judged, is at most .05; otherwise it is within
    noise. One whose variants have no scores says `not run`. The csv has every number unrounded.
    """
    lines: list[dict[str, Any]] = []
    for paper in spec["titles"]:
        claims = [claim for claim in spec["claims"] if claim["paper"] == paper]
        compared = {name for claim in claims for name in (claim["variant"], *claim["others"])}
        systems = Systems(paper, scores[paper], predictions, compared)
        lines += _lines(claims, systems)
    write_text(out_dir / "claims.csv", csv_text(COLUMNS, lines))
    write_text(out_dir / "claims.md", to_markdown(spec, lines))
    write_text(out_dir / "claims.tex", to_latex(spec, lines))


def _lines(claims: Sequence[Mapping[str, Any]], systems: Systems) -> list[dict[str, Any]]:
    """Return the csv lines of one paper's claims."""
    absent = [_absent(claim, systems) for claim in claims]
    judged = [None if a else _judge(c, systems) for c, a in zip(claims, absent, strict=True)]
    adjusted = iter(holm([each.p for each in judged if each]))
    lines = []
    for claim, missing, result in zip(claims, absent, judged, strict=True):
        line = {name: claim[name] for name in ("paper", "section", "variant", "task", "direction")}
        line |= {"claim": claim["text"], "against": " ".join(_names(claim))}
        line |= {"margin": claim["margin"] if claim["direction"] not in ("higher", "lower") else ""}
        line |= {"published_difference": claim["published"]}
        if result is None:
            line |= {"verdict": NOT_RUN, "reason": f"no scores of {', '.join(missing)}"}
        else:
            p_holm = next(adjusted)
            line |= _numbers(result) | {
                "p_holm": p_holm,
                "verdict": verdict(p_holm, result.supports),
            }
        lines.append(line)
    return lines


def _names(claim: Mapping[str, Any]) -> list[str]:
    """Return what the claim's variant is compared with, in words."""
    if claim["others"]:
        return list(claim["others"])
    return ["majority" if claim["score"] is None else f"{claim['score']:g}"]


def _absent(claim: Mapping[str, Any], systems: Systems) -> list[str]:
    names = (claim["variant"], *claim["others"])
    return [name for name in names if not systems.seeds(name, claim["task"])]


def _judge(claim: Mapping[str, Any], systems: Systems) -> Judged:
    task = claim["task"]
    one = systems.sample(claim["variant"], task)
    others: dict[str, Sample] = {name: systems.sample(name, task) for name in claim["others"]}
    if not others:
        (name,) = _names(claim)
        given = claim["score"]
        others = {name: systems.majority(task) if given is None else constant(given)}
    examples = systems.examples(task)
    estimates = {
        name: difference(
            one, other, 0.0 if systems.same(claim["variant"], name, task) else 1 / examples
        )
        for name, other in others.items()
    }
    tails = {n: against(e, claim["direction"], claim["margin"]) for n, e in estimates.items()}
    worst = max(tails, key=lambda name: tails[name])
    p, supports = decision(list(tails.values()))
    seeds = len(others[worst].values) if claim["others"] else None
    return Judged(
        estimates[worst],
        worst,
        p,
        supports,
        examples,
        (len(one.values), seeds),
    )


def _numbers(judged: Judged) -> dict[str, Any]:
    estimate = judged.estimate
    several = max(judged.seeds[0], judged.seeds[1] or 1) > 1
    return {
        "strongest": judged.other,
        "difference": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "error": estimate.error,
        "p": judged.p,
        "examples": judged.examples,
        "seeds": judged.seeds[0],
        "seeds_against": judged.seeds[1],
        "method": f"bootstrap over {'seeds and examples' if several else 'examples'}, paired",
    }
