"""What all specs have in common: their base, and the kinds of value that they hold."""

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    StrictInt,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema


def to_list(value: Any) -> Any:
    """Take one value as a list of one."""
    return [value] if isinstance(value, str | int) else value


def types_of(annotation: Any) -> Iterator[Any]:
    """Yield the types that a value or its parts may have."""
    yield annotation
    for inner in get_args(annotation):
        yield from types_of(inner)


class Spec(BaseModel):
    """Base of all specs: unknown keys are refused, instances cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def mistakes(self) -> Iterator[str]:
        """Yield what does not fit together, the first of which is refused."""
        yield from ()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for mistake in self.mistakes():
            raise ValueError(mistake)
        return self

    @field_validator("*", mode="before")
    @classmethod
    def _numbers_are_written_as_such(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse `true` where a number is meant: Python takes it for 1."""
        kinds = {*types_of(cls.model_fields[str(info.field_name)].annotation)}
        given = value if isinstance(value, list | tuple) else [value]
        if kinds & {int, float} and bool not in kinds and any(isinstance(v, bool) for v in given):
            raise ValueError("expected a number, not true or false")
        return value


Probability = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Count = Annotated[StrictInt, Field(ge=1, le=10**9)]
Width = Annotated[StrictInt, Field(ge=1, le=65_536)]


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Refuse what is named twice."""
    twice = [value for i, value in enumerate(values) if value in values[:i]]
    if twice:
        raise ValueError(f"{twice[0]!r} is there twice; name each once")
    return values


Distinct = AfterValidator(_distinct)
OneOrMore = BeforeValidator(to_list)
Names = Annotated[
    tuple[str, ...],
    Distinct,
    BeforeValidator(to_list, json_schema_input_type=str | tuple[str, ...]),
]


@dataclass(eq=False)
class OneOf:
    """Annotates a string that is one of `names`, such as those of the parts of a kind."""

    names: Collection[str]

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.literal_schema(sorted(self.names))


URLS = ("http://", "https://", "file://")


def to_path(value: str) -> str:
    """Expand `~`."""
    path = os.path.expanduser(value)
    if path.startswith("~"):
        raise ValueError(f"{value!r}: there is no such home folder")
    return path


def _to_source(value: str) -> str:
    """Take what is no URL as a path; refuse a URL that nothing can be downloaded from."""
    if value.startswith(URLS):
        return value
    if "://" in value:
        raise ValueError(
            f"{value!r} cannot be downloaded from; give a folder or file, or a URL that begins "
            f"with {', '.join(URLS)}"
        )
    return to_path(value)


Text = Annotated[str, Field(min_length=1)]
Location = Annotated[Text, AfterValidator(to_path)]
Source = Annotated[Text, AfterValidator(_to_source)]
