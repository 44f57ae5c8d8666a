"""Where the data and the backbone come from that a configuration names, as nodes."""

import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
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
from minbert.data.tokenizer import TOKENIZERS, folder_tokenizer
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
from minbert.store.node import Need, Node, canonical, digest, finished
from minbert.store.plans import brought, described_in

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
        self._brought = brought(root)
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
            known = {task: self._known("labels", source, {}, task) for task in TASKS}
            if found := {task: (_files(of["spec"]), folder) for task, of in known.items() if of}:
                return found
        paths = label_files(folder, TASKS)
        return {task: ({"labels": self._checksum(path)}, path) for task, path in paths.items()}

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

    def _known(
        self,
        kind: str,
        source: str,
        stated: Mapping[str, str],
        task: str | None = None,
        form: str | None = None,
    ) -> dict[str, Any] | None:
        """Return the description of a finished node that stands for a source that is not here.

        Either it was made of just the files that the configuration has `stated`, or a bundle
        brought it for the `source` of this very name, and nothing else is stated. Files that were
        read in another `form` than the one that is stated are not meant. None if nothing is stated
        or brought. Raises `UserError` if there is no node of what is stated, or several, made from
        different files or forms of them, as it cannot be told which is meant.
        """
        found: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        for path in sorted((self.root / "store" / "spec").glob(f"{kind}-*.json")):
            with suppress(UserError):
                described = described_in(path)
                spec, folder = described["spec"], node_folder(self.root, kind, described["key"])
                if "files" not in spec or spec.get("task") != task:
                    continue
                files, forms = _files(spec), spec.get("forms", {})
                named = source in self._brought.get(path.stem, [])
                meant = stated.items() <= files.items() if named else stated and files == stated
                meant = meant and not (form and {*forms.values()} - {form})
                if meant and finished(kind, spec, folder):
                    # Nodes of other code or columns may be made from the same files.
                    found[canonical(files)][canonical(forms)] = described
        for forms in found.values():
            if len(forms) > 1:  # Earlier versions did not say in which form the files are.
                forms.pop("{}", None)
        several = [described for forms in found.values() for described in forms.values()]
        if len(several) > 1 or (stated and not several):
            what = f"{kind} of task '{task}'" if task else kind
            keys = ", ".join(described["key"] for described in several)
            made = "none of the stated checksums" + (f" as {form}" if form else "")
            made = f"results made from several: {keys}" if several else made
            raise UserError(
                f"the files of the {what}, {source}, are not there, and {self.root}/store has "
                f"{made}. Give the files, state their `checksums` or their `format`, or import a "
                "bundle of them"
            )
        return several[0] if several else None

    def _data(self, task: str) -> Node:
        entry = self.config.tasks.get(task) or BUILT_IN[task]
        named, places = located(task, self.config, self.base)
        local = {name: Path(place.at) for name, place in places.items() if not place.is_url}
        source, known, needs = ", ".join(named), None, dict[str, Need]()
        if named and not any(Path(path).exists() for path in named):
            given = self._given(named, places)
            known = self._known("data", source, given, task, entry.format)
        if known:
            found, forms = _files(known["spec"]), dict(known["spec"].get("forms", {}))
            local = {name: local.get(name, Path(named[0])) for name in found}
        else:
            found, forms = {name: place.pin for name, place in places.items()}, {}
            for name, path in local.items():
                check_file(task, name, path)
                found[name] = self._checksum(path, places[name].pin)
            needs = {n: _fetched(p.at, p.pin) for n, p in places.items() if p.is_url}
        for name in found.keys() - forms.keys() - {"archive"}:
            try:
                file = needs[name].file if name in needs else str(local[name])
                forms[name] = entry.format or form_of(file)
            except UserError as error:
                way = "; download it yourself first" if name in needs else ""
                raise UserError(f"config: tasks.{task}.files: {error}{way}") from None
        spec: dict[str, Any] = {"task": task, "of": data_facts(task), "files": found}
        spec |= {"forms": forms, **entry.reading}
        if self.config.limit is not None:
            spec["limit"] = self.config.limit
        paths = {name: str(_absolute(path)) for name, path in local.items()}
        extra = {"paths": paths, "source": source}
        return Node("data", spec, "minbert.data.dataset", needs=needs, extra=extra)

    def _given(self, named: Sequence[str], places: Mapping[str, Place]) -> dict[str, str]:
        """Return the checksums that are given for the files of a task that are not there."""
        pinned = {name: place.pin for name, place in places.items() if place.pin[-1] != ":"}
        # The files of a folder are called by their splits.
        folder = _absolute(named[0])
        below = {p.stem: p for p in self._stated if p.parent == folder and p.stem in SPLITS}
        at = {name: _absolute(place.at) for name, place in places.items()} | below
        return pinned | {n: self._stated[path] for n, path in at.items() if path in self._stated}

    def _backbone(self) -> tuple[Node, Architecture | None]:
        name, revision = self.config.backbone, self.config.revision or ""
        if name == "builtin":
            name = str(self.base / PACKAGED)
        folder, shapes = Path(name), None
        stated = {p.name: of for p, of in self._stated.items() if p.parent == _absolute(name)}
        if folder.is_dir():
            shapes = from_hugging_face(folder / "config.json")
            if any((folder / name).is_file() for name in TOKENIZERS):
                folder_tokenizer(folder, shapes)
            read = backbone_files(folder)
            sums = {path: self._checksum(path) for path in {*read, *map(folder.joinpath, stated)}}
            files = {path.name: sums[path].partition(":")[2] for path in read}
        elif stated or not revision:
            plain = {name: of.removeprefix("sha256:") for name, of in stated.items()}
            if known := self._known("backbone", name, plain):
                made = node_folder(self.root, "backbone", known["key"])
                shapes, files = read_architecture(made / "config.json"), known["spec"]["files"]
        if shapes:
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


def _files(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the checksums of a node's files; bundles of earlier versions had LMRD's alone."""
    files = spec["files"]
    return {"archive": files} if isinstance(files, str) else dict(files)


def _fetched(url: str, checksum: str) -> Need:
    # Of `train.tsv?download=1` the path's end, of `get?file=train.tsv` that of the whole.
    ends = [part.rpartition("/")[2] for part in (urlsplit(url).path, url)]
    name = next((end for end in ends if Path(end).suffix.lower()[1:] in FORMS), ends[0])
    spec = {"name": name, "checksum": checksum}
    return Need(Node("fetch", spec, "minbert.data.fetch", extra={"url": url}), name)
