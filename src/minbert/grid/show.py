"""`minbert plan`: what is done, what would run and why, and for how long, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from minbert.common.files import read_json
from minbert.grid.code import differs
from minbert.grid.config import load_config
from minbert.grid.estimate import GPU_RATE, Cost, Costs
from minbert.grid.links import Stage, StageRef
from minbert.grid.node import Node
from minbert.grid.plan import Plan
from minbert.grid.yaml_loader import from_words, load_yaml, merge

HEADER = ("variant", "stage", "key", "state", "parameters", "time a seed", "why")


def show_plan(files: Sequence[Path], words: Sequence[str], base: Path) -> str:
    """Return the plan of a configuration, as `read_plan` takes it, in words.

    Writes the descriptions that jobs read, so that a step can be run by hand after it.
    """
    plan = read_plan(files, words, base)
    plan.write()
    return plan_text(plan)


def read_plan(files: Sequence[Path], words: Sequence[str], base: Path) -> Plan:
    """Return the plan of config `files`, later ones merged over earlier, and `KEY=VALUE` words."""
    values: dict[str, Any] = {}
    for path in files:
        values = merge(values, load_yaml(path))
    where = ", ".join(str(path) for path in files)
    return Plan(load_config(values, from_words(words), where=where), base)


def plan_text(plan: Plan) -> str:
    """Return a table a paper (variant, stage, state, parameters, time, why) and the totals."""
    costs = Costs(plan)
    blocks = []
    for grid in plan.grids:
        rows = []
        for variant in grid.variants.values():
            rows += [_row(plan, costs, stage) for stage in variant.stages]
            if variant.best_of:
                of = f"trains nothing: the best of {', '.join(variant.best_of)}"
                rows.append((variant.name, "-", "-", "-", "-", "-", of))
        blocks.append(f"{grid.paper}: {grid.title}\n{_aligned([HEADER, *rows])}")
    return "\n\n".join([*blocks, _totals(plan, costs)])


def _row(plan: Plan, costs: Costs, stage: Stage) -> tuple[str, ...]:
    node = plan.train(stage.ref)
    seeds = plan.config.seeds
    done = [seed for seed in seeds if node.done(plan.root, seed)]
    state = "done" if len(done) == len(seeds) else f"{len(done)} of {len(seeds)} seeds"
    owner = plan.owners[node.key]
    if owner != stage.ref:
        why = f"the same stage as {owner.variant}/{owner.stage}: trained once"
    elif len(done) == len(seeds):
        why = ""
    elif done:
        why = "seeds " + ", ".join(str(s) for s in seeds if s not in done) + " have not run"
    else:
        why = "; ".join(reasons(plan, node)) or "has never run"
    variant = next(g for g in plan.grids if g.paper == stage.ref.paper).variants[stage.ref.variant]
    count = plan.parameters(variant)
    shown = "unknown" if count is None else f"{count:,}"
    return (stage.ref.variant, stage.ref.stage, node.key, state, shown, _cost(costs.of(node)), why)


def reasons(plan: Plan, node: Node) -> Iterator[str]:
    """Yield what differs between a node and the latest finished run of the same stage, if any."""
    owner = plan.owners[node.key]
    names = {"paper": owner.paper, "variant": owner.variant, "stage": owner.stage}
    earlier = []
    for path in (plan.root / "store" / "spec").glob("train-*.json"):
        described = read_json(path)
        records = list((plan.root / "store" / "train" / described["key"]).glob("seed*/run.json"))
        if described.get("owner") == names and described["key"] != node.key and records:
            earlier.append((max(r.stat().st_mtime for r in records), path.name, described))
    if not earlier:
        return
    old = max(earlier)[2]
    yield from _changes(old["spec"]["stage"], node.spec["stage"], "")
    for module in differs(old["code"], node.code):
        yield f"code of {module} changed"
    now = {name: need.node.key for name, need in node.needs.items()}
    for name, need in old["needs"].items():
        if now.get(name) != need["key"]:
            yield f"{name} is another ({need['key'][:6]} -> {now.get(name, 'none')[:6]})"


def _changes(old: Any, new: Any, path: str) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            inner = f"{path}.{name}" if path else name
            yield from _changes(old.get(name), new.get(name), inner)
    elif old != new:
        yield f"{path}: {old} -> {new}"


def _totals(plan: Plan, costs: Costs) -> str:
    header = ("paper", "variants", "stages", "distinct", "jobs", "to run", "GPU-hours", "time here")
    table: list[tuple[str, tuple[int, ...], float, float]] = []
    guessed = False
    for grid in plan.grids:
        own = [plan.nodes["train", k] for k, ref in plan.owners.items() if ref.paper == grid.paper]
        waiting = [n for n in own for seed in plan.config.seeds if not n.done(plan.root, seed)]
        found = [costs.of(node) for node in waiting]
        guessed = guessed or not all(cost.measured for cost in found)
        stages = sum(len(variant.stages) for variant in grid.variants.values())
        jobs = len(own) * len(plan.config.seeds)
        numbers = (len(grid.variants), stages, len(own), jobs, len(waiting))
        hours = sum(costs.gpu_hours(node) for node in waiting)
        table.append((grid.paper, numbers, hours, sum(cost.seconds for cost in found)))
    columns = zip(*(numbers for _, numbers, _, _ in table), strict=True)
    totals = tuple(sum(column) for column in columns)
    table.append(("all", totals, sum(row[2] for row in table), sum(row[3] for row in table)))
    cells = [(name, *map(str, n), f"{hours:.2g}", _time(s)) for name, n, hours, s in table]
    shared = len(plan.stages) - len(plan.owners)
    lines = [
        _aligned([header, *cells]),
        "",
        f"{totals[0]} variants, {totals[1]} stages, {totals[2]} distinct ({shared} shared), "
        f"{len(plan.config.seeds)} seeds: {totals[3]} training jobs, {totals[4]} to run",
    ]
    lines.append(f"GPU-hours: of the jobs to run, at {GPU_RATE:.0e} operations/s (an assumption).")
    how = f"; where nothing was measured, {costs.basis}" if guessed else ", as measured"
    lines.append(f"Time here: of the jobs to run, one at a time{how}.")
    return "\n".join([*lines, *_sharing(plan)])


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
    return _time(cost.seconds) + ("" if cost.measured else " est.")


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])
