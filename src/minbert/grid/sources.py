"""The first nodes of the graph: raw files, data sets, backbones, tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from minbert.common.errors import UserError, nearest
from minbert.common.files import read_json
from minbert.data.course import course_files, in_folder
from minbert.data.hub import FILES
from minbert.data.identity import DigestCache
from minbert.data.lmrd import LMRD_PIN, LMRD_URL
from minbert.grid.architecture import KNOWN, Architecture, from_hugging_face
from minbert.grid.config import Config, explain
from minbert.grid.node import Need, Node
from minbert.grid.spec import StageSpec
from minbert.grid.tasks import task_facts

PRETRAINING_ITEMS = 24_000
"""Texts that the built-in vocabulary is learnt from."""


class Sources:
    """Makes the nodes of data sets and backbone that a configuration names, each once."""

    def __init__(self, config: Config, root: Path) -> None:
        self.config = config
        self.cache = DigestCache(root / "store" / "digests.json")
        self._data: dict[str, Node] = {}
        self._tokens: dict[str, Node] = {}
        self.backbone, self.architecture = self._backbone()

    def data(self, task: str) -> Node:
        """Return the node of `task`'s example table."""
        if task not in self._data:
            self._data[task] = self._make_data(task)
        return self._data[task]

    def tokens(self, task: str) -> Node:
        """Return the node of `task`'s tokens."""
        if task not in self._tokens:
            self._tokens[task] = Node(
                "tokens",
                {},
                ("minbert.data.tokenise",),
                {
                    "examples": Need(self.data(task), "examples.parquet"),
                    "tokenizer": Need(self.backbone, "tokenizer.json"),
                },
                {"task": task},
            )
        return self._tokens[task]

    def features(self, task: str, spec: StageSpec) -> Node:
        """Return the node of `task`'s frozen features, as `spec` pools and pairs them."""
        chosen = spec.tasks[task]
        how = {
            "task": task,
            "pooling": chosen.pooling,
            "pairing": chosen.pairing,
            "max_length": spec.max_length,
        }
        return Node(
            "features",
            how,
            ("minbert.train.features", *_pooling_root(spec, task)),
            {
                "tokens": Need(self.tokens(task), "tokens.parquet"),
                "weights": Need(self.backbone, "model.safetensors"),
                "config": Need(self.backbone, "config.json"),
                "tokenizer": Need(self.backbone, "tokenizer.json"),
            },
            {"device": self.config.device},
        )

    def _make_data(self, task: str) -> Node:
        if self.config.data == "builtin":
            return self._builtin_data(task)
        return self._lmrd() if task == "lmrd" else self._course(task)

    def _builtin_data(self, task: str) -> Node:
        sizes = (self.config.corpus.sizes or {}).get(task)
        spec = {
            "source": "builtin",
            "task": task,
            "facts": task_facts(task),
            "seed": self.config.corpus.seed,
            "sizes": sizes.model_dump() if sizes else None,
        }
        return Node("data", spec, ("minbert.data.corpus", "minbert.data.report"))

    def _course(self, task: str) -> Node:
        roots = ("minbert.data.course", "minbert.data.report")
        shown = {"source": "course", "task": task, "facts": task_facts(task)}
        source = self.config.course
        if _is_url(source):
            fetches = {
                split: _fetch(f"{source.rstrip('/')}/{name}", f"git:{_bare(pin)}")
                for split, (name, pin) in course_files(task).items()
            }
            spec = {split: node.spec["checksum"] for split, node in fetches.items()}
            needs = {s: Need(n, n.spec["name"], counts=False) for s, n in fetches.items()}
            return Node("data", {**shown, "files": spec}, roots, needs)
        paths = in_folder(task, Path(source))
        found = {s: f"git:{self.cache.digest(p, 'git_blob')}" for s, p in paths.items()}
        extra = {"paths": {split: str(path.absolute()) for split, path in paths.items()}}
        return Node("data", {**shown, "files": found}, roots, extra=extra)

    def _lmrd(self) -> Node:
        roots = ("minbert.data.lmrd", "minbert.data.report")
        source = self.config.lmrd
        spec = {"source": "lmrd", "task": "lmrd", "facts": task_facts("lmrd"), "files": LMRD_PIN}
        if _is_url(source):
            if source != LMRD_URL:
                raise UserError(
                    f"lmrd is {source!r}: only {LMRD_URL} has a known checksum. "
                    "Download the file yourself and give its path."
                )
            fetch = _fetch(source, LMRD_PIN)
            need = Need(fetch, fetch.spec["name"], counts=False)
            return Node("data", spec, roots, {"archive": need})
        path = Path(source).absolute()
        if path.is_dir():
            spec["files"] = f"tree:{self.cache.tree(path)}"
        elif path.is_file():
            spec["files"] = f"md5:{self.cache.digest(path, 'md5')}"
        else:
            raise UserError(f"lmrd is {source!r}, and there is no such file or folder")
        return Node("data", spec, roots, extra={"path": str(path)})

    def _backbone(self) -> tuple[Node, Architecture | None]:
        name = self.config.backbone
        if name == "builtin":
            return self._builtin_backbone()
        folder = Path(name)
        if folder.is_dir():
            files = [folder / f for f in FILES if (folder / f).is_file()]
            if not (folder / "config.json").is_file():
                raise UserError(f"backbone folder {folder} has no config.json")
            spec: dict[str, Any] = {"files": {p.name: self.cache.digest(p) for p in files}}
            extra = {"folder": str(folder.absolute())}
            shapes = _shapes(folder / "config.json")
            return Node("backbone", spec, ("minbert.model.weights",), extra=extra), shapes
        if name.startswith((".", "/", "~")) or name.count("/") > 1:
            raise UserError(
                f"backbone {name!r}: no such folder. Give a folder with a Hugging Face model, "
                "a hub name, or 'builtin'."
            )
        revision = self.config.revision or ""
        if len(revision) != 40 or not all(c in "0123456789abcdef" for c in revision):
            raise UserError(
                f"backbone {name!r} is a hub name: pin it by `revision`, a commit of 40 hex "
                f"digits (found {self.config.revision!r}), or give a folder.{nearest(name, KNOWN)}"
            )
        spec = {"hub": name, "revision": revision}
        return Node("backbone", spec, ("minbert.model.weights",)), KNOWN.get(name)

    def _builtin_backbone(self) -> tuple[Node, Architecture]:
        wish = self.config.pretraining
        seed = self.config.corpus.seed
        vocabulary = Node(
            "vocabulary",
            {"seed": seed, "size": wish.vocabulary, "items": PRETRAINING_ITEMS},
            ("minbert.data.corpus", "minbert.data.vocabulary"),
        )
        spec: dict[str, Any] = {"seed": seed, "pretraining": wish.model_dump()}
        node = Node(
            "backbone",
            spec,
            ("minbert.train.pretrain", "minbert.data.corpus"),
            {"tokenizer": Need(vocabulary, "tokenizer.json")},
            {"device": self.config.device},
        )
        return node, wish.architecture(wish.vocabulary)


def _pooling_root(spec: StageSpec, task: str) -> tuple[str, ...]:
    from minbert.grid.parts import part_module

    return (part_module("pooling", spec.tasks[task].pooling),)


def _bare(pin: str) -> str:
    return pin.partition(":")[2] or pin


def _shapes(path: Path) -> Architecture:
    """Read the shapes in a Hugging Face `config.json`; `UserError` names what is wrong in it."""
    try:
        config = read_json(path)
    except ValueError as error:
        raise UserError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(config, dict):
        raise UserError(f"{path}: expected a JSON object, found {type(config).__name__}")
    try:
        shapes = from_hugging_face(config, path)
    except ValidationError as error:
        raise UserError(explain(error, str(path), Architecture)) from None
    if shapes.hidden % shapes.heads:
        raise UserError(
            f"{path}: hidden_size {shapes.hidden} is no multiple of num_attention_heads "
            f"{shapes.heads}"
        )
    return shapes


def _is_url(source: str) -> bool:
    return source.startswith(("http://", "https://", "file://"))


def _fetch(url: str, checksum: str) -> Node:
    name = url.rpartition("/")[2]
    spec = {"name": name, "checksum": checksum}
    return Node("fetch", spec, (), extra={"url": url})
