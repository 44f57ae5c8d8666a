"""Which of its settings each tuned variant of a paper takes, by the half of dev that chooses.

One candidate is chosen for all seeds, by its mean over them, as a paper reports one setting of
each method. The other half of dev and test are not looked at.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

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
    tasks = list(dict.fromkeys(task for row in spec["rows"] for task in row["tasks"]))
    titles = [TASKS[task].title for task in tasks]
    cells = [["Row", "Settings", "Chosen", f"Overall, {spec['rule']}", *titles, "n"]]
    lines: list[dict[str, Any]] = []
    for row in spec["rows"]:
        tried = [_tried(job, each, row["tasks"], read) for each in row["tried"]]
        best = choose(tried)
        for each in tried:
            mean = interval(list(each.scores.values())) if each.scores else None
            line = {"variant": row["variant"], "chosen": "yes" if each is best else ""}
            line |= {"candidate": each.candidate, "settings": each.settings}
            line |= {"seeds": " ".join(map(str, each.scores)), "asked": len(spec["seeds"])}
            line |= {"keys": " ".join(each.keys)}
            line |= {"score": mean.mean, "low": mean.low, "high": mean.high} if mean else {}
            lines.append(line | {f"{task}_mean": of for task, of in each.tasks.items()})
            of_tasks = (f"{each.tasks[t]:.3f}" if t in each.tasks else ABSENT for t in tasks)
            own = [row["label"], each.settings, line["chosen"] or ABSENT]
            said = mean.in_words() if mean else ABSENT
            cells.append([*own, said, *of_tasks, str(len(each.scores))])
    columns = [*COLUMNS, *(f"{task}_mean" for task in tasks)]
    write_text(job.out / "tuning.csv", csv_text(columns, lines))
    count = len(spec["seeds"])
    over = f"mean over n of {count} seeds, with its 95 % Student-t interval" * (count > 1)
    how = (
        f"Scores on the half of dev that chooses: {over or 'one seed'}. For each row, the setting "
        "with the highest score is chosen, among those with the most seeds; all seeds have the "
        "same. All other published scores of these rows are on the other half of dev, or on test, "
        "which took no part in the choice."
    )
    title = markdown(f"Tuned settings: {spec['title']}")
    parts = [f"# {title}", markdown_table(cells, left=3), markdown(how)]
    write_text(job.out / "tuning.md", "\n\n".join(parts) + "\n")


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
    files = {seed: files_of(job, each["tasks"], seed) for seed in job.spec["seeds"]}
    runs = {seed: run_scores(of, read) for seed, of in files.items()}
    found = {seed: of_tasks(run, "selection") for seed, run in runs.items() if run}
    scores = {
        seed: selection_score({task: of[task] for task in tasks}, job.spec["rule"])
        for seed, of in found.items()
    }
    means = {task: fmean(of[task] for of in found.values()) for task in tasks if found}
    return Tried(each["candidate"], each["settings"], each["keys"], scores, means)
