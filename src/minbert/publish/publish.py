"""Results under their plain names, copied from where their keys put them.

After failures, tables, figures and the report are made from what there is, by the same makers. A
job then has a temporary folder for what it makes, and finds there what was made before it; the
results of runs that failed or were not reached are missing from its needs, and `Job.failures`
says why. Makers show such runs as failed or not run. Keyed paths hold complete results alone:
only plain names are written, without a mark, so that the next run makes everything again.
"""

import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from minbert.base.errors import UserError
from minbert.evaluate.index import in_words
from minbert.evaluate.text import read_csv
from minbert.publish.names import PlainNames, publishing
from minbert.spec.grid import ALL
from minbert.spec.task import use_tasks_of
from minbert.store.job import Job, node_folder
from minbert.store.node import finished
from minbert.store.plans import describe_job, read_plan, shown_of
from minbert.track.journal import newest_attempts
from minbert.track.rows import record_grids


def publish(root: Path, plan: str, mark: Path) -> None:
    """Copy each product of a plan to its plain name, and leave its `mark` (`Plan.mark`)."""
    record = read_plan(root, plan)
    use_tasks_of(record)
    with publishing(root):
        names = PlainNames(root, plan, record)
        names.take()
        if not record["below"]:
            record_grids(root, record)
        names.finish(mark)


def publish_one(root: Path, plan: str, name: str) -> None:
    """Copy one product of a plan to its plain `name`."""
    with publishing(root):
        PlainNames(root, plan, read_plan(root, plan)).take_one(name)


def publish_partial(root: Path, plan: str) -> str:
    """Publish what can be made from the runs that finished; return a summary in words.

    A variant shows as failed, with the error, if the latest attempt at one of its stages ended in
    an error; as not run if it waits for such a stage or was not reached. A figure that cannot be
    drawn is reported, and its picture says so.
    """
    from minbert.figures.make import draw_fault  # loads matplotlib

    record = read_plan(root, plan)
    use_tasks_of(record)
    failures = failed_variants(root, record["variants"])
    undrawn: dict[Path, str] = {}
    with publishing(root), tempfile.TemporaryDirectory() as folder:
        names = PlainNames(root, plan, record)
        for name, kind, key in shown_of(record):
            described = describe_job(root, kind, key, plan)
            job = PartialJob(root, described, None, 1, failures=failures, folder=Path(folder))
            if kind == "figure" and finished(kind, job.spec, node_folder(root, kind, key)):
                continue
            job.out.mkdir(parents=True)
            try:
                import_module(described["maker"]).make(job)
            except Exception as error:  # whatever it is, the others can be drawn
                if kind != "figure":
                    raise
                why = error if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
                undrawn[job.out] = f"{name}: not drawn: {why}"
                shutil.rmtree(job.out)  # So the report warns that it is missing.
        for out, fault in undrawn.items():
            draw_fault(fault, out / "figure")
        names.take(Path(folder))
        if not record["below"]:
            record_grids(root, record)
        (key,) = (key for _, kind, key in shown_of(record) if kind == "index")
        index = in_words(read_csv(node_folder(Path(folder), "index", key) / "index.csv"))
    failed = [f"{paper}: {variant} failed: {why}" for (paper, variant), why in failures.items()]
    return "\n".join([*failed, *undrawn.values(), index])


@dataclass(frozen=True)
class PartialJob(Job):
    """A job that writes nothing into the results: `folder` is a root of its own for what it makes.

    It finds there what other such jobs made before it, and the rest in the results.
    """

    folder: Path = Path()

    @property
    def out(self) -> Path:
        return node_folder(self.folder, self.described["kind"], self.described["key"])

    def need(self, name: str) -> Path:
        keyed = super().need(name)
        made = self.folder / keyed.relative_to(self.root)
        return made if made.exists() else keyed


def failed_variants(root: Path, variants: Iterable[Sequence[str]]) -> dict[tuple[str, str], str]:
    """Return {(paper, variant): why} for those of `variants` that failed.

    These are rows of `VARIANT_COLUMNS`. A stage has failed if its newest attempt ended in an error,
    or died without a word, and left no record of a finished run. One that was told to stop has not
    failed, and neither has one that finished and whose files were deleted since.
    """
    why: dict[str, str] = {}
    for (key, seed), attempt in newest_attempts(root).items():
        if seed == ALL or (node_folder(root, "train", key, int(seed)) / "run.json").exists():
            continue
        if failure := attempt.failure():
            why[key] = f"seed {seed}: {failure}"
    found: dict[tuple[str, str], str] = {}
    for paper, variant, stage, _, key, *_ in variants:
        if key in why:
            found.setdefault((paper, variant), f"stage '{stage}', {why[key]}")
    return found
