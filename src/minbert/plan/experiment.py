"""What a configuration asks for: its data and backbone, its grids, every stage's training job."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from minbert.base.environment import versions
from minbert.base.errors import UserError, nearest
from minbert.base.progress import counted
from minbert.data.identity import DigestCache
from minbert.data.sources import Place, check_file, label_files, located
from minbert.data.tables import FORMS, form_of
from minbert.data.tokenizer import TOKENIZERS, folder_tokenizer
from minbert.spec.architecture import (
    KNOWN,
    WEIGHTS,
    Architecture,
    architecture_parts,
    check_pairing,
    read_architecture,
    shared_depth,
    shared_parts,
)
from minbert.spec.config import BACKBONE, REVISION, Config
from minbert.spec.hugging_face import backbone_files, from_hugging_face
from minbert.spec.only import part_of
from minbert.spec.parts import PARTS, part_module
from minbert.spec.protocol import SPLITS
from minbert.spec.published import Published, read_published
from minbert.spec.resolve import Grid, Stage, StageRef, Variant, resolve
from minbert.spec.stage import StageSpec
from minbert.spec.task import BUILT_IN, OWN_FILES, TASKS, data_facts, task_facts
from minbert.store.job import node_folder
from minbert.store.node import Need, Node, canonical, digest, finished
from minbert.store.plans import brought, described_in

_HUB_NAME = r"[\w.-]{1,96}(/[\w.-]{1,96})?"
PACKAGED = Path("workflow/backbone")
"""The built-in backbone as a Hugging Face folder, below the Snakefile's folder."""


