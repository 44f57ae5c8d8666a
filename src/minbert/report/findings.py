"""What a report is made from, and what it finds: best variants, warnings, worst examples."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from textwrap import shorten
from typing import Any, NamedTuple

import numpy as np

from minbert.base.progress import counted
from minbert.data.parquet import read_file
from minbert.evaluate.reading import (
    Predicted,
    Scores,
    read_predicted,
    read_scores,
    score_title,
    tested,
)
from minbert.evaluate.scoring import Floats, score_task
from minbert.evaluate.seeds import over_seeds, ranked
from minbert.evaluate.table import SCORED
from minbert.evaluate.text import Line, one_line
from minbert.spec.published import FIGURES
from minbert.spec.task import TASKS
from minbert.store.job import Job
from minbert.store.plans import read_description, sound

ENVIRONMENT = ("commit", "device", "precision", "threads", "python", "platform", "packages")
WORST = 15  # examples of each task
LONGEST = 300  # characters of a text that are shown; a review has thousands
TITLES = {"other": "Other tasks", "overall": "Overall"}


def spec_of(job: Job, name: str) -> dict[str, Any]:
    """Return the spec of the node that a need comes from."""
    need = job.described["needs"][name]
    return read_description(job.root, need["kind"], need["key"])["spec"]


def records(job: Job, prefix: str) -> dict[str, dict[str, Any]]:
    """Return the record of each need `PREFIX.` that can be read, by the rest of its name."""
    paths = job.needs(prefix).items()
    return {name: record for name, path in paths if (record := sound(path))}


class Paper(NamedTuple):
    """A paper in a report: what the plan says `about` it (`plan.outputs`), and its scores.

    `trained` are those on dev of each task, of the variants that train something.
    """

    name: str
    about: Mapping[str, Any]
    scores: Scores
    trained: Scores


def read_papers(job: Job) -> Iterator[Paper]:
    """Yield the papers of a report in the order of the grids."""
    for name in job.spec["papers"]:
        about = spec_of(job, f"table.{name}")
        scores = read_scores(job.need(f"scores.{name}"), name)
        names = [of["name"] for of in about["variants"] if of["tasks"] or of["tried"]]
        trained = {
            of: by_seed
            for of, by_seed in scores.items()
            if of.split == "dev" and of.measure in TASKS and of.variant in names
        }
        yield Paper(name, about, scores, trained)


def predicted(job: Job, paper: Paper, task: str) -> Predicted:
    """Return what the runs of a paper predict of a task, each run once."""
    runs = {
        job.need(f"run.{score.key}.{seed}").with_name("predictions.parquet"): None
        for of, by_seed in paper.trained.items()
        if of.measure == task
        for seed, score in by_seed.items()
    }
    return read_predicted(runs, task)


def best_variants(papers: Sequence[Paper], index: Sequence[Line]) -> Iterator[dict[str, Any]]:
    """Yield the best variant of each paper by its own overall dev score, if one has any.

    `published` is the best overall score on dev that the paper gives.
    """
    for name, about, scores, _ in papers:
        means = over_seeds(scores, about["overall_tasks"])
        best = next(iter(ranked(scores, about["rule"])), None)
        lines = (line for line in index if (line["paper"], line["split"]) == (name, "dev"))
        yield {
            "paper": name,
            "rule": about["rule"],
            "label": best and about["labels"][best.variant],
            "ours": best and means[best],
            "published": max(
                (float(of) for line in lines if (of := line["overall_published"])), default=None
            ),
        }


def against_papers(index: Sequence[Line]) -> Iterator[str]:
    """Yield the medians over rows of our scores on dev minus the papers'."""
    lines = [line for line in index if line["split"] == "dev"]
    for name in FIGURES:
        pairs = ((line[f"{name}_ours"], line[f"{name}_published"]) for line in lines)
        if gaps := [float(ours) - float(theirs) for ours, theirs in pairs if ours and theirs]:
            title = TASKS[name].title if name in TASKS else TITLES[name]
            said = f"{title} {median(gaps):+.3f} ({counted(len(gaps), 'row')})"
            yield said.replace("-", "\N{MINUS SIGN}")


def unlearned(papers: Sequence[Paper]) -> dict[str, Any]:
    """Return the scores that are not above their floor, from the dev scores of all runs.

    `tested` counts the distinct scores of a run on a task, `above` those above their floor at the
    5 % level, and `single` those below whose run predicts one class or number. `constant` and `low`
    name the cases below, variant by variant; the first those whose run predicts one class.
    """
    cases: dict[bool, list[str]] = {True: [], False: []}  # by whether all predictions are the same
    for paper in papers:
        for of, by_seed in paper.trained.items():
            low = {seed: score for seed, score in by_seed.items() if score.learned is False}
            for constant, found in cases.items():
                seeds = [seed for seed in low if bool(low[seed].constant) is constant]
                if seeds:
                    values = ", ".join(f"{low[seed].value:.3f}" for seed in seeds)
                    found.append(
                        f"{paper.name} / {paper.about['labels'][of.variant]}: "
                        f"{TASKS[of.measure].title} {values}; floor {low[seeds[0]].floor:.3f} "
                        f"(seed {', '.join(map(str, seeds))})"
                    )
    runs = tested(paper.scores for paper in papers).values()
    below = [bool(score.constant) for score in runs if not score.learned]
    counts = {"tested": len(runs), "above": len(runs) - len(below), "single": sum(below)}
    return {**counts, "constant": cases[True], "low": cases[False]}


