"""`minbert learned`: which rows learnt, of those that learnt in their paper."""

from minbert.commands.plan import aligned, paper_scores
from minbert.evaluate.reading import Of, Score
from minbert.evaluate.text import p_value
from minbert.plan.plan import Plan
from minbert.spec.protocol import OVERALL_TASKS

CLEARLY = 1.645
"""Standard errors of our score that a published one is above the floor by, to ask it of ours."""

HEADER = ("paper", "variant", "task", "seed", "paper's", "ours", "floor", "p", "")


def learned_text(plan: Plan) -> str:
    """Return a line for each of our dev scores whose published one is clearly above its floor."""
    papers = {grid.paper: paper_scores(plan, grid.paper) for grid in plan.grids}
    lines, ours = list[tuple[str, ...]]([HEADER]), list[Score]()
    for row in plan.published:
        scores = papers.get(row.paper, {}) if row.split == "dev" else {}
        for task in (*OVERALL_TASKS, row.other_task or ""):
            published = row.figures[task if task in OVERALL_TASKS else "other"]
            for seed, score in scores.get(Of(row.variant, "dev", task), {}).items():
                if score.floor is None or published is None or score.p_floor is None:
                    continue
                if published > score.floor + CLEARLY * (score.error or 0.0):
                    ours.append(score)
                    said = "constant" if score.constant else "not above its floor"
                    of = (row.paper, row.variant, task, str(seed))
                    values = (f"{value:.3f}" for value in (published, score.value, score.floor))
                    lines.append((*of, *values, p_value(score.p_floor), said * (not score.learned)))
    above, constant = sum(bool(s.learned) for s in ours), sum(bool(s.constant) for s in ours)
    return (
        f"{aligned(lines)}\n\n"
        f"{above} of {len(ours)} above their floor at the 5 % level, {constant} of {len(ours)} "
        "constant predictors.\n"
        "Floors: the most frequent label of dev (exact McNemar test), r = 0 (t test). Listed: "
        "our dev scores whose published score is clearly above the floor."
    )
