"""What grid files may hold.

Templates and variants are mappings in which any key may be left to another place, so they are
checked as `partial` specs; `minbert.spec.resolve` makes stages of them.
"""

from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import Field, create_model

from minbert.spec.figures import PublishedReproduced
from minbert.spec.model import Distinct, Names, Spec, one_of
from minbert.spec.parts import PARTS
from minbert.spec.protocol import Rule
from minbert.spec.published import Claim
from minbert.spec.stage import StageSpec
from minbert.spec.task import KnownTask, KnownTasks, TaskSpec

BACKBONE = "backbone"  # what `start` says for the pretrained weights
ALL = "all"  # the folder of the figures over all papers
# Of a variant, stage or figure: it becomes part of paths.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


@cache
def partial(model: type[Spec], without: tuple[str, ...] = ()) -> type[Spec]:
    """Return `model` with every key optional, or null, at any depth; `*` is a task too.

    Its keys `without` are left out.
    """
    fields: Any = {
        name: (Annotated[_partial(kind.annotation), None, *kind.metadata] | None, None)
        for name, kind in model.model_fields.items()
        if name not in without
    }
    return create_model(model.__name__, __base__=Spec, __doc__=model.__doc__, **fields)


def _partial(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        return partial(annotation)
    if get_origin(annotation) in {Union, UnionType}:
        return Union[tuple(map(_partial, get_args(annotation)))]  # noqa: UP007
    if get_origin(annotation) is dict:
        return dict[Literal["*"] | KnownTask, partial(TaskSpec) | None]  # type: ignore[misc]
    return annotation


# Settings of all stages, from which none can start.
Adjustments = partial(StageSpec, without=("start", "fuse"))


class Display(Spec):
    """How a variant is shown and whether it is scored on test; it changes no stage's key.

    `row` is its row in the paper's table, as `variants.tsv` lists it, `label` its name in tables
    and figures. These are inherited from templates, not from variants. A variant with `best_of`
    trains nothing: it is the variant of those with the best dev score, overall or, with
    `best_by: task`, for each task separately.
    """

    label: str | None = None
    row: str | None = None
    note: str = ""
    test: bool = False
    best_of: Names = ()
    best_by: Literal["overall", "task"] = "overall"


class StageKeys(partial(StageSpec)):  # type: ignore[misc]
    """Keys of a stage: the tasks that it trains (default: all), and those it only evaluates."""

    train: Annotated[KnownTasks, Field(min_length=1)] | None = None
    evaluate_only: KnownTasks | None = None


class NamedStage(StageKeys):
    """One of a variant's `stages`, for which the variant's own keys are defaults."""

    name: Name


Values = Annotated[tuple[Any, ...], Field(min_length=1), Distinct]
Choices = (
    Annotated[tuple[Any, ...], Field(min_length=2), Distinct]
    | Annotated[dict[str, Any], Field(min_length=2)]
)


class VariantKeys(partial(Display), StageKeys):  # type: ignore[misc]
    """A variant, or a template that variants can extend.

    `expand` makes a variant of each value: a list by dotted key, or words for values. `tune` lists
    values in the same way, two or more, among which a half of dev chooses. A template has no
    `expand`.
    """

    extends: Names | None = None
    stages: Annotated[tuple[NamedStage, ...], Field(min_length=1)] | None = None
    tune: dict[str, Choices | None] | None = None
    expand: dict[str, Values | dict[str, Any]] | None = None


class Drawing(Spec):
    """A figure: its kind, and how it looks."""

    kind: Annotated[str, one_of(PARTS["figure"])]
    title: str
    caption: str = ""


class Figure(Drawing):
    """A paper's figure; without `variants` it shows all of the paper that it can."""

    options: dict[str, Any] = Field(default_factory=dict)
    variants: Names = ()


class FigureOverAll(Drawing):
    """A figure over all papers."""

    kind: Literal["published-reproduced"]
    options: PublishedReproduced = PublishedReproduced()


class FiguresFile(Spec):
    """workflow/figures.yaml: the figures over all papers."""

    figures: dict[Name, FigureOverAll] = Field(default_factory=dict)


class Paper(Spec):
    """What is said of a paper. `overall` is its rule for its overall score.

    `single` is the variant that trains each task alone, which others' gain delta_m is over.
    `overall_tasks` are those of the overall score (default: SST, para and STS, or in a paper with
    tasks of one's own all of its tasks). The table's notes compare the parameter counts of each
    pair of variants in `parameter_ratios`.
    """

    paper: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,99}$")]
    title: str = ""
    overall: Rule = "normalised"
    description: str = ""
    single: str = ""
    overall_tasks: KnownTasks = ()
    figures: dict[Name, Figure] = Field(default_factory=dict)
    parameter_ratios: tuple[Annotated[tuple[str, str], Distinct], ...] = ()
    claims: tuple[Claim, ...] = ()


class GridFile(Paper):
    """The top level of a grid file. Further files of a paper need only its name."""

    templates: dict[Name, VariantKeys] = Field(default_factory=dict)
    variants: dict[str, VariantKeys] = Field(default_factory=dict)
