"""`minbert plan`: what is done, what would run and why, and for how long, before anything runs.

`minbert learned`: which rows learned, of those that learned in their paper.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tabulate import tabulate

from minbert.base.errors import UserError
from minbert.base.locks import is_held
from minbert.base.progress import counted, duration, some
from minbert.plan.cost import GPU_RATE, Costs, chains, epoch
from minbert.plan.describe import PreviousRuns, title
from minbert.plan.parameters import variant_parameters
from minbert.plan.pending import check_sources, pending
from minbert.plan.plan import Plan
from minbert.spec.protocol import RULES
from minbert.spec.resolve import Stage
from minbert.spec.task import TASKS
from minbert.store.node import KINDS, Node
from minbert.store.plans import PUBLISHED
from minbert.track.journal import newest_attempts

HEADER = (
    *("variant", "stage", "key", "state", "parameters", "memory", "steps", "examples"),
    *("time per seed", "why"),
)

CLEARLY = 1.645
"""Standard errors of our score that a published one is above the floor by, to ask it of ours."""


HARDLY, NOT_ABOVE = "hardly above its floor", "not above its floor"

APART, DEVIATION = 0.1, 0.01
"""On which share of dev two trained models disagree, and how far a row's score moves with the seed,
other rows' with the same seed aside: about what the study has. Of a correlation, half of the error
that follows."""

TABLE: dict[str, Any] = {"tablefmt": "simple", "disable_numparse": True}


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
            rows: list[tuple[str, ...]] = []
            for variant in grid.variants.values():
                rows += map(self._row, variant.stages)
                if variant.best_of:
                    how = "tuned" if variant.tried else "trains nothing"
                    what = f"{how}: the best of {some(variant.best_of)}"
                    rows.append((variant.name, *["-"] * (len(HEADER) - 2), what))
            yield f"{grid.paper}: {grid.title}\n{tabulate(rows, HEADER, **TABLE)}"
        if others := list(self._other_jobs()):
            yield f"Other jobs\n{tabulate(others, ('kind', 'what', 'key', 'why'), **TABLE)}"
        yield "\n".join(self._totals())

    def _row(self, stage: Stage) -> tuple[str, ...]:
        ref, spec = stage.ref, stage.spec
        node = self.plan.nodes["train", self.plan.train(ref).key]
        missing = {n: self.jobs[node, n] for n in self.seeds if (node, n) in self.jobs}
        drawn = epoch(spec, self.costs.size)
        count = variant_parameters(self.plan, self.plan.variants[ref.paper, ref.variant])
        done = f"{len(self.seeds) - len(missing)} of {counted(len(self.seeds), 'seed')}"
        return (
            *(ref.variant, ref.stage, node.key, done if missing else "done"),
            "unknown" if count is None else f"{count:,}",
            f"{self.costs.device_mb(node) / 1e3:.1f} GB",
            f"{spec.epochs * drawn.steps:,}",
            f"{spec.epochs * sum(drawn.examples.values()):,}",
            duration(self.costs.seconds(node)),
            self._why(node, stage, missing),
        )

    def _why(self, node: Node, stage: Stage, missing: Mapping[int, str]) -> str:
        """Return why the `missing` seeds of a stage would run, or which stage is the same."""
        if (owner := self.plan.owners[node.key]) != stage.ref:
            return f"the same stage as {owner.variant}/{owner.stage}: trained once"
        if found := [*filter(None, missing.values()), *self._interrupted(node, missing)]:
            return some(found)
        if len(missing) == len(self.seeds):
            return self.earlier.reason(node)
        return f"not run: seed {some(map(str, missing))}" if missing else ""

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

    def _other_jobs(self) -> Iterator[tuple[str, ...]]:
        """Yield (kind, what, key, why) of the jobs to run besides training, by kind."""
        for kind in KINDS:
            for node, seed in self.jobs:
                if node.kind == kind != "train":
                    why = self.jobs[node, seed] or self.earlier.reason(node)
                    yield kind, title(self.plan, node), node.key, why
        if not self.plan.mark.exists():
            old = (self.plan.names / PUBLISHED).exists()
            why = "the published files are out of date" if old else "has never run"
            yield "publish", "-", self.plan.stamp, why

    def _totals(self) -> Iterator[str]:
        """Yield what there is to run in all, what that rests on, and warnings."""
        plan, costs = self.plan, self.costs
        trainings = [node for node, _ in self.jobs if node.kind == "train"]
        variants = counted(sum(len(grid.rows) for grid in plan.grids), "variant")
        stages, seeds = counted(len(plan.stages), "stage"), counted(len(self.seeds), "seed")
        jobs = counted(len(plan.owners) * len(self.seeds), "training job")
        yield f"{variants}, {stages}, {seeds}: {jobs}, {len(trainings)} to run"
        rate, measured = costs.rate
        if trainings:
            work, longest = sum(map(costs.seconds, trainings)), chains(self.jobs, costs).values()
            yield (
                f"On n devices: at least {duration(work)} / n, and never less than the longest "
                f"chain of trainings, {duration(max(longest))}; GPU-hours: "
                f"{work * rate / GPU_RATE / 3600:.2g}, at {GPU_RATE:.0e} operations/s (assumed)."
            )
        yield (
            f"Times are estimated by operations at {rate:.1e}/s "
            f"({'the rate of finished runs' if measured else 'assumed'})."
        )
        for grid in plan.grids:
            notes = plan.shown[f"tables/{grid.paper}"].spec["footnotes"]
            yield from (f"{grid.paper}: {note}" for note in notes)
        yield from self._untestable()
        try:
            plan.check_names()
            check_sources(self.jobs)
        except UserError as error:
            yield f"Snakemake would refuse to start: {error}"

    def _untestable(self) -> Iterator[str]:
        """Yield the claims that rows score the same which no result of this size can confirm.

        As far as that can be told before anything is trained: twice the error that is to be
        expected is more than the margin.
        """
        node = self.plan.shown.get("tables/claims")
        about: Any = node.spec if node else {"claims": ()}
        found: dict[str, list[str]] = {}
        for claim in about["claims"]:
            if claim["direction"] == "same" and "measure" not in claim:
                margin, task, paper = (claim[name] for name in ("margin", "task", "paper"))
                share = 1.0 if self.plan.selection_split(paper) == "dev" else 0.5
                error = self._expected_error(task, about["overall_tasks"][paper], share)
                if 1.96 * error >= margin:
                    others = some(claim["against"])
                    said = f"{paper}: {claim['variant']} the same as {others} within {margin:g}"
                    found.setdefault(said, []).append(task)
        seeds = counted(len(self.seeds), "seed")
        for said, tasks in found.items():
            yield f"{said} ({', '.join(tasks)}): not testable with {seeds} and this dev set"

    def _expected_error(self, measure: str, overall_tasks: Sequence[str], share: float) -> float:
        """Return the standard error of two rows' difference on a task, or overall.

        They are scored on that `share` of dev.
        """
        from minbert.evaluate.bootstrap import overall_error  # These load scipy.
        from minbert.evaluate.scoring import CORRELATIONS

        if measure in RULES:
            errors = {task: self._expected_error(task, (), share) for task in overall_tasks}
            return overall_error(errors, measure, overall_tasks) or 0.0
        of_seeds = 2 * DEVIATION**2 / len(self.seeds) if len(self.seeds) > 1 else 0.0
        examples = max(1.0, share * self.costs.size(measure).dev)
        error = math.sqrt(APART / examples + of_seeds)
        return error / 2 if TASKS[measure].metric in CORRELATIONS else error


def learned_text(plan: Plan) -> str:
    """Return a line for each of our dev scores whose published one is clearly above its floor.

    Raises `UserError` if none of the papers has scores yet.
    """
    from minbert.evaluate.reading import LEAST_GAIN, gain, read_scores  # loads pyarrow

    made = {grid.paper: plan.shown[f"scores/{grid.paper}"] for grid in plan.grids}
    paths = {paper: node.folder(plan.root) / "scores.parquet" for paper, node in made.items()}
    found = {paper: read_scores(path, paper) for paper, path in paths.items() if path.exists()}
    if not found:
        raise UserError(
            f"{plan.root}: there are no scores for this configuration; run snakemake with it, or "
            "give the --configfile and --config of the run"
        )
    lines: list[tuple[Any, ...]] = []
    for row in plan.published:
        for of, by_seed in found.get(row.paper, {}).items():
            theirs = row.figure(of.measure) if of[:2] == (row.variant, row.split) else None
            for seed, score in by_seed.items() if of.split == "dev" else ():
                floor, error = score.floor or 0.0, score.error or 0.0
                if score.learned is None or theirs is None or gain(theirs, floor) < LEAST_GAIN:
                    continue
                if theirs > floor + CLEARLY * error:
                    said = "constant" if score.constant else HARDLY if score.above else NOT_ABOVE
                    about = (row.paper, of.variant, of.measure, seed, theirs, score.value, floor)
                    lines.append((*about, "" if score.learned else said))
    counts = Counter(line[-1] for line in lines)
    head = ("paper", "variant", "task", "seed", "paper's", "ours", "floor", "")
    table = tabulate(lines, head, floatfmt=".3f")
    return (
        f"{table}\n\n{counts[''] + counts[HARDLY]} of {len(lines)} above their floor at the 5 % "
        f"level, {counts['']} clearly, {counts['constant']} of {len(lines)} constant predictors.\n"
        "Floors: the most frequent class, r = 0 (docs/statistics.md#floors). Listed: our dev "
        "scores whose published score is clearly above the floor."
    )
