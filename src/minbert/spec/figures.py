"""The kinds of figures: their options, and what each is drawn from.

A kind is a class here and a function in `minbert.figures` (`minbert.spec.parts`). The plan checks
options and puts all of them into a figure's spec, so that no matplotlib is loaded before drawing,
and a default that changes is drawn.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from minbert.spec.model import Positive, Probability, Spec


class Options(Spec):
    """Options of a kind that shows `least` variants or more, with `trained` those with runs."""

    trained: ClassVar[bool] = True
    least: ClassVar[int] = 1

    def named(self) -> Iterable[str]:
        """Return the variants that the options name."""
        return ()


class OneTask(Options):
    """The options of a kind that shows one task: this one, else the paper's first of its kind."""

    task: str = ""


class OfScores(Options):
    """A kind that shows scores, those of rows without runs too."""

    trained = False


class Table(Spec):
    """A paper's table by epoch: our stage, and what is printed (empty: not printed)."""

    title: str
    variant: str
    stage: str
    task: str
    loss: tuple[Positive, ...] = ()
    train: tuple[float, ...] = ()
    dev: tuple[float, ...] = ()


class Curves(Options):
    """Curves over epochs.

    `loss`: the training loss of `task` (default: of all), a line for each variant. `scores`: of
    each task, a line for each variant. `runs`: losses and scores of each variant on train and dev,
    or of `pairs` of variants side by side. `tables`: a paper's tables by epoch, and ours.
    `cosines`: between the tasks' gradients. Lines are smoothed over `smooth` of the longest run.
    """

    show: Literal["loss", "scores", "runs", "tables", "cosines"] = "loss"
    task: str = "overall"
    ylabel: str = "Multitask training loss"
    smooth: Probability = 0.05
    pairs: tuple[tuple[str, str], ...] = ()
    tables: tuple[Table, ...] = ()

    def mistakes(self) -> Iterator[str]:
        if (self.show == "tables") != bool(self.tables):
            yield "'show: tables' and the option 'tables' go together"

    def named(self) -> Iterable[str]:
        """Return the variants of pairs and tables."""
        return chain(*self.pairs, (table.variant for table in self.tables))


class Ladder(Options):
    """What each row gains over the row above or `over`; `names` spells out abbreviations."""

    least = 2
    over: dict[str, str] = Field(default_factory=dict)
    names: dict[str, str] = Field(default_factory=dict)

    def named(self) -> Iterable[str]:
        """Return the rows and those they are compared with."""
        return chain(*self.over.items())


class PublishedReproduced(Options):
    """Scores against each other over all papers: published ones and ours, or dev and test."""

    against: Literal["published", "dev"] = "published"


class Sweep(OfScores):
    """Scores over the setting `x`: `lines` has, by label, its value of each variant of a line."""

    x: str
    lines: Annotated[
        dict[str, Annotated[dict[str, float], Field(min_length=1)]], Field(min_length=1)
    ]

    def named(self) -> Iterable[str]:
        """Return the variants of the lines."""
        return chain(*self.lines.values())


TASK_KIND = {
    "calibration": "binary",  # reliability diagrams
    "confusion-matrix": "classification",
    "sts-scatter": "regression",  # predicted against true values
}
"""The kinds that show one task, and the kind of this task."""

FIGURE_KINDS: dict[str, type[Options]] = {
    "architectures": Options,  # the layers of models, drawn from their specs
    "calibration": OneTask,
    "confusion-matrix": OneTask,
    "curves": Curves,
    "fusion-attention": Options,
    "ladder": Ladder,
    "published-reproduced": PublishedReproduced,
    "ranking": OfScores,
    "score-parameters": OfScores,
    "stability": Options,
    "sts-scatter": OneTask,
    "sweep": Sweep,
    "transfer": Options,
}
"""The kinds by the names that grids have for them."""
