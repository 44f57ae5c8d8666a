"""Which of its settings each tuned variant of a paper takes, by the half of dev that chooses.

One candidate is chosen for all seeds, by its mean over them, as a paper reports one setting of
each method. The other half of dev and test are not looked at.
"""

from statistics import fmean
from typing import Any

from minbert.base.files import write_text
from minbert.evaluate.score import candidates, choose, read_runs
from minbert.evaluate.scoring import selection_score
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
    spec, runs = job.spec, read_runs(job)
    tuned = {
        of["name"]: candidates(runs, of["tried"], spec["overall_tasks"])
        for of in spec["variants"]
        if of["tried"]
    }
    has = {t for found in tuned.values() for of in found.values() for s in of.values() for t in s}
    tasks = [task for task in TASKS if task in has]
    titles = [TASKS[task].title for task in tasks]
    cells = [["Row", "Settings", "Chosen", f"Overall, {spec['rule']}", *titles, "n"]]
    lines: list[dict[str, Any]] = []
    for variant, found in tuned.items():
        best = choose(found, spec["rule"])
        for name, seeds in found.items():
            settings, chosen, said = spec["settings"][name], "yes" * (name == best), ABSENT
            line = {"variant": variant, "candidate": name, "settings": settings, "chosen": chosen}
            line |= {"seeds": " ".join(map(str, seeds)), "asked": len(spec["seeds"])}
            line["keys"] = " ".join(stage["key"] for stage in spec["stages"][name])
            of_tasks = [ABSENT] * len(tasks)
            if seeds:
                mean = interval([selection_score(of, spec["rule"]) for of in seeds.values()])
                line |= {"score": mean.mean, "low": mean.low, "high": mean.high}
                said = mean.in_words()
            for place, task in enumerate(tasks):
                if scores := [of[task] for of in seeds.values() if task in of]:
                    line[f"{task}_mean"] = fmean(scores)
                    of_tasks[place] = f"{fmean(scores):.3f}"
            lines.append(line)
            own = [spec["labels"][variant], settings, chosen or ABSENT, said]
            cells.append([*own, *of_tasks, str(len(seeds))])
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
