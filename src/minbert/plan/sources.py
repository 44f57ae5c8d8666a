"""Where the data and the backbone come from that a configuration names, as nodes."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from minbert.base.errors import UserError, did_you_mean
from minbert.base.progress import counted
from minbert.data.identity import DigestCache
from minbert.data.sources import label_files, located, names_in
from minbert.data.tables import form_of
from minbert.data.tokenizer import folder_tokenizer
from minbert.spec.architecture import (
    KNOWN,
    WEIGHTS,
    Architecture,
    architecture_parts,
    read_architecture,
)
from minbert.spec.config import REVISION, Config
from minbert.spec.hugging_face import backbone_files, from_hugging_face
from minbert.spec.model import URLS
from minbert.spec.parts import PARTS, part_module
from minbert.spec.stage import StageSpec
from minbert.spec.task import BUILT_IN, TASKS, data_facts
from minbert.spec.yaml import inside
from minbert.store.job import node_folder
from minbert.store.node import Need, Node, digest, finished
from minbert.store.plans import descriptions

_HUB_NAME = r"[\w-][\w.-]{0,95}(/[\w.-]{1,96})?"
PACKAGED = Path("workflow/backbone")  # the built-in one, below the Snakefile's folder


class Sources:
    """Makes the nodes of data sets and backbone that a configuration names, each once."""

    def __init__(self, config: Config, base: Path) -> None:
        self.config, self.root, self.base = config, Path(config.results), base
        self.cache = DigestCache(self.root / "store" / "digests.json")
        self.checksums: dict[str, str] = {}  # of the files that were looked up, by their paths
        self._stated = {Path(path): of for path, of in config.checksums.items()}
        self.backbone, self.architecture = self._backbone()
        self._check_stated()

    @cache  # noqa: B019 - a process has few of these
    def tokens(self, task: str) -> Node:
        """Return the node of `task`'s tokens."""
        needs = {
            "examples": Need(self.data(task), "examples.parquet"),
            "tokenizer": Need(self.backbone, "tokenizer.json"),
        }
        return Node("tokens", {}, "minbert.data.tokenise", needs=needs, extra={"task": task})

    def features(self, task: str, spec: StageSpec) -> Node:
        """Return the node of `task`'s frozen features, as `spec` pools and pairs them."""
        chosen = spec.tasks[task]
        how = {
            **chosen.model_dump(include={"pooling", "pairing"}),
            "task": task,
            "max_length": spec.max_length,
            "derived": PARTS["pooling"][chosen.pooling],
        }
        needs = {
            "tokens": Need(self.tokens(task), "tokens.parquet"),
            "weights": Need(self.backbone, WEIGHTS),
            "config": Need(self.backbone, "config.json"),
            "tokenizer": Need(self.backbone, "tokenizer.json"),
        }
        parts = (part_module("pooling", chosen.pooling), *architecture_parts(self.architecture))
        extra = self.config.model_dump(include={"device", "precision"})
        return Node("features", how, "minbert.train.features", parts, needs, extra)

    def labels(self, tasks: Iterable[str], file: str) -> dict[str, Need]:
        """Return a file of the public labels of test rows, if any are given, by `labels.TASK`."""
        # The built-in corpus has its own labels.
        given = self.config.labels is not None and self.config.data == "real"
        found, paths = dict[str, Need](), label_files(self.config, TASKS) if given else {}
        for task in (task for task in tasks if task in paths):
            names, files = list(TASKS[task].names), {"labels": self._checksum(paths[task])}
            spec = {"task": task, "of": data_facts(task), "names": names, "files": files}
            needs = {"examples": Need(self.data(task), "examples.parquet")}
            extra = {"paths": {"labels": str(paths[task].absolute())}}
            node = Node("labels", spec, "minbert.data.labels", needs=needs, extra=extra)
            found[f"labels.{task}"] = Need(node, file)
        return found

    def _checksum(self, path: Path, pin: str = "sha256:") -> str:
        """Return the checksum of a file, of the kind of `pin`; of an absent one, what is stated."""
        stated = self._stated.get(path, pin if pin[-1] != ":" else "")
        found = stated if stated and not path.exists() else self.cache.checksum(path, pin)
        if stated not in ("", found):
            raise UserError(
                f"{path}: its checksum is {found}, but the configuration states {stated}; "
                "provide the intended file, or correct the checksum"
            )
        if not path.is_relative_to(self.base / "workflow"):
            self.checksums[str(path)] = found
        return found

    def _check_stated(self) -> None:
        """Refuse the checksum of an absent file beside those that are read: its name is wrong."""
        given, absent = self.config, [path for path in self._stated if not path.exists()]
        tasks = (*BUILT_IN, *given.tasks) if absent else ()
        read = {Path(at) for t in tasks for at, _ in located(t, given, self.base).values()}
        for folder in map(Path, filter(None, (given.backbone, given.labels))):
            read |= {folder / name for name in names_in(folder, given)}
        folders = {path.parent for path in read}  # A bundle's checksums may be of other places.
        for path in (path for path in absent if path not in read and path.parent in folders):
            near = did_you_mean(str(path), map(str, read))
            raise UserError(f"checksums: {path}: no file that is read has this path.{near}")

    @cache  # noqa: B019
    def data(self, task: str) -> Node:
        """Return the node of `task`'s example table."""
        entry = self.config.tasks.get(task) or BUILT_IN[task]
        files, forms = dict[str, str](), dict[str, str]()
        needs, paths = dict[str, Need](), dict[str, str]()
        for name, (at, pin) in located(task, self.config, self.base).items():
            path = Path(at)
            if at.startswith(URLS):
                path = Path(urlsplit(at).path)
                there = {"name": path.name, "checksum": pin}
                fetch = Node("fetch", there, "minbert.data.fetch", extra={"url": at})
                files[name], needs[name] = pin, Need(fetch, path.name)
            else:
                with inside(f"task '{task}', {name}"):
                    files[name], paths[name] = self._checksum(path, pin), str(path.absolute())
            if name != "archive":
                forms[name] = entry.format or form_of(path.name)
        made = {"task": task, "of": data_facts(task), "files": files, "forms": forms}
        limit = self.config.model_dump(include={"limit"}, exclude_none=True)
        spec, extra = made | entry.reading | limit, {"paths": paths}
        return Node("data", spec, "minbert.data.dataset", needs=needs, extra=extra)

    def _backbone(self) -> tuple[Node, Architecture | None]:
        name, revision = self.config.backbone, self.config.revision or ""
        folder = self.base / PACKAGED if name == "builtin" else Path(name)
        shapes, read = None, [folder / name for name in names_in(folder, self.config)]
        if folder.is_dir():
            try:
                shapes, read = from_hugging_face(folder / "config.json"), backbone_files(folder)
                folder_tokenizer(folder, shapes)
            except (AttributeError, LookupError, TypeError, UnicodeError) as error:
                raise UserError(f"{folder}: a file in it cannot be read: {error!r}") from error
            if ".safetensors" not in {path.suffix for path in read}:
                raise UserError(
                    f"{folder}: has no {WEIGHTS}; weights in a pickle are refused: convert them by "
                    "transformers' save_pretrained"
                )
        files = {path.name: self._checksum(path).partition(":")[2] for path in read}
        if files and (shapes := shapes or self._shapes(files)):
            extra = {"paths": {"folder": str(folder.absolute())}}
            parts = architecture_parts(shapes)
            node = Node("backbone", {"files": files}, "minbert.train.backbone", parts, extra=extra)
            return node, shapes
        pinned = re.fullmatch("[0-9a-f]{40}", revision) and (revision != REVISION or name in KNOWN)
        if files or not (pinned and re.fullmatch(_HUB_NAME, name, re.ASCII)):
            result = f", nor a result under {self.root} with its stated checksums" if files else ""
            near = "" if name in KNOWN else did_you_mean(name, KNOWN)
            raise UserError(
                f"backbone {name!r}: no such folder{result}. Give a folder with a Hugging Face "
                "model, a name on its hub with the `revision`, a commit of 40 hex digits of that "
                f"model (found {self.config.revision!r}), or 'builtin'.{near}"
            )
        spec, of_hub = {"hub": name, "revision": revision}, KNOWN.get(name)
        return Node("backbone", spec, "minbert.train.backbone", architecture_parts(of_hub)), of_hub

    def _shapes(self, files: Mapping[str, str]) -> Architecture | None:
        """Return the architecture of a finished backbone that was made from files not here."""
        for described in descriptions(self.root, "backbone"):
            made = node_folder(self.root, "backbone", described["key"])
            if described["spec"].get("files") == files and finished("backbone", made):
                return read_architecture(made / "config.json")
        return None

    @property
    def encoder(self) -> str:
        """What the encoder is (kind, shapes, weights), then what the configuration calls it."""
        spec, arch = self.backbone.spec, self.architecture
        if files := spec.get("files"):
            weights = f"weights {files.get(WEIGHTS, digest(files))[:8]}"  # all files of shards
        else:
            weights = f"commit {spec['revision'][:8]}"
        shapes = arch and f"{arch.family}, {counted(arch.layers, 'layer')}, {arch.hidden} wide, "
        return f"{shapes or ''}{weights} ({self.config.backbone})"
