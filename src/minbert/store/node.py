"""Nodes: everything the pipeline makes, of a kind, named by a hash of what it is made from."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from minbert.store.code import NOT_HASHED, SHOWN_NOT_HASHED, code_modules
from minbert.store.job import node_folder


@dataclass(frozen=True)
class Kind:
    """A kind of job.

    `outputs` are the files that a node leaves in its folder; a `fetch` leaves the file it names.
    A finished node may lack those that are `deletable` until they are needed: weights, which may be
    deleted, and texts and the backbone, which no bundle has.
    `computes`: it runs on a GPU if there is one. `shown`: it is read by people, takes seconds, and
    is made again rather than carried over by `minbert adopt`.
    Trainings alone depend on a seed, and are in `KEY/seedN/`.
    """

    outputs: tuple[str, ...] = ()
    deletable: tuple[str, ...] = ()
    computes: bool = False
    shown: bool = False

    @cached_property
    def required_outputs(self) -> tuple[str, ...]:
        """The outputs without which a node is not finished."""
        return tuple(name for name in self.outputs if name not in self.deletable)


# In the order in which they depend on each other.
KINDS = {
    "fetch": Kind(),
    "data": Kind(
        ("examples.parquet", "rejected.csv", "report.json"), ("examples.parquet", "rejected.csv")
    ),
    "labels": Kind(("labels.parquet", "labels.json")),
    "rows": Kind(("rows.parquet",)),
    "backbone": Kind(
        ("model.safetensors", "config.json", "tokenizer.json"),
        ("model.safetensors", "tokenizer.json"),
    ),
    "tokens": Kind(("tokens.parquet",)),
    "features": Kind(("features.safetensors",), computes=True),
    "train": Kind(
        ("model.safetensors", "history.parquet", "predictions.parquet", "run.json"),
        ("model.safetensors",),
        computes=True,
    ),
    "tuning": Kind(("tuning.csv", "tuning.md"), shown=True),
    "scores": Kind(("scores.parquet",), shown=True),
    "table": Kind(("table.csv", "table.md", "table.tex"), shown=True),
    "index": Kind(("index.csv", "index.md"), shown=True),
    "claims": Kind(("claims.csv", "claims.md", "claims.tex"), shown=True),
    "figure": Kind(("figure.pdf", "figure.png"), shown=True),
    "report": Kind(("report.html",), shown=True),
}


def canonical(value: Any) -> str:
    """Return `value` as JSON that is the same however its keys were ordered."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: Any) -> str:
    """Return the first 16 hex digits of the SHA-256 of `canonical(value)`."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class Need:
    """A needed file of a node, by default of the same seed as the node that needs it."""

    node: "Node"
    file: str
    seed: int | None = None

    def describe(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
        return {"kind": self.node.kind, "key": self.node.key, "file": self.file, "seed": self.seed}


@dataclass(frozen=True, eq=False)
class Node:
    """One thing to make. `spec` decides the result; `extra` (labels, paths, devices) does not.

    `maker` is the module whose function `make(job)` makes it, `parts` are modules that it loads by
    name. The key covers their code and all that they import, except for downloads, whose spec
    holds a checksum.
    """

    kind: str
    spec: Mapping[str, Any]
    maker: str
    parts: tuple[str, ...] = ()
    needs: Mapping[str, Need] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def code(self) -> dict[str, str]:
        """The digest of each module that makes it."""
        return node_code(self.kind, self.maker, self.parts)

    @property
    def key(self) -> str:
        """The node's identity."""
        return str(self.describe()["key"])

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the files it leaves."""
        return (self.spec["name"],) if self.kind == "fetch" else KINDS[self.kind].outputs

    def folder(self, root: Path, seed: int | None = None) -> Path:
        """Return the folder of its files under the results root."""
        return node_folder(root, self.kind, self.key, seed)

    def done(self, root: Path, seed: int | None = None) -> bool:
        """Whether its required files are there."""
        return finished(self.kind, self.folder(root, seed))

    @cache  # noqa: B019 - a process has few of these
    def describe(self) -> dict[str, Any]:
        """Return what the node is, as JSON-able data: the same for all nodes of its key."""
        described = {
            "kind": self.kind,
            "spec": self.spec,
            "code": self.code,
            "maker": self.maker,
            "parts": self.parts,
            "needs": {name: need.describe() for name, need in self.needs.items()},
        }
        return {"key": key_of(described), **described}


def key_of(described: Mapping[str, Any]) -> str:
    """Return the key of a description: a hash of kind, spec, code and needs, without downloads."""
    needs = {
        name: [need["key"], need["file"], need["seed"]]
        for name, need in described["needs"].items()
        if need["kind"] != "fetch"
    }
    return digest([described["kind"], described["spec"], described["code"], needs])


def node_code(kind: str, maker: str, parts: Iterable[str]) -> dict[str, str]:
    """Return the digest of each module that makes a node of this kind, by name."""
    if kind == "fetch":
        return {}
    roots = (maker, *parts, "minbert.store.job")
    return code_modules(roots, SHOWN_NOT_HASHED if KINDS[kind].shown else NOT_HASHED)


def seed_folders(folder: Path) -> dict[int, Path]:
    """Return {seed: folder} of the seeds in a node's folder, in ascending order."""
    found = {path.name.removeprefix("seed"): path for path in folder.glob("seed*")}
    return dict(sorted((int(seed), path) for seed, path in found.items() if seed.isdecimal()))


def finished(kind: str, folder: Path) -> bool:
    """Whether `folder` holds the required files of such a node."""
    return all((folder / name).exists() for name in KINDS[kind].required_outputs)
