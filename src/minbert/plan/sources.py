"""Where the data and the backbone come from that a configuration names, as nodes."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from minbert.base.errors import UserError, did_you_mean
from minbert.base.progress import counted
from minbert.data.identity import DigestCache
from minbert.data.sources import Place, check_file, label_files, located
from minbert.data.tables import FORMS, form_of
from minbert.data.tokenizer import TOKENIZER, folder_tokenizer
from minbert.spec.architecture import (
    KNOWN,
    WEIGHTS,
    Architecture,
    architecture_parts,
    read_architecture,
)
from minbert.spec.config import BACKBONE, REVISION, Config
from minbert.spec.hugging_face import backbone_files, from_hugging_face
from minbert.spec.parts import PARTS, part_module
from minbert.spec.protocol import SPLITS
from minbert.spec.stage import StageSpec
from minbert.spec.task import BUILT_IN, TASKS, data_facts
from minbert.store.job import node_folder
from minbert.store.node import Need, Node, canonical, digest
from minbert.store.plans import brought, described_in, read_description

_HUB_NAME = r"[\w-][\w.-]{0,95}(/[\w.-]{1,96})?"
PACKAGED = Path("workflow/backbone")
"""The built-in backbone as a Hugging Face folder, below the Snakefile's folder."""


class Sources:
    """Makes the nodes of data sets and backbone that a configuration names, each once.

    `data` and `tokens` return the node of a task's example table, and that of its tokens.
    """

    def __init__(self, config: Config, root: Path, base: Path) -> None:
        self.config, self.root, self.base = config, root, base
        self.cache = DigestCache(root / "store" / "digests.json", verify=config.verify)
        self._stated = {_absolute(path): of for path, of in config.checksums.items()}
        self.data, self.tokens = cache(self._data), cache(self._tokens)
        self.backbone, self.architecture = self._backbone()

    def _tokens(self, task: str) -> Node:
        needs = {
            "examples": Need(self.data(task), "examples.parquet"),
            "tokenizer": Need(self.backbone, "tokenizer.json"),
        }
        return Node("tokens", {}, "minbert.data.tokenise", needs=needs, extra={"task": task})

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
            "weights": Need(self.backbone, WEIGHTS),
            "config": Need(self.backbone, "config.json"),
            "tokenizer": Need(self.backbone, "tokenizer.json"),
        }
        encoder = architecture_parts(self.architecture)
        parts = (part_module("pooling", chosen.pooling), *encoder)
        extra = self.config.model_dump(include={"device", "precision"})
        return Node("features", how, "minbert.train.features", parts, needs, extra)

    def labels(self, task: str) -> Node | None:
        """Return the node of the public labels of `task`'s test rows; None if none are given."""
        if task not in self._labels:
            return None
        files, path = self._labels[task]
        names = list(TASKS[task].names)
        spec = {"task": task, "of": data_facts(task), "names": names, "files": files}
        needs = {"examples": Need(self.data(task), "examples.parquet")}
        extra = {"path": str(path.absolute()), "source": self.config.labels}
        return Node("labels", spec, "minbert.data.labels", needs=needs, extra=extra)

    @cached_property
    def _labels(self) -> dict[str, tuple[dict[str, str], Path]]:
        """The checksums and files of labels by task; the built-in corpus has labels of its own."""
        source = self.config.labels
        if source is None or self.config.data == "builtin":
            return {}
        folder = Path(source)
        if not folder.exists():
            of_bundles = {task: self._brought("labels", source, task) for task in TASKS}
            if found := {
                task: (spec["files"], folder) for task, spec in of_bundles.items() if spec
            }:
                return found
        paths = label_files(folder, TASKS)
        return {task: ({"labels": self._checksum(path)}, path) for task, path in paths.items()}

    def _checksum(self, path: Path, pin: str = "sha256:") -> str:
        """Return the checksum of a file, of the kind of `pin`; of an absent one, what is stated.

        Raises `UserError` if the configuration states another one than a file has.
        """
        stated = self._stated_for(path, pin)
        if stated and not path.exists():
            return stated
        found = self.cache.checksum(path, pin)
        if stated not in ("", found):
            raise UserError(
                f"{path}: its checksum is {found}, and the configuration states {stated}; put the "
                "file there that is meant, or correct the checksum"
            )
        return found

    def _stated_for(self, path: Path, pin: str) -> str:
        """Return the checksum that the configuration states for a file; "" if it states none."""
        return self._stated.get(_absolute(path), pin if pin[-1] != ":" else "")

    def _brought(self, kind: str, source: str, task: str | None = None) -> dict[str, Any] | None:
        """Return the spec of the node that bundles brought for a `source` that is not here."""
        found: dict[str, dict[str, Any]] = {}
        for name, sources in brought(self.root).items():
            if name.startswith(f"{kind}-") and source in sources:
                spec = read_description(self.root, *name.split("-"))["spec"]
                if spec.get("task") == task:  # Several may be of the same files, by other code.
                    found[canonical([spec["files"], spec.get("forms")])] = spec
        if len(found) > 1:
            raise UserError(
                f"{source}: is not there, and bundles brought results of several {kind} of this "
                "name; give the files, or state their `checksums`"
            )
        return next(iter(found.values()), None)

    def _data(self, task: str) -> Node:
        entry = self.config.tasks.get(task) or BUILT_IN[task]
        named, places = located(task, self.config, self.base)
        source, spec = ", ".join(named), None
        if named and not any(Path(path).exists() for path in named):
            # The files of a folder are called by their splits.
            below = {p.stem: p for p in self._stated if p.parent == _absolute(named[0])}
            if SPLITS[0] in below:
                places = {
                    split: Place(str(below[split]), "sha256:") for split in SPLITS if split in below
                }
            if not any(self._stated_for(Path(place.at), place.pin) for place in places.values()):
                spec = self._brought("data", source, task)
        files, needs = dict[str, str](spec["files"] if spec else {}), dict[str, Need]()
        forms = dict[str, str](spec["forms"] if spec else {})
        for name, place in places.items() if not spec else ():
            path = Path(place.at)
            if place.is_url:
                files[name], needs[name] = place.pin, _fetched(place.at, place.pin)
            else:
                if not self._stated_for(path, place.pin):
                    check_file(task, name, path)
                files[name] = self._checksum(path, place.pin)
            try:
                if name != "archive":
                    forms[name] = entry.format or form_of(
                        needs[name].file if place.is_url else path.name
                    )
            except UserError as error:
                way = "; download it yourself first" if place.is_url else ""
                raise UserError(f"config: tasks.{task}.files: {error}{way}") from None
        made = {
            "task": task,
            "of": data_facts(task),
            "files": files,
            "forms": forms,
            **entry.reading,
        }
        if self.config.limit is not None:
            made["limit"] = self.config.limit
        paths = {
            name: str(_absolute(place.at)) for name, place in places.items() if not place.is_url
        }
        extra = {"paths": paths, "source": source}
        return Node("data", made, "minbert.data.dataset", needs=needs, extra=extra)

    def _backbone(self) -> tuple[Node, Architecture | None]:
        name, revision = self.config.backbone, self.config.revision or ""
        folder = self.base / PACKAGED if name == "builtin" else Path(name)
        stated = {p.name: of for p, of in self._stated.items() if p.parent == _absolute(folder)}
        files, shapes = {n: of.removeprefix("sha256:") for n, of in stated.items()}, None
        if folder.is_dir():
            shapes = from_hugging_face(folder / "config.json")
            if (folder / TOKENIZER).is_file():
                folder_tokenizer(folder, shapes)
            read = backbone_files(folder)
            files = {path.name: self._checksum(path).partition(":")[2] for path in read}
        elif not files and not revision and (spec := self._brought("backbone", name)):
            files = spec["files"]
        if files or shapes:
            shapes = shapes or self._shapes(files)
            extra = {"folder": str(folder.absolute()), "source": self.config.backbone}
            parts = architecture_parts(shapes)
            node = Node("backbone", {"files": files}, "minbert.train.backbone", parts, extra=extra)
            return node, shapes
        missing = f"backbone {name!r}: no such folder"
        if not re.fullmatch(_HUB_NAME, name, re.ASCII):
            raise UserError(
                f"{missing}. Give a folder with a Hugging Face model, a hub name (letters, digits, "
                "'-', '_', '.', one '/'), or 'builtin'."
            )
        if not re.fullmatch("[0-9a-f]{40}", revision):
            near = "" if name in KNOWN else did_you_mean(name, KNOWN)
            raise UserError(
                f"{missing}. If it is a hub name, pin it by `revision`, a commit of 40 hex digits "
                f"(found {self.config.revision!r}).{near}"
            )
        if revision == REVISION and name.rpartition("/")[2] != BACKBONE.rpartition("/")[2]:
            raise UserError(
                f"{missing}, and a hub name needs a `revision` of its own: found {revision}, the "
                f"commit of {BACKBONE}"
            )
        spec, of_hub = {"hub": name, "revision": revision}, KNOWN.get(name)
        return Node("backbone", spec, "minbert.train.backbone", architecture_parts(of_hub)), of_hub

    def _shapes(self, files: Mapping[str, str]) -> Architecture:
        """Return the architecture of a finished backbone that was made from files not here."""
        for path in sorted((self.root / "store" / "spec").glob("backbone-*.json")):
            with suppress(UserError, FileNotFoundError):
                described = described_in(path)
                if described["spec"].get("files") == files:
                    made = node_folder(self.root, "backbone", described["key"])
                    return read_architecture(made / "config.json")
        raise UserError(
            f"backbone {self.config.backbone!r}: there is no such folder, nor any result under "
            f"{self.root} made from files with its stated checksums; give the folder, correct "
            "`checksums`, or import a bundle"
        )

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


def _absolute(path: Path | str) -> Path:
    """Return one path for all ways to write it; links are not followed."""
    return Path(os.path.abspath(path))


def _fetched(url: str, checksum: str) -> Need:
    # Of `train.tsv?download=1` the path's end, of `get?file=train.tsv` that of the whole.
    ends = [part.rpartition("/")[2] for part in (urlsplit(url).path, url)]
    name = next((end for end in ends if Path(end).suffix.lower()[1:] in FORMS), ends[0])
    spec = {"name": name, "checksum": checksum}
    return Need(Node("fetch", spec, "minbert.data.fetch", extra={"url": url}), name)
