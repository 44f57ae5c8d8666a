"""What the report finds: the best variants, what learned nothing, and what warnings are about."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from statistics import fmean, median
from typing import Any

from minbert.base.progress import counted
from minbert.data.parquet import read_file
from minbert.evaluate.reading import Score, score_title, tested
from minbert.evaluate.scoring import score_task
from minbert.evaluate.seeds import over_seeds, ranked
from minbert.evaluate.table import SCORED
from minbert.evaluate.text import Line
from minbert.report.papers import Paper, predicted, records
from minbert.spec.published import FIGURES
from minbert.spec.task import TASKS
from minbert.store.job import Job

ENVIRONMENT = ("commit", "device", "precision", "threads", "python", "platform", "packages")
TITLES = {"other": "Other tasks", "overall": "Overall"}


def best_variants(papers: Sequence[Paper], index: Sequence[Line]) -> Iterator[dict[str, Any]]:
    """Yield the best variant of each paper by its own overall dev score, if one has any.

    `published` is the best overall score on dev that the paper gives.
    """
    for name, about, scores, labels, _ in papers:
        rule, label, ours = about["rule"], None, None
        for best in ranked(scores, rule)[:1]:
            label, ours = labels[best.variant], over_seeds(scores, about["overall_tasks"])[best]
        lines = (line for line in index if (line["paper"], line["split"]) == (name, "dev"))
        figures = [float(of) for line in lines if (of := line["overall_published"])]
        found = {"paper": name, "rule": rule, "label": label, "ours": ours}
        yield found | {"published": max(figures, default=None)}


def against_papers(index: Sequence[Line]) -> Iterator[str]:
    """Yield the medians over rows of our scores on dev minus the papers'."""
    for name in FIGURES:
        sides = [(line[f"{name}_ours"], line[f"{name}_published"]) for line in index]
        on_dev = [line["split"] == "dev" for line in index]
        pairs = [pair for pair, dev in zip(sides, on_dev, strict=True) if dev and all(pair)]
        if gaps := [float(ours) - float(theirs) for ours, theirs in pairs]:
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
            for constant, found in cases.items():
                low = {
                    seed: score
                    for seed, score in by_seed.items()
                    if score.learned is False and score.constant is constant
                }
                if low:
                    title = f"{paper.name} / {paper.labels[of.variant]}: {TASKS[of.measure].title}"
                    found.append(f"{title} {_in_words(low)}")
    runs = tested(paper.scores for paper in papers).values()
    below = [bool(score.constant) for score in runs if not score.learned]
    counts = {"tested": len(runs), "above": len(runs) - len(below), "single": sum(below)}
    return {**counts, "constant": cases[True], "low": cases[False]}


def _in_words(scores: Mapping[int, Score]) -> str:
    """Return the scores by seed, and their floor."""
    values = ", ".join(f"{score.value:.3f}" for score in scores.values())
    numbers = f"seed{'s' * (len(scores) > 1)} {', '.join(map(str, scores))}"
    return f"{values}; floor {next(iter(scores.values())).floor:.3f} ({numbers})"


def leaked(job: Job, papers: Sequence[Paper]) -> Iterator[str]:
    """Yield for each paper and task how scores on dev change without examples that train has.

    Whether train has a text is known without the texts, as in bundles. All of dev is not all, if a
    half of it chose the epochs.
    """
    wanted = {"split": "dev", "in_train": True}
    rows = {task: path for task, path in job.needs("rows").items() if path.is_file()}
    known = {t: {*read_file(path, ["id"], wanted)["id"].to_pylist()} for t, path in rows.items()}
    for paper, (task, ids) in product(papers, known.items()):
        changes: dict[str, float] = {}
        for of, by_seed in paper.trained.items():
            if of.measure != task or not ids:
                continue
            one = predicted(job, {of: by_seed}, task)
            clean = [n for n, name in enumerate(one.ids) if name not in ids]
            if clean:
                without, all_of_them = (
                    fmean(score_task(task, said[part], one.label[part]) for said in one.prediction)
                    for part in (clean, slice(None))
                )
                changes[paper.labels[of.variant]] = without - all_of_them
                count = f"{len(one.ids) - len(clean):,} of {len(one.ids):,}"
        if changes:
            most = max(changes, key=lambda label: abs(changes[label]))
            said = f"median {median(changes.values()):+.4f}, most {changes[most]:+.4f} ({most})"
            yield f"{paper.name}: {score_title(task)} without {count} examples: {said}"


def environments(runs: Mapping[str, Line]) -> dict[str, list[str]]:
    """Return each distinct value of what the runs with these records ran on, most used first."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in ENVIRONMENT}
    for record in runs.values():
        where = record.get("environment", {})
        packages = sorted(where.get("packages", {}).items())
        where = where | {"packages": ", ".join(f"{name} {of}" for name, of in packages)}
        for name, count in counts.items():
            count.update([str(where[name])] if where.get(name) else [])
    return {name: [of for of, _ in count.most_common()] for name, count in counts.items() if count}


def cases(
    job: Job, papers: Sequence[Paper], index: Sequence[Line], commits: Iterable[str]
) -> dict[str, list[str]]:
    """Return what each warning of the page is about, by its name there."""
    data = {TASKS[task].title: report for task, report in records(job, "data").items()}
    texts, labels = job.needs("examples").items(), records(job, "labels").values()

    def counts(name: str, noun: str) -> list[str]:
        of_tasks = ((task, report.get(name, {})) for task, report in data.items())
        found = ((task, n, where) for task, of in of_tasks for where, n in of.items() if n)
        return [f"{task}: {counted(n, noun)} of {where}" for task, n, where in found]

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
        "textless": [TASKS[task].title for task, path in texts if not path.is_file()],
        "labelled": [
            f"{TASKS[of['task']].title}: {of['labelled']:,} of {of['rows']:,} test rows"
            for of in labels
        ],
        "uncommitted": [commit for commit in commits if commit.endswith("+")],
    }
