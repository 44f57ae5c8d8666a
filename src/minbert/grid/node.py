"""Nodes: everything the pipeline makes, named by a hash of what it is made from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from minbert.common.errors import UserError
from minbert.common.files import read_json
from minbert.grid.code import code_modules

OUTPUTS: dict[str, tuple[str, ...]] = {
    "data": ("examples.parquet", "rejected.csv", "report.json"),
    "vocabulary": ("tokenizer.json",),
    "backbone": ("model.safetensors", "config.json", "tokenizer.json"),
    "tokens": ("tokens.parquet",),
    "features": ("features.safetensors",),
    "train": ("model.safetensors", "history.parquet", "predictions.parquet", "run.json"),
    "scores": ("scores.parquet",),
    "table": ("table.csv", "table.md", "table.tex"),
    "index": ("index.csv", "index.md"),
    "claims": ("claims.csv", "claims.md", "claims.tex"),
    "figure": ("figure.pdf", "figure.png"),
    "report": ("report.html",),
}
"""The files that a node of each kind leaves in its folder; `fetch` leaves the file it names."""

SEEDED = ("train",)
"""Kinds whose results depend on a seed, and lie in `KEY/seedN/`."""

KEY_DIGITS = 16


def canonical(value: Any) -> str:
    """Return `value` as JSON that is the same however its keys were ordered."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: Any) -> str:
    """Return the first 16 hex digits of the SHA-256 of `canonical(value)`."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:KEY_DIGITS]


@dataclass(frozen=True, eq=False)
class Need:
    """One file of another node. `seed` None with a seeded node means the seed of the one in need.

    `counts` is False where the file's content is already part of the spec (a download whose
    checksum the spec holds): where it came from then changes no key.
    """

    node: Node
    file: str
    seed: int | None = None
    counts: bool = True

    def path(self, root: Path, seed: int | None) -> Path:
        """Return where the file lies under the results root."""
        return self.node.folder(root, self.of(seed)) / self.file

    def of(self, seed: int | None) -> int | None:
        """Return the seed of the needed node, for one of `seed` that needs it."""
        if self.node.kind not in SEEDED:
            return None
        return seed if self.seed is None else self.seed


@dataclass(frozen=True, eq=False)
class Node:
    """One thing to make. `spec` decides the result; `extra` (labels, paths, devices) does not.

    `roots` are the modules whose code, with all they import, makes it.
    """

    kind: str
    spec: Mapping[str, Any]
    roots: tuple[str, ...]
    needs: Mapping[str, Need] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def code(self) -> dict[str, str]:
        """The digest of each module in the closure of `roots`."""
        return code_modules(self.roots)

    @cached_property
    def key(self) -> str:
        """The node's identity: 16 hex digits of a hash of kind, spec, code and needs."""
        needs = {
            name: [need.node.key, need.file, need.seed]
            for name, need in self.needs.items()
            if need.counts
        }
        return digest([self.kind, self.spec, self.code, needs])

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the files it leaves."""
        return outputs(self.kind, self.spec)

    @property
    def lasting(self) -> tuple[str, ...]:
        """The files that a finished node has for good: weights of a training may be let go."""
        return lasting(self.kind, self.spec)

    def folder(self, root: Path, seed: int | None = None) -> Path:
        """Return the folder of its files under the results root."""
        return node_folder(root, self.kind, self.key, seed)

    def done(self, root: Path, seed: int | None = None) -> bool:
        """Whether all files that others may need (weights may have been let go) are there."""
        return finished(self.kind, self.spec, self.folder(root, seed))

    def describe(self) -> dict[str, Any]:
        """Return what a job reads before it starts, as JSON-able data."""
        return {
            "kind": self.kind,
            "key": self.key,
            "spec": self.spec,
            "code": self.code,
            "roots": self.roots,
            "needs": {
                name: {"kind": n.node.kind, "key": n.node.key, "file": n.file, "seed": n.seed}
                for name, n in self.needs.items()
            },
            "extra": self.extra,
        }


def node_folder(root: Path, kind: str, key: str, seed: int | None = None) -> Path:
    """Return the folder of a node's files under the results root."""
    folder = root / "store" / kind / key
    if kind not in SEEDED:
        return folder
    if seed is None:
        raise ValueError(f"a {kind} node has a folder for each seed; no seed was given")
    return folder / f"seed{seed}"


def outputs(kind: str, spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the files that a node of this kind and spec leaves."""
    return (spec["name"],) if kind == "fetch" else OUTPUTS[kind]


def lasting(kind: str, spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Return those of them that it has for good: weights of a training may be let go."""
    return tuple(f for f in outputs(kind, spec) if (kind, f) != ("train", "model.safetensors"))


def finished(kind: str, spec: Mapping[str, Any], folder: Path) -> bool:
    """Whether `folder` holds all that such a node leaves for good."""
    return all((folder / name).exists() for name in lasting(kind, spec))


def published_path(root: Path, stamp: str) -> Path:
    """Return the file that lists what is published under `stamp` (`Plan.write`)."""
    return root / "store" / "published" / f"{stamp}.json"


def read_listing(root: Path, stamp: str) -> dict[str, Any]:
    """Return the list of what is published under `stamp`.

    Raises `UserError` for a stamp that was never planned.
    """
    path = published_path(root, stamp)
    if not path.exists():
        raise UserError(
            f"nothing was planned under {root} with the stamp '{stamp}' ({path} is missing); "
            "`snakemake -n all` plans, and the files beside it bear the stamps"
        )
    return dict(read_json(path))


def description_path(root: Path, kind: str, key: str) -> Path:
    """Return where a node's description lies under the results root."""
    return root / "store" / "spec" / f"{kind}-{key}.json"
