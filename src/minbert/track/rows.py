"""A paper's rows for MLflow: what its score table says of each, left for the follower to store.

Nothing here imports mlflow.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from minbert.base.files import write_json
from minbert.evaluate.reading import Scores, read_scores
from minbert.evaluate.scoring import CORRELATIONS
from minbert.evaluate.seeds import over_seeds
from minbert.spec.task import TASKS
from minbert.store.plans import SCORES, stage_rows
from minbert.track.journal import BEST, TEST, TRACKING, Journal, newest_attempts
from minbert.track.store import Tag

ROWS = Path(TRACKING) / "rows.json"
"""By paper, the `keys` of the runs that its grid needs, and the logs of the rows above them."""


def record_rows(root: Path, listed: Mapping[str, Any]) -> None:
    """Add what is published of each paper of plan `listed` to the logs of its rows; write `ROWS`.

    A row has the log of a run that is no training, to which each publication adds.
    """
    pages, before = {}, newest_attempts(root)
    for paper, facts in listed["papers"].items():
        scores, own = read_scores(root / SCORES, paper), defaultdict(list)
        for stage in stage_rows(listed["variants"]):
            if stage["paper"] == paper:
                own[stage["variant"]].append(stage["key"])
        keys, parents = list(chain(*own.values())), dict[str, str]()
        rows = _rows(scores, facts["rule"], facts["overall_tasks"])
        # Rows that only choose among the runs of others come last.
        for variant in sorted(rows, key=lambda variant: variant not in own):
            key = f"row.{paper}.{variant}"
            run = {"experiment": paper, "key": key, "seed": 0, "name": variant}
            old = before.get((key, "0"))
            journal = Journal(old.path) if old else Journal.start(root, run)
            journal.end("FINISHED", **rows[variant])
            keys.append(key)
            used = (s.key for of in scores if of.variant == variant for s in scores[of].values())
            for below in own.get(variant) or used:
                parents.setdefault(below, journal.path.stem)
        pages[paper] = {"keys": keys, "parents": parents}
    write_json(root / ROWS, pages)


def _rows(scores: Scores, rule: str, overall_tasks: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the metrics and tags of a paper's rows; intervals are cut where scores end."""
    rows: dict[str, dict[str, Any]] = {}
    for of, found in over_seeds(scores, overall_tasks).items():
        if of.measure not in (rule, *TASKS):
            continue
        tags = {Tag.ROW: of.variant, "learned": "", "not_learned": ""}
        row = rows.setdefault(of.variant, {"metrics": {"n": found.n}, "tags": tags})
        task = TASKS.get(of.measure)
        lowest = -1.0 if (task.metric in CORRELATIONS if task else rule == "plain") else 0.0
        name = f"{BEST if of.split == 'dev' else TEST}/{of.measure if task else 'overall'}"
        for end, value in (("", found.mean), ("/low", found.low), ("/high", found.high)):
            if value is not None:
                row["metrics"][name + end] = min(max(value, lowest), 1.0)
        if task and of.split == "dev" and found.learned is not None:
            word = "learned" if found.learned else "not_learned"
            row["tags"][word] = f"{row['tags'][word]},{of.measure}".strip(",")
    return rows