def leaked(job: Job, papers: Sequence[Paper]) -> Iterator[str]:
    """Yield for each task and paper how runs' scores on dev change without what train has, too.

    Whether train has a text is known without the texts, as in bundles. All of dev is not all, if a
    half of it chose the epochs.
    """
    wanted = {"split": "dev", "in_train": True}
    for task, path in job.needs("rows").items():
        ids = read_file(path, ["id"], wanted)["id"].to_pylist() if path.is_file() else []
        for paper in papers:
            if not ids or task not in {of.measure for of in paper.trained}:
                continue
            one = predicted(job, paper, task)
            clean = ~np.isin(one.ids, ids)
            if 0 < np.sum(clean) < len(clean):
                changes = [
                    score_task(task, said[clean], one.label[clean])
                    - score_task(task, said, one.label)
                    for said in one.prediction
                ]
                yield (
                    f"{paper.name}: {score_title(task)} without {np.sum(~clean):,} of "
                    f"{len(clean):,} examples: median {median(changes):+.4f}, from "
                    f"{min(changes):+.4f} to {max(changes):+.4f}"
                )


def environments(runs: Mapping[str, Line]) -> dict[str, list[str]]:
    """Return each distinct value of what the runs with these records ran on."""
    places = [
        of | {"packages": ", ".join(f"{name} {o}" for name, o in sorted(of["packages"].items()))}
        for of in (record["environment"] for record in runs.values())
    ]
    return {
        name: [*dict.fromkeys(str(of[name]) for of in places if of.get(name))]
        for name in ENVIRONMENT
    }


def cases(
    job: Job, papers: Sequence[Paper], index: Sequence[Line], commits: Iterable[str]
) -> dict[str, list[str]]:
    """Return what each warning of the page is about, by its name there."""
    data = {TASKS[task].title: report for task, report in records(job, "data").items()}

    def counts(name: str, noun: str) -> list[str]:
        return [
            f"{task}: {counted(n, noun)} of {where}"
            for task, report in data.items()
            for where, n in report.get(name, {}).items()
            if n
        ]

    return {
        "failed": [f"{paper} / {name}: {why}" for (paper, name), why in job.failures.items()],
        "missing": [
            f"{line['paper']} / {line['row']} ({line['split']}): "
            + "; ".join(filter(None, (line["status"], line["reason"])))
            for line in index
            if line["status"] != SCORED
        ],
        "overlaps": counts("overlaps", "text"),
        "leaked": list(leaked(job, papers)),
        "rejected": counts("rejected", "row"),
        "unlearnable": [
            f"{t}: {said}" for t, of in data.items() for said in of.get("warnings", [])
        ],
        "textless": [
            TASKS[task].title for task, path in job.needs("examples").items() if not path.is_file()
        ],
        "labelled": [
            f"{TASKS[task].title}: {of['labelled']:,} of {of['rows']:,} test rows"
            for task, of in records(job, "labels").items()
        ],
        "uncommitted": [commit for commit in commits if commit.endswith("+")],
    }


class OverRuns(NamedTuple):
    """What runs predict: the commonest class or mean value, the mean error, how many are right.

    An error is 1 minus the probability of the label, or the distance from it; of classes without
    probabilities, as from a lean bundle, 1 if wrong. A value is right within a tenth of the labels'
    range (of STS half a point).
    """

    said: Floats
    error: Floats
    right: Floats


def over_runs(task: str, one: Predicted) -> OverRuns:
    """Return what runs predict of a task, example by example."""
    known, right = TASKS[task], one.prediction == one.label
    if known.kind == "regression":
        said, error = one.prediction.mean(axis=0), np.abs(one.prediction - one.label)
        right = error <= (known.high - known.low) / 10
    else:
        classes = range(round(known.high) + 1)
        said = np.argmax([(one.prediction == of).sum(axis=0) for of in classes], axis=0)
        if not one.scores.size:
            error = ~right
        elif known.kind == "binary":
            error = np.abs(one.scores[:, :, 0] - one.label)
        else:
            places = one.label.astype(int)[None, :, None]
            error = 1 - np.take_along_axis(one.scores, places, 2)[:, :, 0]
    return OverRuns(said.astype(float), error.mean(axis=0), right.sum(axis=0).astype(float))


def worst(job: Job, paper: Paper) -> Iterator[dict[str, Any]]:
    """Yield the examples with the largest mean error over all runs of the paper, task by task.

    Tasks without texts, as from a bundle, have none: ids alone tell nothing.
    """
    has = {of.measure for of in paper.trained}
    for task, known in TASKS.items():
        if task not in has or not (examples := job.need(f"examples.{task}")).is_file():
            continue
        one = predicted(job, paper, task)
        over = over_runs(task, one)
        chosen = np.argsort(-over.error, kind="stable")[:WORST].tolist()
        wanted = {"id": [one.ids[n] for n in chosen]}
        table = read_file(examples, ("id", "sentence1", "sentence2"), wanted).to_pylist()
        texts = {row.pop("id"): [one_line(of) for of in row.values() if of] for row in table}
        for n in chosen:
            values = one.label[n], over.said[n]
            label, said = (known.names[int(of)] if known.names else f"{of:.3g}" for of in values)
            yield {
                "texts": [shorten(text, LONGEST, placeholder="…") for text in texts[one.ids[n]]],
                "task": known.title,
                "label": label,
                "said": said,
                "error": f"{over.error[n]:.2f}",
                "right": f"{over.right[n]:.0f} of {len(one.prediction)}",
            }
