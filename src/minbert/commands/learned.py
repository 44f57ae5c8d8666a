"""`minbert learned`: which rows learnt, of those that learnt in their paper."""

from minbert.commands.plan import aligned
from minbert.evaluate.reading import read_scores
from minbert.evaluate.text import p_value
from minbert.plan.plan import Plan

CLEARLY = 1.645
"""Standard errors of our score that a published one is above the floor by, to ask it of ours."""

HEADER = ("paper", "variant", "task", "seed", "paper's", "ours", "floor", "p", "")


def learned_text(plan: Plan) -> str:
    """Return a line for each of our dev scores whose published one is clearly above its floor."""
    lines, learned, constant = list[tuple[str, ...]]([HEADER]), 0, 0
    for paper in (grid.paper for grid in plan.grids):
        path = plan.shown[f"scores/{paper}"].folder(plan.root) / "scores.parquet"
        scores = read_scores(path, paper) if path.exists() else {}
        for row in (row for row in plan.published if row.paper == paper and row.split == "dev"):
            for (variant, split, task), by_seed in scores.items():
                published = row.figure(task) if (variant, split) == (row.variant, "dev") else None
                for seed, score in by_seed.items():
                    floor, p = score.floor, score.p_floor
                    if published is None or floor is None or p is None:
                        continue
                    if published > floor + CLEARLY * (score.error or 0.0):
                        learned += bool(score.learned)
                        constant += bool(score.constant)
                        said = "constant" if score.constant else "not above its floor"
                        values = (f"{value:.3f}" for value in (published, score.value, floor))
                        about = (paper, variant, task, str(seed), *values, p_value(p))
                        lines.append((*about, said * (not score.learned)))
    return (
        f"{aligned(lines)}\n\n{learned} of {len(lines) - 1} above their floor at the 5 % level, "
        f"{constant} of {len(lines) - 1} constant predictors.\n"
        "Floors: the most frequent label of dev (exact McNemar test), r = 0 (t test). Listed: "
        "our dev scores whose published score is clearly above the floor."
    )
