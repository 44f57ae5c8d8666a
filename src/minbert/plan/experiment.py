"""What a configuration asks for: its data and backbone, its grids, every stage's training job."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from minbert.base.environment import versions
from minbert.base.errors import UserError, nearest
from minbert.data.course import course_files, in_folder
from minbert.data.identity import DigestCache
from minbert.data.lmrd import LMRD_PIN, review_files
from minbert.data.originals import label_files
from minbert.spec.architecture import (
    KNOWN,
    Architecture,
    backbone_files,
    check_pairing,
    from_hugging_face,
    shared_depth,
)
from minbert.spec.config import URLS, Config
from minbert.spec.parts import PARTS, part_module
from minbert.spec.pretraining import PACKAGED, Pretraining
from minbert.spec.protocol import LMRD_URL
from minbert.spec.published import Published, read_published
from minbert.spec.resolve import Grid, Stage, StageRef, Variant, resolve
from minbert.spec.stage import StageSpec
from minbert.spec.task import task_facts
from minbert.store.node import Need, Node

PUBLISHED = Path("workflow/published.csv")
_HUB_NAME = r"[\w.-]{1,96}(/[\w.-]{1,96})?"
PRETRAINING_ITEMS = 24_000
"""Texts that the built-in vocabulary is learnt from."""


@dataclass(frozen=True)
class Experiment:
    """A configuration with the grids that it names. `base` is the folder of the Snakefile."""

    config: Config
    base: Path
    grids: tuple[Grid, ...]
    published: tuple[Published, ...]
    sources: Sources

    @classmethod
    def read(cls, config: Config, base: Path) -> Self:
        """Read the grids, and look at the files of the data and the backbone."""
        grids = tuple(resolve(config, base))
        published = tuple(read_published(base / PUBLISHED))
        return cls(config, base, grids, published, Sources(config, Path(config.results), base))

    @property
    def root(self) -> Path:
        """The results root."""
        return Path(self.config.results)

    @cached_property
    def variants(self) -> dict[tuple[str, str], Variant]:
        """Every variant by paper and name."""
        return {(g.paper, name): v for g in self.grids for name, v in g.variants.items()}

    @cached_property
    def stages(self) -> dict[StageRef, Stage]:
        """Every stage of every variant, in the order of the grids."""
        return {stage.ref: stage for v in self.variants.values() for stage in v.stages}

    def variant(self, ref: StageRef) -> Variant:
        """Return the variant that a stage belongs to."""
        return self.variants[ref.paper, ref.variant]

    @cached_property
    def _trainings(self) -> dict[StageRef, Node]:
        return {}

    def train(self, ref: StageRef) -> Node:
        """Return the training job of a stage."""
        if ref not in self._trainings:
            self._trainings[ref] = self._training(self.stages[ref])
        return self._trainings[ref]

    @cached_property
    def owners(self) -> dict[str, StageRef]:
        """The first stage, in the order of the grids, that each training key belongs to."""
        found: dict[str, StageRef] = {}
        for ref in self.stages:
            found.setdefault(self.train(ref).key, ref)
        return found

    def _training(self, stage: Stage) -> Node:
        spec, sources = stage.spec, self.sources
        if sources.architecture is not None:
            for name, how in spec.tasks.items():
                check_pairing(f"{stage.ref}: task '{name}'", how.pairing, sources.architecture)
        needs = {
            f"tokens.{task}": Need(sources.tokens(task), "tokens.parquet")
            for task in spec.ordered_tasks
        }
        for name in ("config.json", "tokenizer.json", "model.safetensors"):
            needs[f"backbone.{name}"] = Need(sources.backbone, name)
        if spec.trainable == "heads":
            if stage.start is not None:
                raise UserError(
                    f"{stage.ref}: 'trainable: heads' starts from the backbone, whose features "
                    f"are cached; found start: {stage.start}"
                )
            for task in spec.ordered_tasks:
                needs[f"features.{task}"] = Need(
                    sources.features(task, spec), "features.safetensors"
                )
        if stage.start is not None:
            needs["start"] = Need(self.train(stage.start), "model.safetensors")
        for number, ref in enumerate(stage.fused):
            needs[f"adapter.{number}"] = Need(self.train(ref), "model.safetensors")
        asked: dict[str, Any] = {
            "stage": self.resolved(stage, spec),
            "tasks": {task: task_facts(task) for task in spec.tasks},
            "derived": spec.derived(),
        }
        if self.config.dependencies:
            asked["dependencies"] = versions(self.config.dependencies)
        compute = self.config.model_dump(include={"device", "precision", "checkpoint_seconds"})
        parts = tuple(spec.parts().values())
        return Node("train", asked, "minbert.train.run", parts, needs, compute)

    def resolved(self, stage: Stage, spec: StageSpec) -> dict[str, Any]:
        """Return a spec of `stage`, the same however the same stage was written."""
        resolved = spec.model_dump(mode="json")
        # Which stages these are is in the keys of the needs; what they are called is not.
        resolved["start"] = "backbone" if stage.start is None else "stage"
        if stage.fused:
            resolved["fuse"] = [f"adapter.{number}" for number in range(len(stage.fused))]
        if self.sources.architecture is not None:
            layers = self.sources.architecture.layers
            depth = shared_depth(spec.shared_layers, layers)  # all, 12 and 1.0 are the same
            resolved["shared_layers"] = {None: "none", layers: "all"}.get(depth, depth)
            if depth == layers:
                resolved["shared_end"] = "bottom"
        return resolved


class Sources:
    """Makes the nodes of data sets and backbone that a configuration names, each once."""

    def __init__(self, config: Config, root: Path, base: Path) -> None:
        self.config, self.base = config, base
        self.cache = DigestCache(root / "store" / "digests.json", verify=config.verify)
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
            needs = {
                "examples": Need(self.data(task), "examples.parquet"),
                "tokenizer": Need(self.backbone, "tokenizer.json"),
            }
            extra = {"task": task}
            self._tokens[task] = Node("tokens", {}, "minbert.data.tokenise", (), needs, extra)
        return self._tokens[task]

    def features(self, task: str, spec: StageSpec) -> Node:
        """Return the node of `task`'s frozen features, as `spec` pools and pairs them."""
        chosen = spec.tasks[task]
        how = {
            "task": task,
            "pooling": chosen.pooling,
            "pairing": chosen.pairing,
            "max_length": spec.max_length,
            "derived": PARTS["pooling"][chosen.pooling],
        }
        needs = {
            "tokens": Need(self.tokens(task), "tokens.parquet"),
            "weights": Need(self.backbone, "model.safetensors"),
            "config": Need(self.backbone, "config.json"),
            "tokenizer": Need(self.backbone, "tokenizer.json"),
        }
        parts = (part_module("pooling", chosen.pooling),)
        extra = {"device": self.config.device}
        return Node("features", how, "minbert.train.features", parts, needs, extra)

    def labels(self, task: str) -> Node | None:
        """Return the node of the public labels of `task`'s test rows; None if none are given."""
        if task not in self._label_files:
            return None
        files = self._label_files[task]
        found = {name: f"sha256:{self.cache.digest(path)}" for name, path in files.items()}
        spec = {"task": task, "facts": task_facts(task), "files": found}
        needs = {"examples": Need(self.data(task), "examples.parquet")}
        extra = {"paths": {name: str(path.absolute()) for name, path in files.items()}}
        return Node("labels", spec, "minbert.data.labels", needs=needs, extra=extra)

    @cached_property
    def _label_files(self) -> dict[str, dict[str, Path]]:
        """The original files of labels by task; the built-in corpus has labels of its own."""
        if self.config.labels is None or self.config.data == "builtin":
            return {}
        return label_files(Path(self.config.labels))

    def _make_data(self, task: str) -> Node:
        if self.config.data != "builtin":
            return self._lmrd() if task == "lmrd" else self._course(task)
        sizes = (self.config.corpus.sizes or {}).get(task)
        spec = {
            "source": "builtin",
            "task": task,
            "facts": task_facts(task),
            "seed": self.config.corpus.seed,
            "sizes": sizes.model_dump() if sizes else None,
        }
        return Node("data", spec, "minbert.data.builtin")

    def _course(self, task: str) -> Node:
        maker = "minbert.data.course"
        shown = {"source": "course", "task": task, "facts": task_facts(task)}
        source = self.config.course
        if _is_url(source):
            pins = course_files(task)
            needs = {s: _fetched(f"{source.rstrip('/')}/{n}", pin) for s, (n, pin) in pins.items()}
            found = {split: pin for split, (_, pin) in pins.items()}
            return Node("data", {**shown, "files": found}, maker, needs=needs)
        paths = in_folder(task, Path(source))
        found = {s: f"git:{self.cache.digest(p, 'git')}" for s, p in paths.items()}
        extra = {"paths": {split: str(path.absolute()) for split, path in paths.items()}}
        return Node("data", {**shown, "files": found}, maker, extra=extra)

    def _lmrd(self) -> Node:
        maker = "minbert.data.lmrd"
        source = self.config.lmrd
        spec = {"source": "lmrd", "task": "lmrd", "facts": task_facts("lmrd"), "files": LMRD_PIN}
        if _is_url(source):
            if source != LMRD_URL:
                raise UserError(
                    f"lmrd is {source!r}: only {LMRD_URL} has a known checksum. "
                    "Download the file yourself and give its path."
                )
            return Node("data", spec, maker, needs={"archive": _fetched(source, LMRD_PIN)})
        path = Path(source).absolute()
        if path.is_dir():
            spec["files"] = f"tree:{self.cache.tree(path, review_files(path))}"
        elif path.is_file():
            spec["files"] = f"md5:{self.cache.digest(path, 'md5')}"
        else:
            raise UserError(f"lmrd is {source!r}, and there is no such file or folder")
        return Node("data", spec, maker, extra={"path": str(path)})

    def _backbone(self) -> tuple[Node, Architecture | None]:
        name = self.config.backbone
        if name == "builtin" and self._packaged:
            name = str(self.base / PACKAGED)
        if name == "builtin":
            return self._builtin_backbone()
        folder = Path(name)
        if folder.is_dir():
            shapes = from_hugging_face(folder / "config.json")
            files = {p.name: self.cache.digest(p) for p in backbone_files(folder)}
            spec: dict[str, Any] = {"files": files}
            extra = {"folder": str(folder.absolute())}
            return Node("backbone", spec, "minbert.train.backbone", extra=extra), shapes
        if name.startswith((".", "/", "~")) or not re.fullmatch(_HUB_NAME, name, re.ASCII):
            raise UserError(
                f"backbone {name!r}: no such folder. Give a folder with a Hugging Face model, "
                "a hub name (letters, digits, '-', '_', '.', one '/'), or 'builtin'."
            )
        revision = self.config.revision or ""
        if len(revision) != 40 or not all(c in "0123456789abcdef" for c in revision):
            near = "" if name in KNOWN else nearest(name, KNOWN)
            raise UserError(
                f"backbone {name!r} is a hub name: pin it by `revision`, a commit of 40 hex "
                f"digits (found {self.config.revision!r}), or give a folder.{near}"
            )
        spec = {"hub": name, "revision": revision}
        return Node("backbone", spec, "minbert.train.backbone"), KNOWN.get(name)

    @property
    def _packaged(self) -> bool:
        """Whether the built-in backbone asked for is the one that was made beforehand."""
        config = self.config
        default = config.pretraining == Pretraining() and not config.corpus.seed
        return default and (self.base / PACKAGED).is_dir()

    def _builtin_backbone(self) -> tuple[Node, Architecture]:
        wish = self.config.pretraining
        seed = self.config.corpus.seed
        words = {"seed": seed, "size": wish.vocabulary, "items": PRETRAINING_ITEMS}
        vocabulary = Node("vocabulary", words, "minbert.data.vocabulary")
        needs = {"tokenizer": Need(vocabulary, "tokenizer.json")}
        spec = {"seed": seed, "pretraining": wish.model_dump()}
        extra = {"device": self.config.device}
        node = Node("backbone", spec, "minbert.train.pretrain", (), needs, extra)
        return node, wish.architecture(wish.vocabulary)


def _is_url(source: str) -> bool:
    return source.startswith(URLS)


def _fetched(url: str, checksum: str) -> Need:
    name = url.rpartition("/")[2]
    spec = {"name": name, "checksum": checksum}
    return Need(Node("fetch", spec, "minbert.data.fetch", extra={"url": url}), name)
