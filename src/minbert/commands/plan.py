"""`minbert plan`: what is done, what would run and why, and for how long, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from minbert.base.errors import UserError, did_you_mean
from minbert.base.locks import is_held
from minbert.base.progress import clock, counted
from minbert.commands.summary import undecided
from minbert.evaluate.tuning import read_tuning
from minbert.plan.cost import ASSUMED, GPU_RATE, SIZES, Costs, chains, epoch
from minbert.plan.demand import stage_memory
from minbert.plan.describe import title
from minbert.plan.difference import some
from minbert.plan.parameters import parameters
from minbert.plan.pending import Pending, pending
from minbert.plan.plan import Plan
from minbert.plan.reasons import PreviousRuns, warnings
from minbert.spec.config import load_config
from minbert.spec.resolve import Stage, Variant
from minbert.store.kinds import KINDS
from minbert.store.node import Node

if TYPE_CHECKING:
    from minbert.evaluate.reading import Scores

TOTALS = (
    *("paper", "variants", "stages", "distinct", "jobs", "to run"),
    *("GPU-hours", "measured", "estimated"),
)
OTHERS = ("kind", "what", "key", "why")
HEADER = (
    *("variant", "stage", "key", "state", "parameters", "memory", "steps", "examples"),
    *("time per seed", "why"),
)


def read_plan(files: Sequence[Path], words: Sequence[str], base: Path) -> Plan:
    """Return the plan of config `files`, later ones merged over earlier, and `KEY=VALUE` words."""
    given = [file for file in files if file not in (Path("config.yaml"), base / "config.yaml")]
    return Plan.of(load_config(files, words), base, given, words)


def plan_text(plan: Plan, why: str | None = None) -> str:
    """Return a table for each paper, the other jobs that would run, and the totals.

    With `why`, return all that keeps that variant from being done (`why_text`).
    """
    if why is not None:
        return why_text(plan, why)
    costs, jobs, earlier = Costs(plan), pending(plan), PreviousRuns(plan)
    blocks = []
    for grid in plan.grids:
        rows = []
        for variant in grid.variants.values():
            rows += [_row(plan, costs, jobs, earlier, stage) for stage in variant.stages]
            if variant.best_of:
                rows.append((variant.name, *["-"] * (len(HEADER) - 2), _best(plan, variant)))
        blocks.append(f"{grid.paper}: {grid.title}\n{aligned([HEADER, *rows])}")
    if others := list(_other_jobs(plan, jobs, earlier)):
        blocks.append(f"Other jobs\n{aligned([OTHERS, *others])}")
    return "\n\n".join([*blocks, "\n".join(_totals(plan, costs, jobs, earlier))])


def why_text(plan: Plan, wanted: str) -> str:
    """Return all that keeps a variant's stages, `VARIANT` or `PAPER/VARIANT`, from being done."""
    every = [variant for grid in plan.grids for variant in grid.variants.values()]
    found = [v for v in every if wanted in (v.name, f"{v.paper}/{v.name}")]
    if not found:
        names = [name for v in every for name in (v.name, f"{v.paper}/{v.name}")]
        raise UserError(f"no grid has a variant '{wanted}'.{did_you_mean(wanted, names)}")
    jobs, earlier = pending(plan), PreviousRuns(plan)
    lines: list[str] = []
    for variant in found:
        if variant.best_of:
            lines.append(f"{variant.paper}/{variant.name}: {_best(plan, variant)}")
        for stage in variant.stages:
            node = plan.training(stage.ref)
            whys = {seed: jobs[node, seed] for seed in plan.config.seeds if (node, seed) in jobs}
            state = f"to run with seeds {', '.join(map(str, whys))}" if whys else "done"
            lines.append(f"{variant.paper}/{stage.ref}, {node.key}: {state}")
            told = [f"seed {seed}: {why}" for seed, why in whys.items() if why]
            told += _interrupted(plan, node, list(whys))
            if len(whys) == len(plan.config.seeds) and not any(whys.values()):
                told += earlier.explained(node)
            lines += [f"  {line}" for line in told]
    return "\n".join(lines)


