"""What a paper claims, as data: which of its variants scores higher, on what.

A claim decides no training; it is judged from the predictions of the variants that it compares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from minbert.common.errors import UserError, nearest
from minbert.grid.links import Variant
from minbert.grid.node import Need, Node
from minbert.grid.task_spec import NonNegative, Spec
from minbert.grid.tasks import TASKS

if TYPE_CHECKING:
    from minbert.grid.plan import Plan
    from minbert.grid.resolve import Grid

MAJORITY = "majority"
"""The system that always predicts the most frequent label; of STS it knows nothing (r = 0)."""

RULES = ("overall", "normalised", "plain")
"""Overall scores that a claim may be about; `overall` is the paper's own."""

OVERALL_TASKS = ("sst", "para", "sts")
"""Those of `minbert.scoring`, which a plan does not import because it needs numpy."""

Direction = Literal["higher", "lower", "same", "not higher", "not lower"]

Name = Annotated[str, Field(min_length=1)]


class Claim(Spec):
    """One claim: `variant` scores higher (or as `direction` says) than `against`, on each `task`.

    `text` is the claim in our words and `section` where the paper makes it. `against` is a
    variant, several (each of them, as for the best of a table), `majority`, or a score that the
    paper gives. Scores that differ by `margin` at most count as the same; without `same` or `not`
    in the direction it means nothing.
    """

    text: Name
    section: Name
    variant: Name
    against: Name | float | Annotated[tuple[Name, ...], Field(min_length=2)]
    task: Name | Annotated[tuple[Name, ...], Field(min_length=1)] = "overall"
    direction: Direction = "higher"
    margin: NonNegative = 0.01

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks, each of which is a line of the table."""
        return (self.task,) if isinstance(self.task, str) else self.task

    @property
    def others(self) -> tuple[str, ...]:
        """The variants that the variant is compared with; none for a score or the majority."""
        if isinstance(self.against, float) or self.against == MAJORITY:
            return ()
        return (self.against,) if isinstance(self.against, str) else self.against

    @property
    def score(self) -> float | None:
        """The score that the variant is compared with, if it is one."""
        return self.against if isinstance(self.against, float) else None

    @property
    def variants(self) -> tuple[str, ...]:
        """All variants that are compared."""
        return (self.variant, *self.others)


def check_claim(claim: Claim, variants: Mapping[str, Variant], where: str) -> None:
    """Refuse variants and tasks that are not there, and tasks that a variant is not scored on."""
    for name in claim.variants:
        if name not in variants:
            raise UserError(
                f"{where}: unknown variant '{name}'.{nearest(name, [*variants, MAJORITY])}"
            )
    if claim.variant in claim.others:
        raise UserError(f"{where}: compares '{claim.variant}' with itself")
    known = [*TASKS, *RULES]
    for task in claim.tasks:
        if task not in known:
            raise UserError(
                f"{where}: unknown task '{task}'.{nearest(task, known)} Known: {', '.join(known)}"
            )
        for name in claim.variants:
            for each in OVERALL_TASKS if task in RULES else (task,):
                if not _has(variants[name], each, variants):
                    raise UserError(
                        f"{where}: '{task}' needs the task '{each}', which variant '{name}' does "
                        "not have; name another task or variant"
                    )


def _has(variant: Variant, task: str, variants: Mapping[str, Variant]) -> bool:
    """Whether a variant is scored on a task; the best of others if one of them is."""
    if variant.best_of:
        return any(_has(variants[name], task, variants) for name in variant.best_of)
    return variant.stage_for(task) is not None


def claims_node(plan: Plan) -> Node | None:
    """Return the node of all papers' claims; None if the grids make none."""
    lines = [line for grid in plan.grids for line in _lines(plan, grid)]
    if not lines:
        return None
    needs: dict[str, Need] = {}
    for grid in plan.grids:
        if not grid.claims:
            continue
        needs[f"scores.{grid.paper}"] = Need(plan.outputs[grid.paper].scores, "scores.parquet")
        for name in {name for claim in grid.claims for name in claim.variants}:
            for variant in (name, *grid.variants[name].best_of):
                for stage in plan.scored(grid.variants[variant]).values():
                    node = plan.train(stage.ref)
                    for seed in plan.config.seeds:
                        at = f"predictions.{node.key}.{seed}"
                        needs[at] = Need(node, "predictions.parquet", seed)
    titles = {grid.paper: grid.title for grid in plan.grids if grid.claims}
    spec = {
        "claims": lines,
        "titles": titles,
        "seeds": len(plan.config.seeds),
        "backbone": plan.config.backbone,
        "data": plan.config.data,
    }
    return Node("claims", spec, ("minbert.evaluate.claims",), dict(sorted(needs.items())))


def _lines(plan: Plan, grid: Grid) -> Iterator[dict[str, Any]]:
    """Yield each claim of a paper, one line a task, with the difference that was published."""
    for claim in grid.claims:
        for task in claim.tasks:
            yield {
                "paper": grid.paper,
                "section": claim.section,
                "text": claim.text,
                "variant": claim.variant,
                "others": claim.others,
                "score": claim.score,
                "task": grid.overall if task == "overall" else task,
                "direction": claim.direction,
                "margin": claim.margin,
                "published": _published_difference(plan, grid, claim, task),
            }


def _published_difference(plan: Plan, grid: Grid, claim: Claim, task: str) -> float | None:
    """Return the published difference; with several others, the one most against the claim."""
    ours = _published(plan, grid, claim.variant, task)
    found = [_published(plan, grid, name, task) for name in claim.others]
    theirs = [figure for figure in (claim.score, *found) if figure is not None]
    if ours is None or not theirs:
        return None
    differences = [round(ours - figure, 6) for figure in theirs]
    if claim.direction == "same":
        return max(differences, key=abs)
    return min(differences) if claim.direction in ("higher", "not lower") else max(differences)


def _published(plan: Plan, grid: Grid, variant: str, task: str) -> float | None:
    """Return the figure that the paper gives of a variant on dev; None if it gives none."""
    rows = [
        r for r in plan.published if (r.paper, r.variant, r.split) == (grid.paper, variant, "dev")
    ]
    for row in rows:
        if task in ("overall", grid.overall):
            figure = row.figures["overall"]
        elif task in OVERALL_TASKS:
            figure = row.figures[task]
        else:
            figure = row.figures["other"] if row.other_task in ("", task) else None
        if figure is not None:
            return figure
    return None
