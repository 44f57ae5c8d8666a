"""Which of its settings each tuned variant of a paper takes, by the half of dev that chooses.

One candidate is chosen for all seeds, by its mean over them, as a paper reports one setting of
each method. The other half of dev and test are not looked at.
"""

from statistics import fmean
from typing import Any

from minbert.evaluate.score import candidates, choose, read_runs
from minbert.evaluate.scoring import selection_score
from minbert.evaluate.seeds import interval
from minbert.evaluate.text import ABSENT, markdown, markdown_table, write_csv, write_markdown
from minbert.spec.task import TASKS
from minbert.store.job import Job

COLUMNS = (
    *("variant", "candidate", "settings", "chosen", "score", "low", "high", "seeds", "asked"),
    "keys",
)
"""Of `tuning.csv`, a line a candidate; after them `sst_mean` and so on, the scores of single tasks.

`chosen` is "yes" or empty, `score` the mean over `seeds` (those that were trained) on the choosing
half of dev, `asked` the number of planned seeds, `keys` those of the candidate's trainings.
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
    columns = [f"{task}_mean" for task in spec["tasks"]]
    heads = ["Row", "Settings", "Chosen", f"Overall, {spec['rule']}"]
    cells = [[*heads, *(TASKS[task].title for task in spec["tasks"]), "n"]]
    lines: list[dict[str, Any]] = []
    for variant, found in tuned.items():
        best = choose(found, spec["rule"])
        for name, seeds in found.items():
            settings, chosen, said = spec["settings"][name], "yes" * (name == best), ABSENT
            line = {
                "variant": variant,
                "candidate": name,
                "settings": settings,
                "chosen": chosen,
                "seeds": " ".join(map(str, seeds)),
                "asked": len(spec["seeds"]),
                "keys": " ".join(stage["key"] for stage in spec["stages"][name]),
            }
            if scores := list(seeds.values()):
                mean = interval([selection_score(of, spec["rule"]) for of in scores])
                line |= {"score": mean.mean, "low": mean.low, "high": mean.high}
                line |= {f"{task}_mean": fmean(of[task] for of in scores) for task in scores[0]}
                said = mean.in_words()
            lines.append(line)
            means = (f"{line[column]:.3f}" if column in line else ABSENT for column in columns)
            label = spec["labels"][variant]
            cells.append([label, settings, chosen or ABSENT, said, *means, str(len(seeds))])
    write_csv(job.out / "tuning.csv", [*COLUMNS, *columns], lines)
    count = len(spec["seeds"])
    over = f"mean over n of {count} seeds, with its 95 % Student-t interval" * (count > 1)
    how = (
        f"Scores on the half of dev that chooses: {over or 'one seed'}. For each row, the setting "
        "with the highest score is chosen, among those with the most seeds; all seeds have the "
        "same. All other published scores of these rows are on the other half of dev, or on test, "
        "which took no part in the choice."
    )
    parts = [markdown_table(cells, left=3), markdown(how)]
    write_markdown(job.out / "tuning.md", f"Tuned settings: {spec['title']}", parts)