def _row(
    plan: Plan, costs: Costs, jobs: Pending, earlier: PreviousRuns, stage: Stage
) -> tuple[str, ...]:
    node = plan.training(stage.ref)
    seeds = plan.config.seeds
    missing = [seed for seed in seeds if (node, seed) in jobs]
    count = parameters(plan, plan.variants[stage.ref.paper, stage.ref.variant])
    cost = costs.of(node)
    return (
        *(stage.ref.variant, stage.ref.stage, node.key),
        f"{len(seeds) - len(missing)} of {len(seeds)} seeds" if missing else "done",
        "unknown" if count is None else f"{count:,}",
        f"{stage_memory(plan, node, costs) / 1e9:.1f} GB",
        *_length(costs, stage),
        clock(cost.seconds) + ("" if cost.measured else " est."),
        _why(plan, jobs, earlier, stage, missing),
    )


def _why(
    plan: Plan, jobs: Pending, earlier: PreviousRuns, stage: Stage, missing: Sequence[int]
) -> str:
    """Return why the `missing` seeds of a stage would run, or that it is another one's."""
    node = plan.training(stage.ref)
    if (owner := plan.owners[node.key]) != stage.ref:
        return f"the same stage as {owner.variant}/{owner.stage}: trained once"
    if not missing:
        return ""
    if why := next(filter(None, (jobs[node, seed] for seed in missing)), ""):
        return why
    if interrupted := list(_interrupted(plan, node, missing)):
        return some(interrupted)
    if len(missing) < len(plan.config.seeds):
        return f"seeds {some(map(str, missing))} have not run"
    return earlier.reason(node)


def _other_jobs(plan: Plan, jobs: Pending, earlier: PreviousRuns) -> Iterator[tuple[str, ...]]:
    """Yield (kind, what, key, why) of the jobs to run besides training, by kind."""
    kinds = list(KINDS)
    others = dict.fromkeys(node for node, _ in jobs if node.kind != "train")
    for node in sorted(others, key=lambda node: kinds.index(node.kind)):
        yield node.kind, title(plan, node), node.key, jobs[node, None] or earlier.reason(node)
    if not plan.mark.exists():
        yield "publish", "-", plan.stamp, "the plain names do not hold what is asked for"


def _interrupted(plan: Plan, node: Node, seeds: Sequence[int]) -> Iterator[str]:
    """Yield from where the trainings with these seeds go on that were stopped."""
    for seed in seeds:
        work = plan.root / "work" / node.key / f"seed{seed}"
        steps = [int(path.stem.partition("-")[2]) for path in work.glob("state-*.pt")]
        if steps:
            of = f"seed {seed} " if len(plan.config.seeds) > 1 else ""
            how = "has saved" if is_held(work / "lock") else "interrupted at"
            yield f"{of}{how} step {max(steps)}"


def _length(costs: Costs, stage: Stage) -> tuple[str, str]:
    """Return a stage's optimiser steps and examples; in brackets those of its grid in full."""
    here = costs.sizes(stage.spec)
    ours, papers = (
        (spec.epochs * drawn.steps, spec.epochs * sum(drawn.examples.values()))
        for spec, drawn in (
            (stage.spec, epoch(stage.spec, here)),
            (stage.plain, epoch(stage.plain, {**here, **SIZES})),
        )
    )
    steps, examples = (
        f"{our:,}" if our == paper else f"{our:,} ({paper:,})"
        for our, paper in zip(ours, papers, strict=True)
    )
    return steps, examples


