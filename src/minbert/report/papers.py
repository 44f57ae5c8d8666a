"""What a report is made from: the files and specs of its job's needs, and the papers in it."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from minbert.evaluate.reading import Of, Predicted, Score, Scores, read_predicted, read_scores
from minbert.spec.task import TASKS
from minbert.store.job import Job
from minbert.store.plans import read_description, sound


def spec_of(job: Job, name: str) -> dict[str, Any]:
    """Return the spec of the node that a need comes from."""
    need = job.described["needs"][name]
    return read_description(job.root, need["kind"], need["key"])["spec"]


def records(job: Job, prefix: str) -> dict[str, dict[str, Any]]:
    """Return the record of each need `PREFIX.` that can be read, by the rest of its name."""
    found = {name: sound(path) for name, path in job.needs(prefix).items()}
    return {name: record for name, record in found.items() if record}


class Paper(NamedTuple):
    """A paper in a report: what the plan says `about` it (`plan.outputs`), and its scores.

    `labels` are those of the variants that train something, by name; a tuned variant does, and not
    its settings. `trained` are their scores on dev of each task.
    """

    name: str
    about: Mapping[str, Any]
    scores: Scores
    labels: Mapping[str, str]
    trained: Scores


def read_papers(job: Job) -> Iterator[Paper]:
    """Yield the papers of a report in the order of the grids."""
    for name in job.spec["papers"]:
        about = spec_of(job, f"table.{name}")
        scores = read_scores(job.need(f"scores.{name}"), name)
        variants = (of for of in about["variants"] if of["tasks"] or of["tried"])
        names = [of["name"] for of in variants if not of["tuned_for"]]
        trained = {
            of: by_seed
            for of, by_seed in scores.items()
            if of.split == "dev" and of.measure in TASKS and of.variant in names
        }
        labels = {variant: about["labels"][variant] for variant in names}
        yield Paper(name, about, scores, labels, trained)


def predicted(job: Job, found: Mapping[Of, Mapping[int, Score]], task: str) -> Predicted:
    """Return what the runs predict that scores of a task come from, each run once."""
    runs = {
        job.need(f"run.{score.key}.{seed}").with_name("predictions.parquet"): None
        for of, by_seed in found.items()
        if of.measure == task
        for seed, score in by_seed.items()
    }
    return read_predicted(runs, task)
