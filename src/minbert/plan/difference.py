"""How two nodes or settings differ."""

from collections.abc import Iterator, Mapping
from typing import Any

Changes = dict[str, tuple[Any, Any]]
LONGEST = 30
"""The most characters of an old and a new value that are shown."""


def facts(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that decides a node's key: settings, then code and inputs."""
    code = {f"code of {name.removeprefix('minbert.')}": o for name, o in described["code"].items()}
    needs = {f"input {name}": need["key"] for name, need in described["needs"].items()}
    return described["spec"] | code | needs


def changes(old: Any, new: Any, name: str = "") -> Changes:
    """Return {name: (old, new)} of what differs; names of nested settings have dots."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return {name: (old, new)} if old != new else {}
    found: Changes = {}
    for key in dict.fromkeys((*old, *new)):
        found |= changes(old.get(key), new.get(key), f"{name}.{key}" if name else key)
    return found


def shown(found: Changes) -> Iterator[str]:
    """Yield the changes in words, as of YAML; of values that are long, that they changed."""
    for name, pair in found.items():
        old, new = ("null" if value is None else str(value) for value in pair)
        said = "{}: {} -> {}" if len(old) + len(new) <= LONGEST else "{} changed"
        yield said.format(name.removeprefix("stage."), old, new)
