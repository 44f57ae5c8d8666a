"""What makes the key of a node another than that of an earlier one: in a few words, or in full."""

import json
from collections.abc import Iterable, Iterator, Mapping
from textwrap import shorten
from typing import Any, NamedTuple

from minbert.store.code import PACKAGE
from minbert.store.node import canonical

Described = dict[str, Any]
Pair = tuple[Any, Any]

LIMIT = 100
"""The most characters of a difference in a few words."""

VALUE = 60
"""The most characters of an old and a new value among these words."""

ROWS = {"tuning": "rows", "scores": "runs", "table": "rows", "index": "published",
        "claims": "claims", "report": "stages", "figure": "draw.variants"}  # fmt: skip
"""Where the spec of each kind that is shown has its rows."""

ROW = ("paper", "variant", "stage", "table", "row", "split", "section", "text", "task")
"""What tells rows apart; one has several entries if it has several seeds."""


class Difference(NamedTuple):
    """What differs, as {name: (old, new)}: settings, digests of modules, keys of what is needed.

    `rows` says how many of the rows that a product shows are new, gone and changed, in words.
    """

    spec: dict[str, Pair]
    code: dict[str, Pair]
    needs: dict[str, Pair]
    rows: str = ""

    def in_full(self) -> list[str]:
        """Return every difference."""
        code, needs = (
            {name: f"({str(old)[:6]} -> {str(new)[:6]})" for name, (old, new) in pairs.items()}
            for pairs in (self.code, self.needs)
        )
        return [
            *(f"{name}: {_arrow(*pair)}" for name, pair in self.spec.items()),
            *(f"code of {name} changed {digests}" for name, digests in code.items()),
            *(f"{name} is another {keys}" for name, keys in needs.items()),
        ]

    def __str__(self) -> str:
        """Return the differences in a few words."""
        return shorten("; ".join(self._words()), LIMIT, placeholder=" ...")

    def _words(self) -> Iterator[str]:
        spec, needs = self.spec, list(self.needs)
        if self.rows:  # Files and facts of new rows say nothing more.
            yield f"rows: {self.rows}"
            needs = [name for name, pair in self.needs.items() if all(pair)]
            spec = {n: pair for n, pair in spec.items() if not n.startswith(_OF_ROWS)}
        changes = [change(name, *pair) for name, pair in spec.items()]
        if len(" ".join(changes)) <= VALUE or len(changes) == 1:
            yield from changes
        else:
            yield f"{len(changes)} settings changed: {some(spec)}"
        modules = [name.removeprefix(f"{PACKAGE}.") for name in self.code]
        if modules:
            several = f"{len(modules)} modules changed: {some(modules)}"
            yield f"code of {several}" if modules[1:] else f"code of {modules[0]} changed"
        if needs:
            several = f"{len(needs)} inputs changed: {some(needs)}"
            yield several if needs[1:] else f"{needs[0]} is another"


_OF_ROWS = (*ROWS.values(), "facts.")


def difference(old: Described, new: Described) -> Difference:
    """Return what makes the key of `new` another than that of `old`."""
    spec = json.loads(canonical(new["spec"]))
    path = ROWS.get(new["kind"], "")
    was, now = ({name: of["key"] for name, of in each["needs"].items()} for each in (old, new))
    return Difference(
        dict(changes(old["spec"], spec)),
        _pairs(old["code"], new["code"]),
        _pairs(was, now),
        _counted(_rows(old["spec"], path), _rows(spec, path)),
    )


def _pairs(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Pair]:
    """Return (old, new) by name where the two differ."""
    found = {name: (old.get(name), new.get(name)) for name in sorted({*old, *new})}
    return {name: pair for name, pair in found.items() if pair[0] != pair[1]}


def changes(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Pair]]:
    """Yield (name, (old, new)) of each value that differs; names have dots."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name, pair in _pairs(old, new).items():
            yield from changes(*pair, f"{path}.{name}" if path else name)
    else:
        yield path.removeprefix("stage."), (old, new)


def _rows(spec: Any, path: str) -> dict[str, Any]:
    """Return the rows of a product by what tells them apart."""
    for name in filter(None, path.split(".")):
        spec = spec.get(name) if isinstance(spec, dict) else None
    if not isinstance(spec, list):
        return spec if isinstance(spec, dict) and path else {}
    found: dict[str, Any] = {}
    for row in spec:
        found.setdefault(canonical([row.get(name) for name in ROW]), []).append(row)
    return found


def _counted(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    counts = {
        "new": len(new.keys() - old.keys()),
        "gone": len(old.keys() - new.keys()),
        "changed": sum(old[name] != new[name] for name in old.keys() & new.keys()),
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def change(name: str, old: Any, new: Any) -> str:
    """Return the change of a setting; of a long value that it is new, gone or another."""
    if len(values := _arrow(old, new)) > VALUE:
        values = "new" if old is None else "gone" if new is None else "changed"
    return f"{name}: {values}"


def _arrow(old: Any, new: Any) -> str:
    """Return both values, as YAML says that there is none."""
    return " -> ".join("null" if value is None else str(value) for value in (old, new))


def some(names: Iterable[str]) -> str:
    """Return the first names, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - 3} more" if listed[3:] else ""
    return ", ".join(listed[:3]) + more
