"""What all specs have in common: their base, and the kinds of value that they hold."""

from collections.abc import Collection, Iterator
from os.path import expanduser
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetPydanticSchema,
    StrictInt,
    model_validator,
)
from pydantic_core import PydanticCustomError, core_schema

from minbert.base.errors import did_you_mean


def to_list(value: Any) -> Any:
    """Take one value as a list of one."""
    return [value] if isinstance(value, str | int) else value


RENAMED = {
    "select_on": "selection_split",
    "start_at_prior": "init_bias_to_prior",
    "head_from": "init_head_from",
    "also_score": "evaluate_only",
    "least": "min",
    "largest": "max",
}
"""Keys by the names that earlier versions gave them, and their names now."""


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

    @model_validator(mode="before")
    @classmethod
    def _has_no_unknown_key(cls, values: Any) -> Any:
        for key in values if isinstance(values, dict) else ():
            if key not in cls.model_fields:
                near, known = did_you_mean(key, cls.model_fields), ", ".join(cls.model_fields)
                said = f".{near} Known: {known or 'none'}"
                if (now := RENAMED.get(key)) in cls.model_fields:
                    said = f": it is called '{now}' now"
                raise PydanticCustomError("unknown_key", "{said}", {"key": str(key), "said": said})
        return values


Probability = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Count = Annotated[StrictInt, Field(ge=1)]


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Refuse what is named twice."""
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"{value!r} is there twice; name each once")
    return values


Distinct = AfterValidator(_distinct)
OneOrMore = BeforeValidator(to_list, json_schema_input_type=str | tuple[str, ...])
Names = Annotated[tuple[str, ...], Distinct, OneOrMore]


def one_of(names: Collection[str]) -> GetPydanticSchema:
    """Annotate a string that is one of `names`, such as those of the parts of a kind."""
    return GetPydanticSchema(lambda *_: core_schema.literal_schema(sorted(names)))


URLS = ("http://", "https://", "file://")
Text = Annotated[str, Field(min_length=1)]
Location = Annotated[Text, AfterValidator(expanduser)]  # a path, or the URL of a file