@dataclass(frozen=True)
class Experiment:
    """A configuration with the grids that it names. `base` is the folder of the Snakefile.

    `grids` have the variants that are asked for; `every` is each stage of the whole grids, as a
    stage may start from one of a variant that is not.
    """

    config: Config
    base: Path
    grids: tuple[Grid, ...]
    every: Mapping[StageRef, Stage]
    published: tuple[Published, ...]
    sources: Sources

    @classmethod
    def read(cls, config: Config, base: Path) -> Self:
        """Read the grids, and look at the files of the data and the backbone."""
        whole = resolve(config, base)
        every = {s.ref: s for grid in whole for v in grid.variants.values() for s in v.stages}
        grids = tuple(part_of(whole, config.only))
        published = tuple(read_published(base / config.published))
        sources = Sources(config, Path(config.results), base)
        return cls(config, base, grids, every, published, sources)

    @property
    def root(self) -> Path:
        """The results root."""
        return Path(self.config.results)

    @cached_property
    def variants(self) -> dict[tuple[str, str], Variant]:
        """Every variant by paper and name."""
        return {(g.paper, name): v for g in self.grids for name, v in g.variants.items()}

    @cached_property
    def overall_tasks(self) -> dict[str, tuple[str, ...]]:
        """The tasks of the overall score by paper."""
        return {grid.paper: grid.overall_tasks for grid in self.grids}

    @cached_property
    def stages(self) -> dict[StageRef, Stage]:
        """Every stage of every variant that is asked for, in the order of the grids."""
        return {stage.ref: stage for v in self.variants.values() for stage in v.stages}

    def data(self, tasks: Iterable[str]) -> str:
        """Return where the built-in ones of `tasks` come from; `OWN_FILES` if there are none."""
        return self.config.data if any(task in TASKS.built_in for task in tasks) else OWN_FILES

    def variant(self, ref: StageRef) -> Variant:
        """Return the variant that a stage belongs to."""
        return self.variants[ref.paper, ref.variant]

    @cached_property
    def _trainings(self) -> dict[StageRef, Node]:
        return {}

    def train(self, ref: StageRef) -> Node:
        """Return the training job of a stage."""
        if ref not in self._trainings:
            self._trainings[ref] = self._training(self.every[ref])
        return self._trainings[ref]

    @cached_property
    def owners(self) -> dict[str, StageRef]:
        """The first stage, in the order of the grids, that each training key belongs to.

        After the stages that are asked for come others which they start from or fuse.
        """
        found: dict[str, StageRef] = {}
        waiting = list(self.stages)
        for ref in waiting:
            if self.train(ref).key not in found:
                found[self.train(ref).key] = ref
                stage = self.every[ref]
                waiting += [*([stage.start] if stage.start else []), *stage.fused]
        return found

    def rounded(self, grid: Grid) -> Iterator[str]:
        """Yield what became of each fraction of layers that is no whole number of them."""
        layers = self.sources.architecture.layers if self.sources.architecture else 0
        for stage in (stage for variant in grid.variants.values() for stage in variant.stages):
            share = stage.spec.shared_layers
            if layers and isinstance(share, float):
                depth = shared_depth(share, layers) or 0
                if abs(share - depth / layers) > 0.01:  # 0.33 is a third.
                    said = f"'shared_layers: {share}' of {layers} layers became {depth}."
                    yield f"{stage.ref}: {said}"

    def _training(self, stage: Stage) -> Node:
        spec, sources = stage.spec, self.sources
        where = f"{stage.ref.paper}: {stage.ref}"
        if sources.architecture is not None:
            try:
                shared_parts(spec.shared_layers, spec.shared_end, sources.architecture.layers)
            except UserError as error:
                raise UserError(f"{where}: {error}") from None
            for name, how in spec.tasks.items():
                check_pairing(f"{where}: task '{name}'", how.pairing, sources.architecture)
        needs = {
            f"tokens.{task}": Need(sources.tokens(task), "tokens.parquet")
            for task in spec.ordered_tasks
        }
        for name in ("config.json", "tokenizer.json", "model.safetensors"):
            needs[f"backbone.{name}"] = Need(sources.backbone, name)
        if spec.trainable == "heads":
            if stage.start is not None:
                raise UserError(
                    f"{where}: 'trainable: heads' starts from the backbone, whose features "
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
        parts = (*spec.parts().values(), *architecture_parts(sources.architecture))
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
            with suppress(UserError):  # A grid may share more layers than this backbone has.
                depth = shared_depth(spec.shared_layers, layers)  # all, 12 and 1.0 are the same
                resolved["shared_layers"] = {None: "none", layers: "all"}.get(depth, depth)
                if depth == layers:
                    resolved["shared_end"] = "bottom"
        return resolved


class Sources:
    """Makes the nodes of data sets and backbone that a configuration names, each once."""

    def __init__(self, config: Config, root: Path, base: Path) -> None:
        self.config, self.root, self.base = config, root, base
        self.cache = DigestCache(root / "store" / "digests.json", verify=config.verify)
        self._brought = brought(root)
        self._stated = {_absolute(path): of for path, of in config.checksums.items()}
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

    def rows(self, task: str) -> Node:
        """Return the node of `task`'s dev and test rows."""
        needs = {"examples": Need(self.data(task), "examples.parquet")}
        return Node("rows", {}, "minbert.data.rows", needs=needs, extra={"task": task})

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
        encoder = architecture_parts(self.architecture)
        parts = (part_module("pooling", chosen.pooling), *encoder)
        extra = self.config.model_dump(include={"device", "precision"})
        return Node("features", how, "minbert.train.features", parts, needs, extra)

    def labels(self, task: str) -> Node | None:
        """Return the node of the public labels of `task`'s test rows; None if none are given."""
        source, path = self.config.labels, self._label_files.get(task)
        if path:
            found = {"labels": self._checksum(path)}
        elif self._labels_gone and (known := self._known("labels", source, {}, task)):
            found, path = known["spec"]["files"], Path(str(source))
        else:
            return None
        names = list(TASKS[task].names)
        spec = {"task": task, "of": data_facts(task), "names": names, "files": found}
        needs = {"examples": Need(self.data(task), "examples.parquet")}
        extra = {"path": str(path.absolute()), "source": source}
        return Node("labels", spec, "minbert.data.labels", needs=needs, extra=extra)

    @cached_property
    def _label_files(self) -> dict[str, Path]:
        """The files of labels by task; the built-in corpus has labels of its own."""
        if self.config.labels is None or self.config.data == "builtin" or self._labels_gone:
            return {}
        return label_files(Path(self.config.labels), TASKS)

    @cached_property
    def _labels_gone(self) -> bool:
        """Whether the folder of labels is not here, and a bundle had labels."""
        source = self.config.labels
        gone = source is not None and not Path(source).exists()
        had = (of for name, of in self._brought.items() if name.startswith("labels-"))
        return gone and any(source in of for of in had)

    def _checksum(self, path: Path, pin: str = "sha256:") -> str:
        """Return the checksum of a file; `UserError` if the configuration states another one.

        It is of the kind of `pin`, which may also be the one that is stated.
        """
        found = self.cache.checksum(path, pin)
        given = pin if pin[-1] != ":" else found
        if (stated := self._stated.get(_absolute(path), given)) != found:
            raise UserError(
                f"{path}: its checksum is {found}, and the configuration states {stated}; put the "
                "file there that is meant, or correct the checksum"
            )
        return found

    def _stated_of(self, paths: Mapping[str, Path]) -> dict[str, str]:
        at = {name: _absolute(path) for name, path in paths.items()}
        return {name: self._stated[path] for name, path in at.items() if path in self._stated}

    def _known(
        self, kind: str, source: str | None, stated: Mapping[str, str], task: str | None = None
    ) -> dict[str, Any] | None:
        """Return the description of a finished node that stands for a source that is not here.

        Either it was made of just the files that the configuration has `stated`, or a bundle
        brought it for the `source` of this very name, and nothing else is stated. None if nothing
        is stated or brought. Raises `UserError` if there is no node of what is stated, or several,
        made from different files, as it cannot be told which is meant.
        """
        found: dict[str, dict[str, Any]] = {}
        for path in sorted((self.root / "store" / "spec").glob(f"{kind}-*.json")):
            with suppress(UserError):
                described = described_in(path)
                spec, folder = described["spec"], node_folder(self.root, kind, described["key"])
                if "files" not in spec or spec.get("task") != task:
                    continue
                files = _files(spec)
                if kind == "backbone":
                    files = {name: f"sha256:{of}" for name, of in files.items()}
                named = source in self._brought.get(path.stem, [])
                meant = stated.items() <= files.items() if named else stated and files == stated
                # Nodes of other code or columns may be made from the same files. Earlier versions
                # did not say in which form they are.
                better = canonical(files) not in found or "forms" in spec
                if meant and better and finished(kind, spec, folder):
                    found[canonical(files)] = described
        if len(found) > 1 or (stated and not found):
            what = f"{kind} of task '{task}'" if task else kind
            keys = ", ".join(described["key"] for described in found.values())
            made = f"results made from several: {keys}" if found else "none of the stated checksums"
            raise UserError(
                f"the files of the {what}, {source}, are not there, and {self.root}/store has "
                f"{made}. Give the files, state their `checksums`, or import a bundle of them"
            )
        return next(iter(found.values()), None)

    def _make_data(self, task: str) -> Node:
        entry = self.config.tasks.get(task) or BUILT_IN[task]
        named, places = located(task, self.config, self.base)
        local = {name: Path(place.at) for name, place in places.items() if not place.is_url}
        gone = bool(named) and not any(Path(path).exists() for path in named)
        source, paths, needs = ", ".join(named), dict[str, str](), dict[str, Need]()
        if gone and (known := self._known("data", source, self._given(named, places), task)):
            found, forms = _files(known["spec"]), known["spec"].get("forms", {})
            paths = {name: str(_absolute(local.get(name, named[0]))) for name in found}
        else:
            found, forms = {name: place.pin for name, place in places.items()}, {}
            for name, path in local.items():
                check_file(task, name, path)
                found[name] = self._checksum(path, places[name].pin)
                paths[name] = str(_absolute(path))
            needs = {
                n: _fetched(place.at, place.pin) for n, place in places.items() if place.is_url
            }
        for name in found.keys() - forms.keys() - {"archive"}:
            file = needs[name].file if name in needs else paths[name]
            try:
                forms[name] = entry.format or form_of(file)
            except UserError as error:
                way = "; download it yourself first" if name in needs else ""
                raise UserError(f"config: tasks.{task}.files: {error}{way}") from None
        spec = {
            "task": task,
            "of": data_facts(task),
            "files": found,
            "forms": forms,
            **entry.reading,
        }
        if self.config.limit is not None:
            spec["limit"] = self.config.limit
        extra = {"paths": paths, "source": source}
        return Node("data", spec, "minbert.data.dataset", needs=needs, extra=extra)

    def _given(self, named: Sequence[str], places: Mapping[str, Place]) -> dict[str, str]:
        """Return the checksums that are given for the files of a task that are not there."""
        pinned = {name: place.pin for name, place in places.items() if place.pin[-1] != ":"}
        of_path = {_absolute(place.at): name for name, place in places.items()}
        # The files of a folder are called by their splits.
        folder = _absolute(named[0])
        below = {p: p.stem for p in self._stated if p.parent == folder and p.stem in SPLITS}
        stated = ((name, self._stated.get(path)) for path, name in (of_path | below).items())
        return pinned | {name: checksum for name, checksum in stated if checksum}

    def _backbone(self) -> tuple[Node, Architecture | None]:
        name = self.config.backbone
        if name == "builtin":
            name = str(self.base / PACKAGED)
        folder = Path(name)
        stated = {path.name: path for path in self._stated if path.parent == _absolute(name)}
        shapes = None
        if folder.is_dir():
            shapes = from_hugging_face(folder / "config.json")
            if any((folder / name).is_file() for name in TOKENIZERS):
                folder_tokenizer(folder, shapes)
            read = backbone_files(folder)
            sums = {path: self._checksum(path) for path in (*stated.values(), *read)}
            files = {path.name: sums[path].partition(":")[2] for path in read}
        elif (stated or not self.config.revision) and (
            known := self._known("backbone", name, self._stated_of(stated))
        ):
            made = node_folder(self.root, "backbone", known["key"])
            shapes, files = read_architecture(made / "config.json"), known["spec"]["files"]
        if shapes:
            extra = {"folder": str(folder.absolute()), "source": self.config.backbone}
            parts = architecture_parts(shapes)
            node = Node("backbone", {"files": files}, "minbert.train.backbone", parts, extra=extra)
            return node, shapes
        if name.startswith((".", "/", "~")) or not re.fullmatch(_HUB_NAME, name, re.ASCII):
            raise UserError(
                f"backbone {name!r}: no such folder. Give a folder with a Hugging Face model, "
                "a hub name (letters, digits, '-', '_', '.', one '/'), or 'builtin'."
            )
        revision = self.config.revision or ""
        if len(revision) != 40 or not all(c in "0123456789abcdef" for c in revision):
            near = "" if name in KNOWN else nearest(name, KNOWN)
            raise UserError(
                f"backbone {name!r}: no such folder. If it is a hub name, pin it by `revision`, a "
                f"commit of 40 hex digits (found {self.config.revision!r}).{near}"
            )
        if revision == REVISION and name.rpartition("/")[2] != BACKBONE.rpartition("/")[2]:
            raise UserError(
                f"backbone {name!r}: no such folder, and a hub name needs a `revision` of its "
                f"own: found {revision}, the commit of {BACKBONE}"
            )
        spec: dict[str, Any] = {"hub": name, "revision": revision}
        of_hub = KNOWN.get(name)
        return Node("backbone", spec, "minbert.train.backbone", architecture_parts(of_hub)), of_hub

    @property
    def encoder(self) -> str:
        """What the encoder is (kind, shapes, weights), then what the configuration calls it."""
        spec, arch = self.backbone.spec, self.architecture
        if files := spec.get("files"):
            shards = {name: of for name, of in files.items() if name.endswith(".safetensors")}
            weights = f"weights {files.get(WEIGHTS, digest(shards))[:8]}"
        else:
            weights = f"commit {spec['revision'][:8]}"
        shapes = arch and f"{arch.family}, {counted(arch.layers, 'layer')}, {arch.hidden} wide, "
        return f"{shapes or ''}{weights} ({self.config.backbone})"


def select_on(stages: Iterable[Stage]) -> str:
    """Return what the stages' `select_on` say, `both` if they differ (`evaluate.selected`)."""
    said = {stage.spec.select_on for stage in stages}
    return said.pop() if len(said) == 1 else "both"


def _absolute(path: Path | str) -> Path:
    """Return one path for all ways to write it; links are not followed."""
    return Path(os.path.abspath(path))


def _files(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the checksums of a data set's files; bundles of earlier versions had LMRD's alone."""
    files = spec["files"]
    return {"archive": files} if isinstance(files, str) else dict(files)


def _fetched(url: str, checksum: str) -> Need:
    # Of `train.tsv?download=1` the path's end, of `get?file=train.tsv` that of the whole.
    ends = [part.rpartition("/")[2] for part in (urlsplit(url).path, url)]
    name = next((end for end in ends if Path(end).suffix.lower()[1:] in FORMS), ends[0])
    spec = {"name": name, "checksum": checksum}
    return Need(Node("fetch", spec, "minbert.data.fetch", extra={"url": url}), name)
