"""Print the tails and the coverage for each number of seeds and each spread."""

import argparse

from nulls import CLAIMS, ROWS, Rows, coverage, tails

SPREADS = {
    "-": Rows([0] * ROWS),
    "0": Rows([0] * ROWS),
    "0.5": Rows([0.5] * ROWS),
    "1": Rows([1] * ROWS),
    "2": Rows([2] * ROWS),
    "1, seeds 2": Rows([1] * ROWS, of_seed=2),
    "0.5 and 3": Rows([0.5, 3] * (ROWS // 2)),
    "1, one row 6": Rows([*[1] * (ROWS - 1), 6]),
    "1, fails .2": Rows([1] * ROWS, fails=0.2),
}
"""The rows' spreads, by what the documentation calls them."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m nulls", description=__doc__)
    parser.add_argument("--papers", type=int, default=1000, help="of 23 claims (1000)")
    parser.add_argument("--seed", type=int, default=0, help="of the draws (0)")
    chosen = parser.parse_args()
    p_values = f"p <= .05  p <= {0.05 / CLAIMS:.5f}  family of {CLAIMS}"
    print(f"seeds  spread        {p_values}  papers  covered  worst row")
    for seeds in (1, 2, 3, 5):
        for name in SPREADS if seeds > 1 else ["-"]:
            if seeds > 1 and name == "-":
                continue
            t = tails(chosen.papers, seeds, SPREADS[name], chosen.seed)
            shares = f"{t.one:8.4f}  {t.first:12.5f}  {t.family:12.4f}"
            line = f"{seeds:5}  {name:12}  {shares}  {t.papers:6}"
            if seeds > 1:
                covered = coverage(chosen.papers, seeds, SPREADS[name], chosen.seed)
                line += f"  {covered.all:7.3f}  {covered.worst:9.3f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
