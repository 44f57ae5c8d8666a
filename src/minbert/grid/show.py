"""`minbert plan`: what is done, what would run and why, and for how long, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from minbert.common.words import clock
from minbert.grid.config import load_config
from minbert.grid.earlier import Earlier
from minbert.grid.estimate import GPU_RATE, Cost, Costs
from minbert.grid.links import Stage, StageRef
from minbert.grid.pending import Pending, other_jobs, other_versions, pending, reason
from minbert.grid.plan import Plan
from minbert.grid.simulate import Machine, simulated
from minbert.grid.yaml_loader import from_words, load_yaml, update

TOTALS = (
    *("paper", "variants", "stages", "distinct", "jobs", "to run"),
    *("GPU-hours", "measured", "estimated"),
)
OTHERS = ("kind", "what", "key", "why")
HEADER = ("variant", "stage", "key", "state", "parameters", "memory", "time a seed", "why")


def show_plan(
    files: Sequence[Path], words: Sequence[str], base: Path, machine: Machine | None = None
) -> str:
    """Return the plan of a configuration, as `read_plan` takes it, in words; on a `machine`,
    how long its jobs would take there.

    Writes the descriptions that jobs read, so that a step can be run by hand after it.
    """
    plan = read_plan(files, words, base)
    plan.write()
    return plan_text(plan) + (f"\n\n{simulated(plan, machine)}" if machine else "")


def read_plan(files: Sequence[Path], words: Sequence[str], base: Path) -> Plan:
    """Return the plan of config `files`, later ones merged over earlier, and `KEY=VALUE` words."""
    values: dict[str, Any] = {}
    for path in files:
        values = update(values, load_yaml(path))
    where = ", ".join(str(path) for path in files)
    return Plan(load_config(values, from_words(words), where=where), base)


def plan_text(plan: Plan) -> str:
    """Return a table a paper (variant, stage, state, parameters, time, why), the other jobs that
    would run, and the totals."""
    costs, jobs, earlier = Costs(plan), pending(plan), Earlier(plan)
    blocks = []
    for grid in plan.grids:
        rows = []
        for variant in grid.variants.values():
            rows += [_row(plan, costs, jobs, earlier, stage) for stage in variant.stages]
            if variant.best_of:
                of = f"trains nothing: the best of {', '.join(variant.best_of)}"
                rows.append((variant.name, "-", "-", "-", "-", "-", "-", of))
        blocks.append(f"{grid.paper}: {grid.title}\n{_aligned([HEADER, *rows])}")
    if others := list(other_jobs(plan, jobs, earlier)):
        blocks.append(f"Other jobs\n{_aligned([OTHERS, *others])}")
    return "\n\n".join([*blocks, _totals(plan, costs, jobs)])


def _row(
    plan: Plan, costs: Costs, jobs: Pending, earlier: Earlier, stage: Stage
) -> tuple[str, ...]:
    node = plan.train(stage.ref)
    seeds = plan.config.seeds
    done = [seed for seed in seeds if (plan.nodes["train", node.key], seed) not in jobs]
    state = "done" if len(done) == len(seeds) else f"{len(done)} of {len(seeds)} seeds"
    owner = plan.owners[node.key]
    if owner != stage.ref:
        why = f"the same stage as {owner.variant}/{owner.stage}: trained once"
    elif len(done) == len(seeds):
        why = ""
    else:
        own = plan.nodes["train", node.key]
        again = next((jobs[own, s] for s in seeds if s not in done and jobs[own, s]), "")
        missing = ", ".join(str(s) for s in seeds if s not in done)
        new = f"seeds {missing} have not run" if done else reason(earlier, node) or "has never run"
        why = again or new
    count = plan.parameters(plan.variant(stage.ref))
    shown = "unknown" if count is None else f"{count:,}"
    room = f"{costs.memory(node).total / 1e9:.1f} GB"
    names = (stage.ref.variant, stage.ref.stage, node.key)
    return (*names, state, shown, room, _cost(costs.of(node)), why)


def _totals(plan: Plan, costs: Costs, jobs: Pending) -> str:
    table: list[tuple[str, tuple[int, ...], float, tuple[float, float]]] = []
    for grid in plan.grids:
        own = {k for k, ref in plan.owners.items() if ref.paper == grid.paper}
        waiting = [node for node, _ in jobs if node.kind == "train" and node.key in own]
        stages = sum(len(variant.stages) for variant in grid.variants.values())
        of_seeds = len(own) * len(plan.config.seeds)
        numbers = (len(grid.variants), stages, len(own), of_seeds, len(waiting))
        hours = sum(costs.gpu_hours(node) for node in waiting)
        table.append((grid.paper, numbers, hours, _seconds([costs.of(n) for n in waiting])))
    columns = zip(*(numbers for _, numbers, _, _ in table), strict=True)
    totals = tuple(sum(column) for column in columns)
    hours = sum(row[2] for row in table)
    times = sum(row[3][0] for row in table), sum(row[3][1] for row in table)
    table.append(("all", totals, hours, times))
    cells = [(name, *map(str, n), f"{h:.2g}", *map(clock, s)) for name, n, h, s in table]
    shared = len(plan.stages) - len(plan.owners)
    lines = [
        _aligned([TOTALS, *cells]),
        "",
        f"{totals[0]} variants, {totals[1]} stages, {totals[2]} distinct ({shared} shared), "
        f"{len(plan.config.seeds)} seeds: {totals[3]} training jobs, {totals[4]} to run",
    ]
    lines.append(f"GPU-hours: of the jobs to run, at {GPU_RATE:.0e} operations/s (an assumption).")
    lines.append(
        "Measured: of the jobs to run, one at a time, as long as finished runs of the same shape."
    )
    if times[1]:
        lines.append(f"Estimated: where no such run is, {costs.basis}.")
    return "\n".join([*lines, *other_versions(plan), *_sharing(plan)])


def _seconds(costs: Sequence[Cost]) -> tuple[float, float]:
    """Return the seconds that are measured, and those that are estimated."""
    return (
        sum(cost.seconds for cost in costs if cost.measured),
        sum(cost.seconds for cost in costs if not cost.measured),
    )


def _sharing(plan: Plan) -> Iterator[str]:
    """Yield which stages are trained once for several variants."""
    same: dict[str, list[StageRef]] = {}
    after: dict[str, set[str]] = {}
    for ref, stage in plan.stages.items():
        same.setdefault(plan.train(ref).key, []).append(ref)
        for before in (*([stage.start] if stage.start else []), *stage.fused):
            if before.variant != ref.variant:
                after.setdefault(plan.train(before).key, set()).add(ref.variant)
    saved = len(plan.stages) - len(plan.owners)
    groups = [f"{r[0]} = {', '.join(map(str, r[1:]))}" for r in same.values() if len(r) > 1]
    if groups:
        yield f"Trained once, {saved} stages saved: {'; '.join(groups)}."
    starts = [f"{plan.owners[key]} ({', '.join(sorted(users))})" for key, users in after.items()]
    if starts:
        yield f"Trained once, and used by later stages of others: {'; '.join(starts)}."


def _cost(cost: Cost) -> str:
    return clock(cost.seconds) + ("" if cost.measured else " est.")


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])
