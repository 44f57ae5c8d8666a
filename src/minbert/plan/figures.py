"""The nodes of figures: what each shows, checked before anything runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError, did_you_mean
from minbert.data.identity import sha256
from minbert.plan.experiment import Experiment
from minbert.spec.figures import FIGURE_KINDS, Options, PublishedReproduced
from minbert.spec.grid import ALL, Drawing, FiguresFile
from minbert.spec.parts import part_module
from minbert.spec.resolve import Grid
from minbert.spec.task import TASKS
from minbert.spec.yaml import load_yaml, validated
from minbert.store.node import Need, Node

FIGURES = Path("workflow/figures.yaml")
"""The figures over all papers; a folder without this file has none."""

SHEETS = Path(__file__).parents[1] / "figures"
"""The folder of the figures' style sheets, which are in no syntax tree."""

About = Mapping[str, Any]
"""What is said of a paper (`plan.outputs`)."""


def paper_figures(
    exp: Experiment, grid: Grid, about: About, needs: Mapping[str, Need]
) -> dict[str, Node]:
    """Return the nodes of a paper's figures, by the names that they are published under.

    Without named variants a figure shows all that it can. One to which `only` leaves nothing, or
    too little, to show is left out.
    """
    found = {}
    for name, spec in grid.figures.items():
        where = f"paper '{grid.paper}': figure '{name}'"
        options = _options(spec, where)
        given, on, of = options.model_dump(mode="json"), "", [*grid.variants.values()]
        if options.of:
            fit = [task for task in grid.tasks if TASKS[task].kind == options.of]
            given["task"] = task = given["task"] or next(iter(fit), "none")
            on = f" scored on {task} ({options.of})"
            of = [v for v in of if task in v.scored and task in fit]
        # A setting that a tuned variant tries has runs, and is no row.
        able = {v.name: v for v in of if (v.stages if options.trained else not v.tuned_for)}
        names = [*(spec.variants or (name for name, v in able.items() if not v.tuned_for))]
        of_options = dict.fromkeys(options.named(), names)
        for variant, known in (of_options | dict.fromkeys(spec.variants, able)).items():
            if variant not in known:
                raise UserError(
                    f"{where}: '{variant}' is no variant{on or ' with results'} that it shows."
                    f"{did_you_mean(variant, known)}"
                )
        if exp.config.only and len(names) < options.least:
            continue
        if not options.least <= len(names) <= (options.most or len(names)):
            raise UserError(
                f"{where}: kind '{spec.kind}' shows {options.least} to {options.most or 'all'} "
                f"variants{on}, found {len(names)}; name others under 'variants', or take the "
                "figure out"
            )
        draw = {"options": given, "variants": names}
        found[f"figures/{grid.paper}/{name}"] = _node(grid.paper, name, spec, draw, [about], needs)
    return found


def all_figures(
    exp: Experiment, papers: Sequence[About], needs: Mapping[str, Need]
) -> dict[str, Node]:
    """Return the nodes of the figures over all `papers`, by the names they are published under.

    A part of the grids has no such figures, and papers without published rows none of these.
    """
    path, found = exp.base / FIGURES, {}
    if exp.config.only or not path.exists():
        return {}
    for name, spec in validated(FiguresFile, load_yaml(path), str(path)).figures.items():
        options = _options(spec, where := f"{path}: figure '{name}'")
        if not isinstance(options, PublishedReproduced):
            raise UserError(
                f"{where}: kind '{spec.kind}' shows variants of one paper; put it into that "
                "paper's grid"
            )
        if options.against == "dev" or any(row["table"] for of in papers for row in of["rows"]):
            draw = {"options": options.model_dump(mode="json"), "variants": []}
            found[f"figures/{ALL}/{name}"] = _node(ALL, name, spec, draw, papers, needs)
    return found


def _node(
    paper: str,
    name: str,
    spec: Drawing,
    draw: Mapping[str, Any],
    papers: Sequence[About],
    needs: Mapping[str, Need],
) -> Node:
    drawn = {"title": spec.title, "caption": spec.caption, **draw}
    about = {"paper": paper, "name": name, "kind": spec.kind, "draw": drawn, "papers": papers}
    about["style"] = {path.name: sha256(path) for path in sorted(SHEETS.glob("*.mplstyle"))}
    parts = [part_module("figure", spec.kind)]
    if shapes := papers[0]["architecture"]:
        parts.append(part_module("architecture", shapes["family"]))
    return Node("figure", about, "minbert.figures.make", tuple(parts), needs)


def _options(spec: Drawing, where: str) -> Options:
    return validated(FIGURE_KINDS[spec.kind], spec.options, f"{where}, options")
