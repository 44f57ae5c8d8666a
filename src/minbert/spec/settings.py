"""Settings of a stage by dotted path: which there are, how they are set, how values are spelt."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from minbert.base.errors import UserError, nearest
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS
from minbert.spec.yaml import merge, nested


def unknown_keys(values: Any, path: str = "", annotation: Any = StageSpec) -> Iterator[str]:
    """Yield a message for each key of nested `values` that `annotation` lacks or has deeper."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        inner = {name: f.annotation for name, f in annotation.model_fields.items()}
    elif get_origin(annotation) is dict:
        inner = dict.fromkeys([*TASKS, "*"], get_args(annotation)[1])
    else:
        return
    if not isinstance(values, Mapping | None):
        yield f"'{path[:-1]}' is {values!r}; expected a mapping ('key: value' lines)"
        return
    for key, value in (values or {}).items():
        if key in inner:
            yield from unknown_keys(value, f"{path}{key}.", inner[key])
        else:
            yield f"unknown key '{path}{key}'.{nearest(key, inner)} Known here: {', '.join(inner)}"


def with_setting(values: dict[str, Any], path: str, value: Any, where: str) -> dict[str, Any]:
    """Return `values` with the key at a dotted path set; `stages.NAME.KEY` reaches one stage.

    A variant without `stages` is one, `main`. `where` names the grid, the variant and the key that
    sets it.
    """
    first, _, rest = path.partition(".")
    if first != "stages":
        return merge(values, nested(path, value))
    name, _, key = rest.partition(".")
    stages = values.get("stages") or [{"name": "main"}]
    known = [stage["name"] for stage in stages]
    if name not in known:
        raise UserError(
            f"{where}.{path}': there is no stage '{name}'.{nearest(name, known)} "
            f"Known: {', '.join(known)}"
        )
    for problem in unknown_keys(nested(key, value)):
        raise UserError(f"{where}.{path}': {problem}")
    changed = [merge(s, nested(key, value)) if s["name"] == name else s for s in stages]
    return {**values, "stages": changed}


def spelt(value: Any) -> str:
    """Return how a value is spelt in a variant's name: 1e-4 and 0.0001 are both `1e-4`."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and math.isfinite(value):
        mantissa, _, exponent = f"{value:e}".partition("e")
        small = f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
        return small if abs(value) < 1e-3 and value else f"{value:g}"
    if isinstance(value, list):
        return "-".join(spelt(each) for each in value)
    return str(value)
