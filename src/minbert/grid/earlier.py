"""What was planned under a results root before, by the descriptions in `store/spec`."""

from __future__ import annotations

import filecmp
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from minbert.common.files import read_json
from minbert.grid.code import differs
from minbert.grid.node import SEEDED, Node, digest, finished
from minbert.grid.plan import Plan
from minbert.grid.spec import StageSpec

Described = dict[str, Any]


class Difference(NamedTuple):
    """What of a node is not as it was, in words: its settings, its code, what it is made from."""

    spec: list[str]
    code: list[str]
    needs: list[str]

    def __str__(self) -> str:
        return "; ".join([*self.spec, *self.code, *self.needs])


class Earlier:
    """The descriptions of all nodes that were ever planned, those of `plan` among them."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._meanings: dict[tuple[str, str], str] = {}

    @cached_property
    def described(self) -> dict[tuple[str, str], Described]:
        """Every description by kind and key."""
        paths = sorted((self.plan.root / "store" / "spec").glob("*.json"))
        found = {(d["kind"], d["key"]): d for d in map(read_json, paths)}
        return found | {at: node.describe() for at, node in self.plan.nodes.items()}

    def finished(self, described: Described) -> dict[int | None, Path]:
        """Return {seed: folder} of a node's finished results; a kind without seeds has None."""
        folder = self.plan.root / "store" / described["kind"] / described["key"]
        folders: dict[int | None, Path] = {None: folder}
        if described["kind"] in SEEDED:
            parts = folder.glob("seed*")
            folders = {int(p.name[4:]): p for p in parts if p.name[4:].isdecimal()}
        return {
            seed: path
            for seed, path in sorted(folders.items(), key=lambda item: item[0] or 0)
            if finished(described["kind"], described["spec"], path)
        }

    def latest(self, node: Node) -> Described | None:
        """Return the description of the latest finished node that was what `node` is now.

        A training job is the same by paper, variant and stage, cached features by what they are
        of, all else by its title.
        """
        candidates = []
        role = self._role(self._planned(node))
        for (kind, key), described in self.described.items():
            if kind != node.kind or (kind, key) in self.plan.nodes:
                continue
            if self._role(described) != role:
                continue
            times = [path.stat().st_mtime for path in self.finished(described).values()]
            if times:
                candidates.append((max(times), key, described))
        return max(candidates, key=lambda each: each[:2])[2] if candidates else None

    def _planned(self, node: Node) -> Described:
        return node.describe() | self.plan.looks(node)

    @staticmethod
    def _role(described: Described) -> Any:
        if described["kind"] == "features":
            return described["spec"]
        return described.get("owner") or described.get("title")

    def meaning(self, described: Described) -> str:
        """Return a hash of what a node is, whatever code makes it and what it is made from.

        Settings that a spec did not have yet count as their defaults. Downloads do not count: the
        specs of what needs them hold their checksums.
        """
        at = described["kind"], described["key"]
        if at not in self._meanings:
            needs = {
                name: [self._meaning_of(need), need["file"], need["seed"]]
                for name, need in described["needs"].items()
                if need["kind"] != "fetch"
            }
            self._meanings[at] = digest([described["kind"], _settings(described), needs])
        return self._meanings[at]

    def _meaning_of(self, need: Described) -> str:
        at = need["kind"], need["key"]
        return self.meaning(self.described[at]) if at in self.described else f"unknown {at}"

    def changed_modules(self, old: Described, new: Described) -> set[str]:
        """Return the modules that differ between two nodes and, name by name, all they need.

        Whatever code made a file, only its bytes are needed: those of a need whose new file is
        there, and equal to the old one, do not count.
        """
        found = set(differs(old["code"], new["code"]))
        for _, was, need in self._new_needs(old, new):
            if not self._equal(was, need):
                pair = [self.described[each["kind"], each["key"]] for each in (was, need)]
                found |= self.changed_modules(*pair)
        return found

    def made_otherwise(self, old: Described, new: Described) -> set[str]:
        """Return the needed files, at any depth, that were made anew and have other bytes now."""
        found = set()
        for name, was, need in self._new_needs(old, new):
            equal = self._equal(was, need)
            if equal is False:
                found.add(name)
            if equal is None:
                pair = [self.described[each["kind"], each["key"]] for each in (was, need)]
                found |= self.made_otherwise(*pair)
        return found

    @staticmethod
    def _new_needs(old: Described, new: Described) -> Iterator[tuple[str, Described, Described]]:
        """Yield (name, old need, new need) where the two are of different keys."""
        for name, need in new["needs"].items():
            was = old["needs"].get(name)
            if was and was["key"] != need["key"] and need["kind"] != "fetch":
                yield name, was, need

    def _equal(self, one: Described, other: Described) -> bool | None:
        """Whether the files of two needs have the same bytes; None unless both are there.

        None, too, for what depends on a seed.
        """
        store = self.plan.root / "store"
        old, new = (store / each["kind"] / each["key"] / each["file"] for each in (one, other))
        if one["kind"] in SEEDED or not (old.exists() and new.exists()):
            return None
        return filecmp.cmp(old, new, shallow=False)


def difference(old: Described, new: Node) -> Difference:
    """Return what makes the key of `new` another than that of `old`."""
    was = {name: need["key"] for name, need in old["needs"].items()}
    now = {name: need.node.key for name, need in new.needs.items()}
    return Difference(
        _changes(old["spec"], new.spec),
        [
            f"code of {name} changed ({_short(old['code'], name)} -> {_short(new.code, name)})"
            for name in differs(old["code"], new.code)
        ],
        [
            f"{name} is another ({_short(was, name)} -> {_short(now, name)})"
            for name in sorted({*was, *now})
            if was.get(name) != now.get(name)
        ],
    )


def _short(values: Mapping[str, str], name: str) -> str:
    return str(values.get(name, "none"))[:6]


def _changes(old: Any, new: Any, path: str = "") -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            line
            for name in sorted({*old, *new})
            for line in _changes(old.get(name), new.get(name), f"{path}.{name}" if path else name)
        ]
    # A tuple that was written as JSON comes back as a list.
    as_written = list(new) if isinstance(new, tuple) else new
    return [] if old == as_written else [f"{path.removeprefix('stage.')}: {old} -> {as_written}"]


def _settings(described: Described) -> Any:
    """Return a node's spec without the versions it asks for, and with defaults filled in."""
    spec = {name: value for name, value in described["spec"].items() if name != "dependencies"}
    if described["kind"] == "train":
        try:
            stage = StageSpec.model_validate(spec["stage"])
        except ValidationError:
            return spec  # of a package that knew other settings
        spec["stage"] = stage.model_dump(mode="json")
    return spec
