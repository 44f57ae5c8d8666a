"""Which of its settings each tuned variant of a paper takes, by the half of dev that chooses.

One candidate is chosen for all seeds, by its mean over them, as a paper reports one setting of
each method. The other half of dev and test are not looked at.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from minbert.base.errors import UserError
from minbert.base.files import write_text
from minbert.evaluate.score import Read, files_of, of_tasks, reader, run_scores
from minbert.evaluate.scoring import selection_score
from minbert.evaluate.statistics import interval
from minbert.evaluate.text import ABSENT, csv_text, markdown, markdown_table
from minbert.evaluate.tuning import COLUMNS
from minbert.spec.task import TASKS
from minbert.store.job import Job


class Tried(NamedTuple):
    """A candidate, and what it scored on the choosing half: {seed: score}, {task: mean}."""

    candidate: str
    settings: str
    keys: Sequence[str]
    scores: Mapping[int, float]
    tasks: Mapping[str, float]


def make(job: Job) -> None:
    """Write `tuning.csv` and `tuning.md`: what a paper's tuned variants tried, and what is chosen.

    The spec has {paper, title, rule, seeds, rows: [{variant, label, tasks, tried}]}. `tasks` are
    those whose score chooses, `tried` are [{candidate, settings, keys, tasks: {task: key}}].
    """
    spec, read = job.spec, reader()
    lines: list[dict[str, Any]] = []
    tasks: dict[str, None] = {}
    for row in spec["rows"]:
        tried = [_tried(job, each, row["tasks"], read) for each in row["tried"]]
        best = choose(tried)
        for each in tried:
            line = {"variant": row["variant"], "label": row["label"], "candidate": each.candidate}
            line |= {"settings": each.settings, "chosen": "yes" if each is best else ""}
            scores = list(each.scores.values())
            line |= {"scores": interval(scores) if scores else None}
            line |= {"seeds": " ".join(map(str, each.scores)), "asked": len(spec["seeds"])}
            lines.append(line | {"keys": " ".join(each.keys), "tasks": each.tasks})
        tasks |= dict.fromkeys(row["tasks"])
    write_text(job.out / "tuning.csv", _to_csv(lines, list(tasks)))
    write_text(job.out / "tuning.md", _to_markdown(spec, lines, list(tasks)))


def choose(tried: Sequence[Tried]) -> Tried | None:
    """Return the candidate with the highest mean score over seeds; None if none has a score.

    Only those with the most seeds are compared: one of whose runs failed would else be judged by
    those that went well. The first wins a tie.
    """
    most = max((len(each.scores) for each in tried), default=0)
    whole = [each for each in tried if most and len(each.scores) == most]
    return max(whole, key=lambda each: fmean(each.scores.values()), default=None)


def _tried(job: Job, each: Mapping[str, Any], tasks: Sequence[str], read: Read) -> Tried:
    """Return what a candidate scored over those of `tasks`; seeds that lack a file are left out."""
    scores: dict[int, float] = {}
    single: dict[str, list[float]] = {}
    for seed in job.spec["seeds"]:
        files = files_of(job, each["tasks"], seed)
        if (found := run_scores(files, read)) is None:
            continue
        main = of_tasks(found["selection"])
        if missing := [task for task in tasks if task not in main]:
            path = files[missing[0]]["predictions"]
            raise UserError(
                f"{path}: no split 'selection' of task '{missing[0]}', expected the half of dev "
                "that chooses; train the run again"
            )
        scores[seed] = selection_score({task: main[task] for task in tasks}, job.spec["rule"])
        for task in tasks:
            single.setdefault(task, []).append(main[task])
    means = {task: fmean(of) for task, of in single.items()}
    return Tried(each["candidate"], each["settings"], each["keys"], scores, means)


def _to_csv(lines: Sequence[Mapping[str, Any]], tasks: Sequence[str]) -> str:
    cells = []
    for line in lines:
        cell = {name: line[name] for name in COLUMNS if name in line}
        cell |= {f"{task}_mean": mean for task, mean in line["tasks"].items()}
        if of := line["scores"]:
            cell |= {"score": of.mean, "low": of.low, "high": of.high}
        cells.append(cell)
    return csv_text([*COLUMNS, *(f"{task}_mean" for task in tasks)], cells)


def _to_markdown(
    spec: Mapping[str, Any], lines: Sequence[Mapping[str, Any]], tasks: Sequence[str]
) -> str:
    heads = ["Row", "Settings", "Chosen", f"Overall, {spec['rule']}"]
    cells = [[*heads, *(TASKS[task].title for task in tasks), "n"]]
    for line in lines:
        own = [line["label"], line["settings"], line["chosen"] or ABSENT]
        own.append(line["scores"].in_words() if line["scores"] else ABSENT)
        own += [f"{line['tasks'][t]:.3f}" if t in line["tasks"] else ABSENT for t in tasks]
        cells.append([*own, str(len(line["seeds"].split()))])
    count = len(spec["seeds"])
    over = f"mean over n of {count} seeds, with its 95 % Student-t interval" * (count > 1)
    said = (
        f"Scores on the half of dev that chooses: {over or 'one seed'}. For each row, the setting "
        "with the highest score is chosen, among those with the most seeds; all seeds have the "
        "same. All other published scores of these rows are on the other half of dev, or on test, "
        "which took no part in the choice."
    )
    title = markdown(f"Tuned settings: {spec['title']}")
    return "\n\n".join([f"# {title}", markdown_table(cells, left=3), markdown(said)]) + "\n"
