"""`minbert plan`: what is done, what would run and why, and for how long, before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from minbert.base.locks import is_held
from minbert.base.progress import counted, duration, some
from minbert.evaluate.tuning import read_tuning
from minbert.plan.cost import ASSUMED, GPU_RATE, Costs, chains, epoch
from minbert.plan.describe import PreviousRuns, title
from minbert.plan.pending import pending
from minbert.plan.plan import Plan
from minbert.spec.resolve import Stage, Variant
from minbert.store.node import KINDS, Node
from minbert.track.journal import newest_attempts

if TYPE_CHECKING:
    from minbert.evaluate.reading import Scores

OTHERS = ("kind", "what", "key", "why")
HEADER = (
    *("variant", "stage", "key", "state", "parameters", "memory", "steps", "examples"),
    *("time per seed", "why"),
)


def read_plan(files: Sequence[Path], words: Sequence[str], base: Path) -> Plan:
    """Return the plan of config `files`, later ones merged over earlier, and `KEY=VALUE` words."""
    given = [file for file in files if file not in (Path("config.yaml"), base / "config.yaml")]
    return Plan.load(files, base, given, words)


def plan_text(plan: Plan) -> str:
    """Return a table for each paper, the other jobs that would run, and the totals."""
    return "\n\n".join(_Outlook(plan).blocks())


class _Outlook:
    """What would run of a plan: the lines of `minbert plan`."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.seeds = plan, plan.config.seeds
        self.costs, self.jobs, self.earlier = Costs(plan), pending(plan), PreviousRuns(plan)
        self.attempts = newest_attempts(plan.root)

    def blocks(self) -> Iterator[str]:
        """Yield a table for each paper, the other jobs, and the totals."""
        for grid in self.plan.grids:
            rows: list[Sequence[str]] = []
            for variant in grid.variants.values():
                rows += map(self._row, variant.stages)
                if variant.best_of:
                    rows.append((variant.name, *["-"] * (len(HEADER) - 2), self._best(variant)))
            yield f"{grid.paper}: {grid.title}\n{aligned([HEADER, *rows])}"
        if others := list(self._other_jobs()):
            yield f"Other jobs\n{aligned([OTHERS, *others])}"
        yield "\n".join(self._totals())

    def _missing(self, node: Node) -> dict[int, str]:
        """Return {seed: why} of a training's seeds that would run."""
        return {seed: self.jobs[node, seed] for seed in self.seeds if (node, seed) in self.jobs}

    def _row(self, stage: Stage) -> tuple[str, ...]:
        node = self.plan.training(stage.ref)
        missing = self._missing(node)
        drawn = epoch(stage.spec, self.costs.sizes(stage.spec))
        count = self.plan.parameters(self.plan.variants[stage.ref.paper, stage.ref.variant])
        return (
            *(stage.ref.variant, stage.ref.stage, node.key),
            f"{len(self.seeds) - len(missing)} of {counted(len(self.seeds), 'seed')}"
            if missing
            else "done",
            "unknown" if count is None else f"{count:,}",
            f"{self.costs.device_mb(node) / 1e3:.1f} GB",
            f"{stage.spec.epochs * drawn.steps:,}",
            f"{stage.spec.epochs * sum(drawn.examples.values()):,}",
            self._time([node]),
            self._why(node, stage, missing),
        )

    def _why(self, node: Node, stage: Stage, missing: Mapping[int, str]) -> str:
        """Return why the `missing` seeds of a stage would run, or that it is another one's."""
        if (owner := self.plan.owners[node.key]) != stage.ref:
            return f"the same stage as {owner.variant}/{owner.stage}: trained once"
        if found := [*filter(None, missing.values()), *self._interrupted(node, missing)]:
            return some(found)
        if not missing:
            return ""
        if len(missing) < len(self.seeds):
            return f"not run: seed {some(map(str, missing))}"
        return self.earlier.reason(node)

    def _interrupted(self, node: Node, seeds: Iterable[int]) -> Iterator[str]:
        """Yield how trainings with these seeds ended before, and from where they go on."""
        for seed in seeds:
            work = self.plan.root / "work" / node.key / f"seed{seed}"
            if steps := [int(path.stem.partition("-")[2]) for path in work.glob("state-*.pt")]:
                how = "has saved" if is_held(work / "lock") else "interrupted at"
                yield f"seed {seed} {how} step {max(steps)}"
            attempt = self.attempts.get((node.key, str(seed)))
            if attempt and (why := attempt.failure()):
                yield f"seed {seed} failed: {why.splitlines()[0][:200]}"

    def _time(self, nodes: Iterable[Node]) -> str:
        """Return how long trainings take one after the other, and whether that is estimated."""
        found = [self.costs.of(node) for node in nodes]
        estimated = not all(cost.measured for cost in found)
        return duration(sum(cost.seconds for cost in found)) + " est." * estimated

    def _best(self, variant: Variant) -> str:
        if not variant.tried:
            return f"trains nothing: the best of {', '.join(variant.best_of)}"
        candidates = (self.plan.variants[variant.paper, name] for name in variant.tried)
        keys = {self.plan.train(stage.ref).key for one in candidates for stage in one.stages}
        said = f"tuned: the best of {len(variant.tried)} settings"
        said += f", {counted(len(keys) * len(self.seeds), 'run')}"
        node = self.plan.shown[f"tables/{variant.paper}.tuning"]
        if node.done(self.plan.root):
            found = read_tuning(node.folder(self.plan.root) / "tuning.csv")
            said += f"; chosen: {found[variant.name].settings}"
        return said

    def _other_jobs(self) -> Iterator[tuple[str, ...]]:
        """Yield (kind, what, key, why) of the jobs to run besides training, by kind."""
        others = [node for node, _ in self.jobs if node.kind != "train"]
        for node in sorted(others, key=lambda node: [*KINDS].index(node.kind)):
            why = self.jobs[node, None] or self.earlier.reason(node)
            yield node.kind, title(self.plan, node), node.key, why
        if not self.plan.mark.exists():
            yield "publish", "-", self.plan.stamp, "the published files are out of date"

    def _totals(self) -> Iterator[str]:
        """Yield what there is to run in all, what that rests on, and warnings."""
        plan, costs = self.plan, self.costs
        trainings = [node for node, _ in self.jobs if node.kind == "train"]
        variants = sum(len(grid.rows) for grid in plan.grids)
        stages, distinct = len(plan.stages), len({plan.train(ref).key for ref in plan.stages})
        seeds, jobs = len(self.seeds), len(plan.owners) * len(self.seeds)
        yield (
            f"{variants} variants, {stages} stages, {distinct} distinct "
            f"({stages - distinct} shared), {counted(seeds, 'seed')}: "
            f"{counted(jobs, 'training job')}, {len(trainings)} to run"
        )
        hours = sum(costs.operations(node.spec["stage"]) for node in trainings) / GPU_RATE / 3600
        yield f"GPU-hours to run: {hours:.2g}, at {GPU_RATE:.0e} operations/s (an assumption)."
        rate, measured = costs.rate
        source = "as in finished runs" if measured else "an assumption"
        yield (
            "Times are those of the stage's finished seeds; without any, estimated (est.) by "
            f"operations at {rate:.1e}/s ({source})."
        )
        if plan.config.tasks:
            yield (
                f"Of a task of your own, {ASSUMED.train:,} training rows of {ASSUMED.tokens:g} "
                "tokens are assumed until its table is made."
            )
        if trainings:
            longest = max(chains(self.jobs, costs).values())
            yield (
                f"On n devices: at least {self._time(trainings)} / n, and never less than the "
                f"longest chain of trainings, {duration(longest)}."
            )
        for grid in plan.grids:
            notes = plan.shown[f"tables/{grid.paper}"].spec["footnotes"]
            yield from (f"{grid.paper}: {note}" for note in notes)


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
