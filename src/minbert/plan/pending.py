"""What would run: the jobs whose files are missing, and what Snakemake is told of each."""

import os
from collections import deque
from collections.abc import Sequence
from functools import cache

from minbert.base.errors import UserError
from minbert.plan.plan import Plan
from minbert.store.node import KINDS, Node

Job = tuple[Node, int | None]  # a node with its seed; None if its kind has none


class Pending(dict[Job, str]):
    """{(node, seed): why} of the jobs of a plan that would run.

    It looks at each job's files once, so that all that it says is of one moment. `folder` is that
    of a job's files, `missing` those that are not there, `needs` {needed job: its files} (below).
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan
        self.folder = cache(lambda job: str(job[0].folder(plan.root, job[1])))
        self.missing, self.needs = cache(self._missing), cache(self._needs)

    def _missing(self, job: Job) -> list[str]:
        """Return which of the files that a job leaves are not there."""
        folder = self.folder(job)
        return [name for name in job[0].outputs if not os.path.exists(f"{folder}/{name}")]

    def first_missing(self, job: Job, files: Sequence[str] = ()) -> str | None:
        """Return a missing file of a job: one of `files`, or else of those required."""
        node, missing = job[0], self.missing(job)
        names = (*files, *(KINDS[node.kind].required_outputs or node.outputs))
        return next((name for name in names if name in missing), None)

    def done(self, job: Job) -> bool:
        """Whether a job's required files were there."""
        return self.first_missing(job) is None

    def _needs(self, job: Job) -> dict[Job, list[str]]:
        """Return {needed job: its files}; a shown node does without texts that a bundle let go."""
        (node, seed), found = job, dict[Job, list[str]]()
        for need in node.needs.values():
            of = seed if need.seed is None else need.seed
            made = self.plan.nodes[need.node.kind, need.node.key]
            needed = made, of if made.kind == "train" else None
            let_go = need.file in self.missing(needed) and self.done(needed)
            if not (let_go and KINDS[node.kind].shown):
                found.setdefault(needed, []).append(need.file)
        return found


def pending(plan: Plan) -> Pending:
    """Return the jobs that would run, and why, trainings first.

    A job runs if a file that `all` asks for is missing, or one that another job which runs is made
    from; the age of files does not count. A job whose files only finished jobs need does not run.
    One whose weights were deleted runs again if a job needs them, which is the `why`; otherwise
    that is "".
    """
    found = Pending(plan)
    asked: list[Job] = [*plan.runs(), *((node, None) for node in plan.shown.values())]
    waiting = deque((job, "") for job in asked if not found.done(job))
    while waiting:
        job, why = waiting.popleft()
        if job in found:
            continue
        found[job] = why
        for needed, files in found.needs(job).items():
            if name := found.first_missing(needed, files):
                why = f"{name} was deleted and is needed again" if found.done(needed) else ""
                waiting.append((needed, why))
    return found


def check_sources(jobs: Pending) -> None:
    """Raise `UserError` if a job that would run reads a source that is not there."""
    for node, _ in jobs:
        for path in node.extra.get("paths", {}).values():
            if not os.path.exists(path):
                raise UserError(
                    f"{path} is missing, and {jobs.plan.root}/store has no finished {node.kind} "
                    "of files with its checksum; provide it, correct `checksums` or import a bundle"
                )


def asked(jobs: Pending) -> list[str]:
    """Return the files that `all` asks for: the mark, and one of each job that nobody waits for."""
    waited = {needed for job in jobs for needed in jobs.needs(job)}
    last = (job for job in jobs if job not in waited)
    return [str(jobs.plan.mark), *(f"{jobs.folder(job)}/{jobs.first_missing(job)}" for job in last)]


def inputs(jobs: Pending, job: Job, *, apart: bool = False) -> list[str]:
    """Return the files that Snakemake has to see before a job runs.

    Of each job before this one it is the first file that is needed, as weights may be let go after
    the last job that names them; and one that is missing, which makes Snakemake run the job before.
    Of a job that is done, which may be forced, it is a file that is there.

    A job is left out if it is also before another one that is waited for; but not if jobs run
    `apart`, on machines that may see each other's files late.
    """
    runs = job in jobs or not jobs.done(job)  # one that does not run may be requested by name
    needs, behind = jobs.needs(job), set[Job]()
    if runs and not apart:
        behind = {far for near in needs if near in jobs for far in jobs.needs(near)}
    paths = []
    for needed in (needed for needed in needs if needed not in behind):
        files = needs[needed]
        if runs:
            names = [*dict.fromkeys((files[0], jobs.first_missing(needed, files) or files[0]))]
        else:
            there = (*files, *needed[0].outputs)
            names = [name for name in there if name not in jobs.missing(needed)][:1]
        paths += [f"{jobs.folder(needed)}/{name}" for name in names]
    return paths
