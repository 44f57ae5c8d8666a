"""Compare a row that was trained anew with the study's own: its scores, and every prediction.

python study/again.py results/again results/study hybrid-bert/3-bert
"""

import argparse

import pandas as pd

import minbert
from minbert.base.errors import UserError


def compared(again: str, study: str, row: str) -> pd.DataFrame:
    """Return a line for each seed, split and task: both scores, and the share of equal predictions.

    A share of 1 means that all predictions are the same to the last bit. Raises `UserError` if they
    have no seed of the row in common.
    """
    new, old = minbert.open(again), minbert.open(study)
    at = ["seed", "split", "task"]
    pairs = new.predictions(row).merge(old.predictions(row), on=[*at, "id"])
    if pairs.empty:
        raise UserError(f"{study} has no run of {row} with a seed that {again} has")
    equal = (pairs["prediction_x"] == pairs["prediction_y"]).groupby([pairs[of] for of in at])
    paper, _, variant = row.rpartition("/")
    scores = new.scores.merge(old.scores, on=["paper", "variant", *at, "metric"])
    scores = scores[(scores["variant"] == variant) & (scores["paper"].str.endswith(paper))]
    scores = scores.set_index([*at, "metric"])[["value_x", "value_y"]]
    scores.columns = pd.Index(["anew", "study"])
    return scores.join(equal.mean().rename("equal predictions"), how="outer")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("again", help="results with the row trained anew")
    parser.add_argument("study", help="the study's results")
    parser.add_argument("row", metavar="PAPER/VARIANT")
    try:
        found = compared(**vars(parser.parse_args()))
    except UserError as error:
        raise SystemExit(f"again: {error}") from None
    print(found.to_string(float_format="{:.4f}".format))
