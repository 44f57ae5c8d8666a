"""The settings that `tune` of a variant tries: each is trained like a variant of its own."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from minbert.base.errors import UserError, nearest
from minbert.spec.settings import spelt, unknown_keys, with_setting
from minbert.spec.yaml import merge, nested

MAX_TRIED = 100

COMPARED_BY = ("tasks", "select_on")
"""Keys that decide what the settings are compared by, so that they are not tried."""


class Trial(NamedTuple):
    """One combination: its word in names (`lr-1e-5`), in words (`lr 1e-5`), and all its keys."""

    word: str
    said: str
    values: dict[str, Any]


def trials(values: Mapping[str, Any], where: str) -> list[Trial]:
    """Return each combination of the values that `tune`, among a variant's `values`, lists.

    A half of dev chooses among them, so it chooses their epochs too, unless the variant says
    otherwise. `where` names grid and variant in errors.
    """
    tune = values["tune"]
    own = {key: value for key, value in values.items() if key != "tune"}
    if not isinstance(tune, Mapping) or not tune:
        raise UserError(
            f"{where}: 'tune' is {tune!r}; expected a mapping of keys, such as 'optimiser.lr', to "
            "lists of values"
        )
    for path, choices in tune.items():
        for problem in _problems(path, choices, own):
            raise UserError(f"{where}: 'tune.{path}': {problem}")
    if (count := math.prod(map(len, tune.values()))) > MAX_TRIED:
        sizes = " x ".join(str(len(choices)) for choices in tune.values())
        raise UserError(
            f"{where}: 'tune' makes {count:,} combinations ({sizes}); at most {MAX_TRIED}"
        )
    names = _short(list(tune))
    found: dict[str, Trial] = {}
    for combination in itertools.product(*tune.values()):
        changed = merge({"select_on": "half"}, own)
        for path, value in zip(tune, combination, strict=True):
            changed = with_setting(changed, path, value, f"{where}: 'tune")
        pairs = [(name, spelt(value)) for name, value in zip(names, combination, strict=True)]
        word = ".".join(_in_a_name(f"{name}-{value}") for name, value in pairs)
        if word in found:
            raise UserError(f"{where}: 'tune': two combinations would be called '{word}'")
        said = ", ".join(f"{name} {value}" for name, value in pairs)
        found[word] = Trial(word, said, changed)
    return list(found.values())


def _problems(path: str, choices: Any, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the values that are listed for a dotted path."""
    first, _, rest = path.partition(".")
    key = rest.partition(".")[2] if first == "stages" else path
    if key in COMPARED_BY:
        yield "decides what settings are compared by; it cannot be tuned"
    if re.fullmatch(r"tasks\.\w+", key) and isinstance(choices, list) and None in choices:
        yield "null takes the task out, and settings are compared by the same tasks; leave it out"
    for choice in choices if isinstance(choices, list) and first != "stages" else ():
        yield from unknown_keys(nested(path, choice))
    task, has = rest.partition(".")[0], values.get("tasks") or {}
    if first == "tasks" and task not in ("", "*", *has):
        own = [name for name in has if name != "*"]
        yield f"the variant has no task '{task}'.{nearest(task, own)} It has {', '.join(own)}"
    if not isinstance(choices, list) or len(choices) < 2:
        yield f"is {choices!r}; expected a list of two values or more"
        return
    for number, choice in enumerate(choices):
        if choice in choices[:number]:
            yield f"{spelt(choice)} is there twice; name each value once"


def _short(paths: Sequence[str]) -> list[str]:
    """Return the last words of dotted paths, as many as tell them apart."""
    for count in itertools.count(1):
        found = [".".join(path.split(".")[-count:]) for path in paths]
        if len({*found}) == len(found):
            return found
    raise AssertionError


def _in_a_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")
