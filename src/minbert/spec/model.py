"""What all specs have in common: their base, and the kinds of number that they hold."""

from collections.abc import Iterator
from typing import Annotated, Any, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictInt,
    ValidationInfo,
    field_validator,
)

Probability = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Count = Annotated[StrictInt, Field(ge=1, le=10**9)]
Width = Annotated[StrictInt, Field(ge=1, le=65_536)]


def distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Refuse what is named twice."""
    twice = [value for i, value in enumerate(values) if value in values[:i]]
    if twice:
        raise ValueError(f"{twice[0]!r} is there twice; name each once")
    return values


Distinct = AfterValidator(distinct)


def _types(annotation: Any) -> Iterator[Any]:
    """Yield the types that a value or its parts may have."""
    yield annotation
    for inner in get_args(annotation):
        yield from _types(inner)


class Spec(BaseModel):
    """Base of all specs: unknown keys are refused, instances cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _numbers_are_written_as_such(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse `true` where a number is meant: Python takes it for 1."""
        kinds = set(_types(cls.model_fields[str(info.field_name)].annotation))
        if kinds & {int, float} and bool not in kinds:
            for each in value if isinstance(value, list | tuple) else [value]:
                if isinstance(each, bool):
                    raise ValueError("expected a number, not true or false")
        return value
