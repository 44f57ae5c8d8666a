"""How two nodes differ: in settings, in code, in what they are made from."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from minbert.store.code import PACKAGE
from minbert.store.node import canonical

Described = dict[str, Any]
Pair = tuple[Any, Any]

VALUE = 60
"""The most characters of an old and a new value in a few words."""


class Difference(NamedTuple):
    """What differs, as {name: (old, new)}: settings, digests of modules, keys of what is needed."""

    spec: dict[str, Pair]
    code: dict[str, Pair]
    needs: dict[str, Pair]

    def __str__(self) -> str:
        """Return the differences in a few words."""
        values = [change(name, *pair) for name, pair in self.spec.items()]
        return some([*values, *(f"{name} changed" for name in self._others)])

    def lines(self) -> Iterator[str]:
        """Yield every difference with both values: of code a part of the digest, of inputs keys."""
        for name, (old, new) in (self.spec | self._others).items():
            yield f"{name}: {_value(old)} -> {_value(new)}"

    @property
    def _others(self) -> dict[str, Pair]:
        code = {
            f"code of {name.removeprefix(f'{PACKAGE}.')}": (old and old[:8], new and new[:8])
            for name, (old, new) in self.code.items()
        }
        return code | {f"input {name}": pair for name, pair in self.needs.items()}


def difference(old: Described, new: Described) -> Difference:
    """Return what makes the key of `new` another than that of `old`."""
    new = json.loads(canonical(new))  # as it was written of the old one
    was, now = ({name: of["key"] for name, of in each["needs"].items()} for each in (old, new))
    spec = dict(changes(old["spec"], new["spec"]))
    return Difference(spec, _pairs(old["code"], new["code"]), _pairs(was, now))


def changes(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Pair]]:
    """Yield (name, (old, new)) of each value that differs; names have dots."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name, pair in _pairs(old, new).items():
            yield from changes(*pair, f"{path}.{name}" if path else name)
    elif old != new:
        yield path.removeprefix("stage."), (old, new)


def _pairs(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Pair]:
    """Return (old, new) by name where the two differ."""
    found = {name: (old.get(name), new.get(name)) for name in sorted({*old, *new})}
    return {name: pair for name, pair in found.items() if pair[0] != pair[1]}


def change(name: str, old: Any, new: Any) -> str:
    """Return the change of a setting; of a long value that it is new, gone or another."""
    values = f"{_value(old)} -> {_value(new)}"
    if len(values) > VALUE:
        values = "new" if old is None else "gone" if new is None else "changed"
    return f"{name}: {values}"


def _value(value: Any) -> str:
    return "null" if value is None else str(value)  # as YAML says that there is none


def some(names: Iterable[str]) -> str:
    """Return the first names, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - 3} more" if listed[3:] else ""
    return ", ".join(listed[:3]) + more