def _best(plan: Plan, variant: Variant) -> str:
    if not variant.tried:
        return f"trains nothing: the best of {', '.join(variant.best_of)}"
    candidates = (plan.variants[variant.paper, name] for name in variant.tried)
    keys = {plan.train(stage.ref).key for one in candidates for stage in one.stages}
    said = f"tuned: the best of {len(variant.tried)} settings"
    said += f", {counted(len(keys) * len(plan.config.seeds), 'run')}"
    node = plan.shown[f"tables/{variant.paper}.tuning"]
    if not node.done(plan.root):
        return said
    path = node.folder(plan.root) / "tuning.csv"
    try:
        return f"{said}; chosen: {read_tuning(path)[variant.name].settings}"
    except (KeyError, ValueError):
        raise UserError(
            f"{path} is damaged: delete {path.parent}, and the next `snakemake all` makes it again"
        ) from None


def _totals(plan: Plan, costs: Costs, jobs: Pending, earlier: PreviousRuns) -> Iterator[str]:
    """Yield a table of the papers' totals, what its figures rest on, and warnings."""
    seeds = len(plan.config.seeds)
    table: dict[str, tuple[float, ...]] = {}
    for grid in plan.grids:
        own = {key for key, ref in plan.owners.items() if ref.paper == grid.paper}
        waiting = [node for node, _ in jobs if node.kind == "train" and node.key in own]
        found = [costs.of(node) for node in waiting]
        table[grid.paper] = (
            len(grid.rows),
            sum(len(variant.stages) for variant in grid.variants.values()),
            len(own),
            len(own) * seeds,
            len(waiting),
            sum(costs.gpu_hours(node) for node in waiting),
            sum(cost.seconds for cost in found if cost.measured),
            sum(cost.seconds for cost in found if not cost.measured),
        )
    table["all"] = tuple(map(sum, zip(*table.values(), strict=True)))
    cells = [
        (name, *map(str, row[:5]), f"{row[5]:.2g}", *map(clock, row[6:]))
        for name, row in table.items()
    ]
    variants, stages, distinct, trainings, to_run, _, _, estimated = table["all"]
    shared = len(plan.stages) - len({plan.train(ref).key for ref in plan.stages})
    yield aligned([TOTALS, *cells])
    yield ""
    yield (
        f"{variants} variants, {stages} stages, {distinct} distinct ({shared} shared), "
        f"{counted(seeds, 'seed')}: {counted(trainings, 'training job')}, {to_run} to run"
    )
    yield f"GPU-hours: for the jobs to run, at {GPU_RATE:.0e} operations/s (an assumption)."
    yield "Steps and examples: in brackets, as in the grid, with the full data sets."
    yield "Measured: for the jobs to run, one at a time, from finished seeds of the same stage."
    if estimated:
        yield f"Estimated: if there is none, {costs.basis}."
    if assumed := costs.assumed:
        yield (
            f"Assumed for {', '.join(assumed)} until their tables are made: {ASSUMED.train:,} "
            f"train, {ASSUMED.dev:,} dev and {ASSUMED.test:,} test rows, {ASSUMED.tokens:g} tokens "
            "each."
        )
    if to_run:
        seconds = sum(costs.of(node).seconds for node, _ in jobs if node.kind == "train")
        longest = max(chains(jobs, costs).values(), key=lambda chain: chain.seconds)
        titles = " > ".join(title(plan, node) for node, _ in longest.trainings)
        yield (
            f"On n devices: at least {clock(seconds)} / n, and never less than the longest chain "
            f"of trainings, {clock(longest.seconds)} ({titles})."
        )
    yield from warnings(plan, earlier)
    for grid in plan.grids:
        notes = plan.shown[f"tables/{grid.paper}"].spec["footnotes"]
        yield from (f"{grid.paper}: {note}" for note in notes)
    yield from undecided(plan.root)


def paper_scores(plan: Plan, paper: str) -> Scores:
    """Return the scores of a paper's runs; none before they were made."""
    path = plan.shown[f"scores/{paper}"].folder(plan.root) / "scores.parquet"
    if not path.exists():
        return {}
    from minbert.evaluate.reading import read_scores  # loads pyarrow

    return read_scores(path, paper)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return a table of cells as text, the first row as its head."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])
