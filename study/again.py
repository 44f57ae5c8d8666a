"""Compare a row that was trained anew with the study's own: its scores, and every prediction.

python study/again.py results/again results/study hybrid-bert/3-bert
"""

import sys

import pandas as pd

import minbert


def compared(again: str, study: str, row: str) -> pd.DataFrame:
    """Return a line for each seed, split and task: both scores, and the share of equal predictions.

    A share of 1 means that all predictions are the same to the last bit.
    """
    new, old = minbert.open(again), minbert.open(study)
    at = ["seed", "split", "task"]
    pairs = new.predictions(row).merge(old.predictions(row), on=[*at, "id"])
    if pairs.empty:
        raise SystemExit(f"{study} has no run of {row} with a seed that {again} has")
    equal = (pairs["prediction_x"] == pairs["prediction_y"]).groupby([pairs[of] for of in at])
    paper, _, variant = row.rpartition("/")
    scores = new.scores.merge(old.scores, on=["paper", "variant", *at, "metric"])
    scores = scores[(scores["variant"] == variant) & (scores["paper"].str.endswith(paper))]
    scores = scores.set_index([*at, "metric"])[["value_x", "value_y"]]
    scores.columns = pd.Index(["anew", "study"])
    return scores.join(equal.mean().rename("equal predictions"))


if __name__ == "__main__":
    print(compared(*sys.argv[1:]).to_string(float_format="{:.4f}".format))
