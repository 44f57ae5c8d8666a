"""The kinds of figures: their options, and what each is drawn from.

A kind is a class here and a function in `minbert.figures` (`minbert.spec.parts`). The plan checks
options and puts all of them into a figure's spec, so that no matplotlib is loaded before drawing,
and a default that changes is drawn.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from minbert.spec.model import Spec


@dataclass(frozen=True)
class Reads:
    """What a kind is drawn from; it is drawn again when any of that changes.

    `runs`: files of its variants' runs, for each seed: `histories` (history.parquet of each stage),
    `predictions` (the predictions.parquet that each task is scored by).
    `papers`: `scores` (scores.parquet), `rows` (the rows.parquet of each task).
    `facts`: counted `parameters`, `stages` (resolved specs), the backbone's `architecture`, the
    papers' `published` figures, and `rules` for the overall score.
    `tasks`: those whose predictions and rows it reads (default: all that its variants have).
    `of`: it shows one task of this kind: the one that its option `task` names, else that of
    `tasks`, else the only one of its kind that the paper has.
    `least` and `most`: how many variants it shows as a paper's figure.
    `over_all`: it can also be a figure over all papers.
    """

    runs: tuple[str, ...] = ()
    papers: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    of: str = ""
    least: int = 1
    most: int | None = None
    over_all: bool = False

    @property
    def of_stages(self) -> bool:
        """Whether it shows what the best of others does not have: runs, or stages."""
        return bool(self.runs) or "stages" in self.facts


class Options(Spec):
    """The options of every kind."""

    reads: ClassVar[Reads]

    @property
    def reading(self) -> Reads:
        """What a figure with these options is drawn from."""
        return self.reads

    @property
    def of_published(self) -> bool:
        """Whether it shows nothing if the papers published nothing."""
        return False

    def named(self) -> Iterable[str]:
        """Return the variants that the options name."""
        return ()


class OneTask(Options):
    """The options of a kind that shows one task."""

    task: str = ""


class OfSplit(Options):
    """The options of a kind that shows scores on one split."""

    split: Literal["dev", "test"] = "dev"


class Architectures(Options):
    """The layers of models, drawn from their specs."""

    reads = Reads(facts=("architecture", "stages"), most=6)


class Calibration(OneTask):
    """Reliability diagrams of a binary task."""

    reads = Reads(runs=("predictions",), tasks=("para",), of="binary")


class ConfusionMatrix(OneTask):
    """Confusion matrices of a classification task."""

    reads = Reads(runs=("predictions",), tasks=("sst",), of="classification")


class Table(Spec):
    """A paper's table by epoch: our stage, and what is printed (empty: not printed)."""

    title: str
    variant: str
    stage: str
    task: str
    loss: tuple[float, ...] = ()
    train: tuple[float, ...] = ()
    dev: tuple[float, ...] = ()


class Curves(Options):
    """Curves over epochs.

    `loss`: the training loss of `task` (default: of all), a line for each variant. `scores`: of
    each task, a line for each variant. `runs`: losses and scores of each variant on train and dev,
    or of `pairs` of variants side by side. `tables`: a paper's tables by epoch, and ours.
    `cosines`: between the tasks' gradients. Lines are smoothed over `smooth` of the longest run.
    """

    reads = Reads(runs=("histories",), facts=("stages",))
    show: Literal["loss", "scores", "runs", "tables", "cosines"] = "loss"
    task: str = "overall"
    ylabel: str = "Multitask training loss"
    smooth: Annotated[float, Field(ge=0, lt=1)] = 0.05
    pairs: tuple[tuple[str, str], ...] = ()
    tables: tuple[Table, ...] = ()

    @property
    def reading(self) -> Reads:
        """What a view is drawn from: scores give it floors."""
        if self.show in ("loss", "cosines"):
            return self.reads
        return replace(self.reads, papers=("scores",), facts=("stages", "rules"))

    def mistakes(self) -> Iterator[str]:
        if (self.show == "tables") != bool(self.tables):
            yield "'show: tables' and the option 'tables' go together"

    def named(self) -> Iterable[str]:
        """Return the variants of pairs and tables."""
        return chain(*self.pairs, (table.variant for table in self.tables))


class FusionAttention(Options):
    """The adapters that fusions attend to."""

    reads = Reads(runs=("histories",), facts=("stages",))


class Ladder(Options):
    """What each row gains over the row above or, if named, `over`.

    `names` spells out what the labels abbreviate.
    """

    reads = Reads(runs=("predictions",), papers=("scores",), facts=("published", "rules"), least=2)
    over: dict[str, str] = Field(default_factory=dict)
    names: dict[str, str] = Field(default_factory=dict)

    def named(self) -> Iterable[str]:
        """Return the rows and those they are compared with."""
        return chain(*self.over.items())


class PublishedReproduced(Options):
    """Scores against each other over all papers: published ones and ours, or dev and test."""

    reads = Reads(papers=("scores",), facts=("published", "rules"), over_all=True)
    against: Literal["published", "dev"] = "published"

    @property
    def of_published(self) -> bool:
        """Whether it shows the papers' own scores."""
        return self.against == "published"


class Ranking(OfSplit):
    """Variants by their scores."""

    reads = Reads(papers=("scores", "rows"), facts=("rules",))


class ScoreParameters(OfSplit):
    """Scores against counted parameters."""

    reads = Reads(papers=("scores",), facts=("parameters", "rules"))


class Stability(Options):
    """The spread of dev scores over the last epochs."""

    reads = Reads(runs=("histories",), papers=("scores",), facts=("stages", "rules"))


class StsScatter(OneTask):
    """Predicted against true values of a regression task."""

    reads = Reads(runs=("predictions",), tasks=("sts",), of="regression")


class Sweep(OfSplit):
    """Scores as one setting varies.

    `lines` has, by label, the setting's value of each variant of a line; a variant may stand in
    several lines. `x` is the title of that axis.
    """

    reads = Reads(papers=("scores",), facts=("rules",))
    x: str
    lines: Annotated[
        dict[str, Annotated[dict[str, float], Field(min_length=1)]], Field(min_length=1)
    ]

    def named(self) -> Iterable[str]:
        """Return the variants of the lines."""
        return chain(*self.lines.values())


class Transfer(Options):
    """From one task to another: what the first gives to the second, and what is forgotten."""

    reads = Reads(runs=("predictions",), papers=("scores",), facts=("published", "stages"))


FIGURE_KINDS: dict[str, type[Options]] = {
    "architectures": Architectures,
    "calibration": Calibration,
    "confusion-matrix": ConfusionMatrix,
    "curves": Curves,
    "fusion-attention": FusionAttention,
    "ladder": Ladder,
    "published-reproduced": PublishedReproduced,
    "ranking": Ranking,
    "score-parameters": ScoreParameters,
    "stability": Stability,
    "sts-scatter": StsScatter,
    "sweep": Sweep,
    "transfer": Transfer,
}
"""The kinds by the names that grids have for them."""
