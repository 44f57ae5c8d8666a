"""What would run: the jobs whose files are missing, and what Snakemake is told of each."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from importlib.util import find_spec

from minbert.base.errors import UserError
from minbert.plan.plan import Plan
from minbert.store.kinds import KINDS
from minbert.store.node import Node, lasting

Job = tuple[Node, int | None]
"""A node with its seed; None if its kind has none."""


class Pending(dict[Job, str]):
    """{(node, seed): why} of the jobs of a plan that would run.

    It looks at each job's files once, so that all that is asked of it is of one moment.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan
        self.needed: set[Job] = set()
        """The jobs among them that another one of them waits for."""
        self._folders: dict[Job, str] = {}
        self._missing: dict[Job, frozenset[str]] = {}
        self._needs: dict[Job, dict[Job, list[str]]] = {}

    def folder(self, job: Job) -> str:
        """Return the folder of a job's files."""
        if job not in self._folders:
            self._folders[job] = str(job[0].folder(self.plan.root, job[1]))
        return self._folders[job]

    def missing(self, job: Job) -> frozenset[str]:
        """Return which of the files that a job leaves are not there."""
        if job not in self._missing:
            folder, names = self.folder(job), job[0].outputs
            if os.path.isdir(folder):
                names = tuple(n for n in names if not os.path.exists(f"{folder}/{n}"))
            self._missing[job] = frozenset(names)
        return self._missing[job]

    def done(self, job: Job) -> bool:
        """Whether a job's lasting files were there."""
        return self.missing(job).isdisjoint(lasting(job[0].kind, job[0].spec))

    def needs(self, job: Job) -> dict[Job, list[str]]:
        """Return {needed job: the files of it that this one is made from}.

        What people look at does without what a finished job has let go: texts, in a bundle.
        """
        if job not in self._needs:
            found = self._needs[job] = {}
            shown = KINDS[job[0].kind].shown
            for need in job[0].needs.values():
                node = self.plan.node(need.node.kind, need.node.key)
                needed = node, need.seed_for(job[1])
                if shown and need.file in self.missing(needed) and self.done(needed):
                    continue
                found.setdefault(needed, []).append(need.file)
        return self._needs[job]


def pending(plan: Plan) -> Pending:
    """Return the jobs that would run, and why, trainings first.

    A job runs if a file that `all` asks for is missing, or one that another job which runs is made
    from; the age of files does not count. A job whose files only finished jobs need does not run.
    One whose weights were deleted runs again if a job needs them, which is the `why`; otherwise
    that is "".
    """
    found = Pending(plan)
    asked: list[Job] = [*plan.runs(), *((node, None) for node in plan.shown)]
    waiting = deque((job, "") for job in asked if not found.done(job))
    while waiting:
        job, why = waiting.popleft()
        if job in found:
            continue
        found[job] = why
        for needed, files in found.needs(job).items():
            if name := _first_missing(found, needed, files):
                why = f"{name} was deleted and is needed again" if found.done(needed) else ""
                waiting.append((needed, why))
                found.needed.add(needed)
    return found


def check_installed(jobs: Pending) -> None:
    """Raise `UserError` if a training that would run needs torchjd, and that is not installed."""
    if find_spec("torchjd"):
        return
    for ref in {jobs.plan.owners[node.key]: None for node, _ in jobs if node.kind == "train"}:
        spec = jobs.plan.every[ref].spec
        if "minbert.train.surgery.torchjd" in spec.parts().values():
            raise UserError(
                f"{ref.paper}: {ref}: 'surgery: {spec.surgery}' needs torchjd, which is not "
                "installed: pip install -c requirements.lock -e '.[methods]', or choose "
                "'surgery: pcgrad'"
            )


def asked(jobs: Pending) -> list[str]:
    """Return the files that `all` asks for: the mark, and one of each job that nobody waits for.

    What such a job is made from follows, and all that is published follows from the mark.
    """
    files = [str(jobs.plan.mark)]
    for job in (job for job in jobs if job not in jobs.needed):
        files.append(f"{jobs.folder(job)}/{_first_missing(jobs, job, [])}")
    return files


def inputs(jobs: Pending, job: Job, *, apart: bool = False) -> list[str]:
    """Return the files that Snakemake has to see before a job runs.

    Of each job that this one is made from, one file tells Snakemake to wait for it: the first that
    is needed, as weights may be let go after their last reader. A job that was killed may have left
    some of its files, so another one that is missing tells Snakemake to run it again.

    A job is left out if one that runs, and is waited for, waits for it too; but not if jobs run
    `apart`, on machines that may see each other's files late.

    Finished jobs that do not run again leave out what is missing: otherwise Snakemake would run
    them once something else needs that file.
    """
    runs = job in jobs or not jobs.done(job)
    paths, needs = [], jobs.needs(job)
    first = [near for near in needs if near in jobs] if runs and not apart else []
    behind = {far for near in first for far in jobs.needs(near)}
    for needed, files in needs.items():
        gone, last = jobs.missing(needed), lasting(needed[0].kind, needed[0].spec)
        if needed in behind:
            continue
        if runs:
            names = [files[0]]
            if files[0] not in gone and (other := _first_missing(jobs, needed, files)):
                names.append(other)
        else:
            names = [name for name in (*files, *last) if name not in gone][:1]
        paths += [f"{jobs.folder(needed)}/{name}" for name in names]
    return paths


def _first_missing(jobs: Pending, job: Job, files: Sequence[str]) -> str | None:
    """Return a file of a job that is missing: one of `files`, or another of those that last."""
    gone, last = jobs.missing(job), lasting(job[0].kind, job[0].spec)
    return next((name for name in (*files, *last) if name in gone), None)
