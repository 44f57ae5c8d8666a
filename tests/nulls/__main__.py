"""Print the tails for each number of seeds and each spread."""

import argparse

from nulls import CLAIMS, tails


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m nulls", description=__doc__)
    parser.add_argument("--trials", type=int, default=12_000, help="pairs of systems (12000)")
    parser.add_argument("--seed", type=int, default=0, help="of the draws (0)")
    chosen = parser.parse_args()
    print(f"seeds  ratio  p <= .05  p <= {0.05 / CLAIMS:.5f}  family of {CLAIMS}  trials")
    for seeds in (1, 2, 3, 5):
        for ratio in (0, 0.5, 1, 2) if seeds > 1 else (0,):
            t = tails(chosen.trials, seeds, ratio, chosen.seed)
            shares = f"{t.one:8.4f}  {t.first:12.5f}  {t.family:12.4f}"
            print(f"{seeds:5}  {ratio:5}  {shares}  {t.trials}", flush=True)


if __name__ == "__main__":
    main()
