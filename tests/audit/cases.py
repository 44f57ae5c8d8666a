"""Edits by hand, of code that once decided results and was in no digest (issue 14)."""

from __future__ import annotations

import re
from pathlib import Path

from .mutate import Mutant, statement_at

CASES = {
    "labels above 1 are 1": (
        r"\bfound\.examples\.append\(example\)",
        "found.examples.append(example._replace(label=example.label and min(1.0, example.label)))",
    ),
    "train with seed + 1": (r"\n        job\.seed(?: or 0)?,\n", "\n        job.seed + 1,\n"),
    "features of 8 tokens": (r"\breader\(backbone, max_length,", "reader(backbone, 8,"),
    "adapters reversed": (r"key=lambda named: int\(", "key=lambda named: -int("),
    "a run is not scored": (r", of in variants\.items\(\):", ", of in [*variants.items()][1:]:"),
    "filters ignored": (r"in where\.items\(\):", "in ():"),
    "tasks in another order": (
        r"\bt for t in TASKS if t in self\.tasks\b",
        "t for t in reversed(list(TASKS)) if t in self.tasks",
    ),
    "every seed is read as the first": (r'need\["key"\], seed\)', 'need["key"], seed and 0)'),
}

CONTROL = "each stage trains three epochs, whatever its spec says"
"""An edit of what starts the makers, which is outside all digests: the audit must call it stale."""

EDITS = CASES | {
    CONTROL: (
        r"\n    return maker\.make\(",
        '\n    job.spec.get("stage", {}).update(epochs=3)\n    return maker.make(',
    )
}


def by_hand(source: Path, name: str) -> Mutant:
    """Return an edit of the package in `source`; its place must be there once."""
    pattern, new = EDITS[name]
    found = []
    for path in sorted(source.rglob("*.py")):
        text = path.read_text("utf-8")
        found += [(path, text, match) for match in re.finditer(pattern, text)]
    if len(found) != 1:
        raise LookupError(f"{name}: {pattern!r} is in the package {len(found)} times, not once")
    ((path, text, match),) = found
    start = match.start() + len(match[0]) - len(match[0].lstrip())
    line = statement_at(text, text.count("\n", 0, start) + 1)
    diff = f"-{match[0].strip()}\n+{match.expand(new).strip()}"
    edited = text[: match.start()] + match.expand(new) + text[match.end() :]
    return Mutant(path.relative_to(source).as_posix(), line, name, diff, edited)
