"""Compare a row that was trained anew with the study's own: scores, predictions and histories.

python study/again.py results/again results/study hybrid-bert/3-bert
"""

import argparse

import pandas as pd

import minbert
from minbert.base.errors import UserError

SCORED = ["seed", "split", "task"]
EXAMPLE = [*SCORED, "id"]
MEASURED = ["seed", "stage", "step", "epoch", "split", "task", "metric"]


def compared(again: str, study: str, row: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return both scores of each seed, split, task and metric, and how many numbers differ.

    The second frame has a line for each seed, split and task: `predictions` is their number in
    either, of the best and of the last epoch, and `values` the number of measured values in either
    history, with `different` of each. Numbers differ if their bits do, or if one side lacks one.
    Raises `UserError` if both have no seed of the row in common.
    """
    new, old = minbert.open(again), minbert.open(study)
    both = {*new.predictions(row)["seed"]} & {*old.predictions(row)["seed"]}
    if not both:
        raise UserError(f"{study} has no run of {row} with a seed that {again} has")
    counts = {}
    for name, at, numbers in (
        ("predictions", EXAMPLE, ["prediction", "last"]),
        ("histories", MEASURED, ["value"]),
    ):
        frames = [getattr(of, name)(row) for of in (new, old)]
        frames = [frame[frame["seed"].isin(both)] for frame in frames]
        pairs = _side_by_side(*frames, at, numbers).groupby(SCORED)["different"]
        counts[name], counts[f"different {name}"] = pairs.count(), pairs.sum()
    paper, _, variant = row.rpartition("/")
    scores = new.scores.merge(old.scores, on=["paper", "variant", *SCORED, "metric"])
    scores = scores[(scores["variant"] == variant) & (scores["paper"].str.endswith(paper))]
    scores = scores.set_index([*SCORED, "metric"])[["value_x", "value_y"]]
    scores.columns = pd.Index(["anew", "study"])
    return scores, pd.DataFrame(counts).fillna(0).astype(int)


def _side_by_side(
    new: pd.DataFrame, old: pd.DataFrame, at: list[str], numbers: list[str]
) -> pd.DataFrame:
    """Return a line for each of the `numbers` at each place, and whether it is `different`."""
    long = (
        frame.melt(at, numbers, value_name="number").dropna(subset="number") for frame in (new, old)
    )
    pairs = pd.merge(*long, on=[*at, "variable"], how="outer")
    return pairs.assign(different=pairs["number_x"] != pairs["number_y"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("again", help="results with the row trained anew")
    parser.add_argument("study", help="the study's results")
    parser.add_argument("row", metavar="PAPER/VARIANT")
    try:
        found = compared(**vars(parser.parse_args()))
    except UserError as error:
        raise SystemExit(f"again: {error}") from None
    print(*(frame.to_string() for frame in found), sep="\n\n")
