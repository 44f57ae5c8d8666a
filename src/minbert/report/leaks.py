"""What dev examples whose text is in train, too, add to scores."""

from collections.abc import Iterator
from statistics import fmean, median

from minbert.data.parquet import read_file
from minbert.evaluate.predictions import read_predicted
from minbert.evaluate.reading import score_title
from minbert.evaluate.scoring import score_task
from minbert.report.material import Material


def leaked(material: Material) -> Iterator[str]:
    """Yield for each paper and task how scores on dev change without the leaked examples.

    Whether train has a text is known without the texts, as in bundles. All of dev is not all, if a
    half of it chose the epochs.
    """
    in_train = {}
    for task, rows in material.job.needs("rows").items():
        if rows.is_file():
            wanted = {"split": "dev", "in_train": True}
            in_train[task] = set(read_file(rows, ["id"], wanted)["id"].to_pylist())
    for paper in material.papers:
        changes: dict[str, dict[str, float]] = {}
        counts: dict[str, str] = {}
        for of, by_seed in material.trained(paper):
            if not (ids := in_train.get(of.measure)):
                continue
            whole = read_predicted(material.predictions(by_seed), of.measure)
            if not (clean := [n for n, name in enumerate(whole.ids) if name not in ids]):
                continue
            counts[of.measure] = f"{len(whole.ids) - len(clean):,} of {len(whole.ids):,}"
            scores = [
                [score_task(of.measure, said[part], whole.label[part]) for said in whole.prediction]
                for part in (clean, slice(None))
            ]
            label = material.labels[paper, of.variant]
            changes.setdefault(of.measure, {})[label] = fmean(scores[0]) - fmean(scores[1])
        for task, of_task in changes.items():
            most = max(of_task, key=lambda label: abs(of_task[label]))
            said = f"median {median(of_task.values()):+.4f}, most {of_task[most]:+.4f} ({most})"
            yield f"{paper}: {score_title(task)} without {counts[task]} examples: {said}"
