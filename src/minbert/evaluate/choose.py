"""Which of its settings each tuned variant of a paper takes, by the half of dev that chooses.

One candidate is chosen for all seeds, by its mean over them, as a paper reports one setting of
each method. The other half of dev and test are not looked at.
"""

from statistics import fmean
from typing import Any

from minbert.base.files import write_text
from minbert.evaluate.score import choose, choosing, choosing_tasks, read_runs
from minbert.evaluate.scoring import overall
from minbert.evaluate.seeds import interval
from minbert.evaluate.text import ABSENT, csv_text, markdown, markdown_table
from minbert.spec.task import TASKS
from minbert.store.job import Job

COLUMNS = (
    *("variant", "candidate", "settings", "chosen", "score", "low", "high", "seeds", "asked"),
    "keys",
)
"""Of `tuning.csv`, a line a candidate; after them `sst_mean` and so on, the scores of single tasks.

`chosen` is "yes" or empty, `score` the mean over `seeds` (those that were trained) on the choosing
half of dev, `asked` the number of seeds asked for, `keys` those of the candidate's trainings.
"""


def make(job: Job) -> None:
    """Write `tuning.csv` and `tuning.md`: what a paper's tuned variants tried, and what is chosen.

    The spec is what is said of the paper (`plan.outputs`).
    """
    spec, runs = job.spec, read_runs(job.spec, job.need, {})
    tuned = [
        (of["name"], of["tried"], choosing_tasks(runs, of["tried"], spec["overall_tasks"]))
        for of in spec["variants"]
        if of["tried"]
    ]
    tasks = [task for task in TASKS if any(task in by for *_, by in tuned)]
    titles = [TASKS[task].title for task in tasks]
    cells = [["Row", "Settings", "Chosen", f"Overall, {spec['rule']}", *titles, "n"]]
    lines: list[dict[str, Any]] = []
    for variant, tried, by in tuned:
        best = choose(runs, tried, spec["rule"], by)
        for name in tried:
            halves = {seed: choosing(run) for seed, run in runs[name].items()}
            scores = [overall(half, spec["rule"], by) or 0.0 for half in halves.values()]
            means = {task: fmean(of[task] for of in halves.values()) for task in by if halves}
            settings, chosen = spec["settings"][name], "yes" * (name == best)
            line = {"variant": variant, "candidate": name, "settings": settings, "chosen": chosen}
            line |= {"seeds": " ".join(map(str, halves)), "asked": len(spec["seeds"])}
            line["keys"] = " ".join(stage["key"] for stage in spec["stages"][name])
            said = ABSENT
            if scores:
                mean = interval(scores)
                line |= {"score": mean.mean, "low": mean.low, "high": mean.high}
                said = mean.in_words()
            lines.append(line | {f"{task}_mean": of for task, of in means.items()})
            of_each = (f"{means[t]:.3f}" if t in means else ABSENT for t in tasks)
            own = [spec["labels"][variant], settings, chosen or ABSENT, said]
            cells.append([*own, *of_each, str(len(halves))])
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
