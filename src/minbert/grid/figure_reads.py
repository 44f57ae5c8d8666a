"""What each kind of figure reads: which files of the runs and papers, and which facts of the plan.

A new kind is a line here and a line in `parts.PARTS`; its module then gets all that it names as a
`minbert.figures.inputs.Inputs`, and is drawn again when any of that changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RunFiles = Literal["histories", "stage_histories", "runs", "predictions"]
PaperFiles = Literal["scores", "table", "examples"]
Facts = Literal["parameters", "stages", "architecture", "published", "rules"]


@dataclass(frozen=True)
class Reads:
    """What a kind reads. Nothing else of the pipeline decides how it looks.

    `runs`: files of its variants' runs, each seed's: `histories` (history.parquet of a variant's
    last stage), `stage_histories` (of all its stages), `runs` (run.json of all its stages),
    `predictions` (predictions.parquet that each task is scored by).
    `papers`: `scores` (scores.parquet), `table` (table.csv), `examples` (the examples.parquet of
    each task).
    `facts`: `parameters` (counted), `stages` (resolved specs), `architecture` (the backbone's
    shapes), `published` (the papers' figures), `rules` (each paper's rule for the overall score).
    `tasks`: those whose predictions and examples it reads; empty: all that its variants have.
    """

    runs: tuple[RunFiles, ...] = ()
    papers: tuple[PaperFiles, ...] = ()
    facts: tuple[Facts, ...] = ()
    tasks: tuple[str, ...] = ()


READS: dict[str, Reads] = {
    "loss-curves": Reads(runs=("histories",)),
    "ranking": Reads(papers=("scores",), facts=("rules",)),
    "published-reproduced": Reads(papers=("scores",), facts=("published", "rules")),
    "dev-test": Reads(papers=("scores",), facts=("rules",)),
    "confusion-matrix": Reads(runs=("predictions",), tasks=("sst",)),
    "calibration": Reads(runs=("predictions",), tasks=("para",)),
    "sts-scatter": Reads(runs=("predictions",), tasks=("sts",)),
    "worst-examples": Reads(runs=("predictions",), papers=("examples",)),
    "leakage": Reads(runs=("predictions",), papers=("examples",)),
    "gradient-cosines": Reads(runs=("histories",)),
    "architectures": Reads(facts=("architecture", "stages")),
    "dev-curves": Reads(runs=("histories",), facts=("rules",)),
    "score-parameters": Reads(papers=("scores",), facts=("parameters", "rules")),
    "stability": Reads(runs=("histories",), facts=("rules",)),
    "epoch-tables": Reads(runs=("stage_histories",)),
    "transfer": Reads(papers=("scores",), facts=("stages",)),
    "fusion-attention": Reads(runs=("stage_histories",), facts=("stages",)),
    "run-curves": Reads(runs=("histories",), facts=("stages", "rules")),
    "run-pairs": Reads(runs=("histories",), facts=("stages", "rules")),
    "ladder": Reads(papers=("scores",), facts=("published", "rules")),
}
"""By kind. One that reads no files of runs can be a figure over all papers, too."""
