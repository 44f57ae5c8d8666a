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
from minbert.evaluate.statistics import Interval, interval
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

    @property
    def interval(self) -> Interval | None:
        """The mean score over seeds; None if it has none."""
        return interval(list(self.scores.values())) if self.scores else None


Line = tuple[Mapping[str, Any], Tried, bool]
"""A row of the spec, one of its candidates, and whether that is chosen."""


def make(job: Job) -> None:
    """Write `tuning.csv` and `tuning.md`: what a paper's tuned variants tried, and what is chosen.

    The spec has {paper, title, rule, seeds, rows: [{variant, label, tasks, tried}]}. `tasks` are
    those whose score chooses, `tried` are [{candidate, settings, keys, tasks: {task: key}}].
    """
    spec, read = job.spec, reader()
    lines: list[Line] = []
    for row in spec["rows"]:
        tried = [_tried(job, each, row["tasks"], read) for each in row["tried"]]
        best = choose(tried)
        lines += [(row, each, each is best) for each in tried]
    tasks = list(dict.fromkeys(task for row in spec["rows"] for task in row["tasks"]))
    write_text(job.out / "tuning.csv", _to_csv(spec, lines, tasks))
    write_text(job.out / "tuning.md", _to_markdown(spec, lines, tasks))


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
        if not (found := run_scores(files, read)):
            continue
        main = of_tasks(found, "selection")
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


def _to_csv(spec: Mapping[str, Any], lines: Sequence[Line], tasks: Sequence[str]) -> str:
    cells = []
    for row, each, chosen in lines:
        cell = {"variant": row["variant"], "candidate": each.candidate, "settings": each.settings}
        cell |= {"chosen": "yes" * chosen, "seeds": " ".join(map(str, each.scores))}
        cell |= {"asked": len(spec["seeds"]), "keys": " ".join(each.keys)}
        if of := each.interval:
            cell |= {"score": of.mean, "low": of.low, "high": of.high}
        cells.append(cell | {f"{task}_mean": mean for task, mean in each.tasks.items()})
    return csv_text([*COLUMNS, *(f"{task}_mean" for task in tasks)], cells)


def _to_markdown(spec: Mapping[str, Any], lines: Sequence[Line], tasks: Sequence[str]) -> str:
    heads = ["Row", "Settings", "Chosen", f"Overall, {spec['rule']}"]
    cells = [[*heads, *(TASKS[task].title for task in tasks), "n"]]
    for row, each, chosen in lines:
        own = [row["label"], each.settings, "yes" if chosen else ABSENT]
        own.append(each.interval.in_words() if each.interval else ABSENT)
        own += [f"{each.tasks[task]:.3f}" if task in each.tasks else ABSENT for task in tasks]
        cells.append([*own, str(len(each.scores))])
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
