"""A task as it is written down: in `tasks.yaml` beside this file, or under `tasks` in config.yaml.

Both have the same keys, and their files the same reader (`minbert.data.dataset`). What it becomes
is a `minbert.spec.task.Task`.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from minbert.spec.model import URLS, Distinct, Location, Spec, Text

Kind = Literal["classification", "binary", "regression"]

Metric = Literal["accuracy", "macro_f1", "f1", "matthews", "pearson", "spearman"]

METRICS: dict[Kind, tuple[Metric, ...]] = {
    "classification": ("accuracy", "macro_f1", "matthews"),
    "binary": ("accuracy", "f1", "macro_f1", "matthews"),
    "regression": ("pearson", "spearman"),
}
"""The metrics that fit each kind of task, its default first."""

Name = Annotated[Text, BeforeValidator(str, json_schema_input_type=str | int)]
"""The name of a class; files often have 1, 2, 3."""
ClassNames = Annotated[tuple[Name, ...], Distinct]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{32,64}$")]

CHECKSUMS = ("sha256", "git", "md5")


class DataFile(Spec):
    """A file: its path, or a URL with the checksum of what is there.

    The checksum is its SHA-256, or what its publisher gives: git's blob id, or MD5.
    """

    path: Location | None = None
    url: Annotated[str, Field(pattern=f"^({'|'.join(URLS)})")] | None = None
    sha256: Digest | None = None
    git: Digest | None = None
    md5: Digest | None = None

    def mistakes(self) -> Iterator[str]:
        if (self.path is None) == (self.url is None):
            yield "a file is a 'path', or a 'url' with its 'sha256'; give one of them"
        if self.url and not self.checksum:
            yield f"{self.url!r} needs the checksum of what is there, as {{url: ..., sha256: ...}}"

    @property
    def checksum(self) -> str | None:
        """Its checksum with the kind before it, such as `git:9cb7...`, if it is given."""
        return next((f"{k}:{value}" for k in CHECKSUMS if (value := getattr(self, k))), None)


def _to_file(value: Any) -> Any:
    """Take a text as a path or a URL."""
    given = isinstance(value, str)
    return {"url" if value.startswith(URLS) else "path": value} if given else value


SplitFile = Annotated[DataFile, BeforeValidator(_to_file, json_schema_input_type=str | DataFile)]


class Files(Spec):
    """A file for each split, or a `folder` with them (or one file, which is train)."""

    train: SplitFile | None = None
    dev: SplitFile | None = None
    test: SplitFile | None = None
    folder: Location | None = None

    def mistakes(self) -> Iterator[str]:
        named = self.train or self.dev or self.test
        if named if self.folder else not self.train:
            yield "give 'train', a file, and perhaps 'dev' and 'test'; or a 'folder' with them"


def _to_files(value: Any) -> Any:
    """Take a path as that of a folder or of train, and a URL as that of train."""
    if isinstance(value, str) and not value.startswith(URLS):
        return {"folder": value}
    return {"train": value} if isinstance(value, str) or "url" in value else value


Share = Annotated[float, Field(gt=0, le=0.5)]


class TaskEntry(Spec):
    """What is predicted, how it is scored, and where its examples are.

    `classes` are the names of the classes, in their order, or how many there are; of a binary task
    the names of 0 and 1, if they have any. `range` bounds the label of a regression. `metric`
    chooses epochs and stands in tables (default: accuracy, or Pearson r). `sentence1`, `sentence2`,
    `label` and `id` are names of columns; without `sentence2` the task has single sentences,
    without `id` a row is known by its split and place. `format` is by default that of a file's
    ending. `dev` and `test` are shares of train's rows that become these splits, by a hash of the
    text. Rows with a label of `ignore` are left out, such as SNLI's `-`. With `controls` texts may
    have control characters from U+0080 to U+009F, otherwise taken for a mistake in decoding.
    """

    title: str = ""
    kind: Kind
    classes: ClassNames | int | None = None
    range: tuple[int | float, int | float] | None = None
    metric: Metric | None = None
    sentence1: Text
    sentence2: Text | None = None
    label: Text
    id: Text | None = None
    files: Annotated[
        Files, BeforeValidator(_to_files, json_schema_input_type=str | Files | DataFile)
    ]
    format: Literal["tsv", "csv", "jsonl", "parquet"] | None = None
    controls: bool = False
    dev: Share | None = None
    test: Share | None = None
    ignore: ClassNames = ()

    def mistakes(self) -> Iterator[str]:
        fits, needed = {
            "classification": (2 <= self.count <= 1000, "'classes': their names, or 2 to 1000"),
            "binary": (self.classes is None or len(self.names) == 2, "no 'classes', or two names"),
            "regression": (
                self.range is not None and self.range[0] < self.range[1],
                "a 'range', the lowest and highest label such as [0, 5]",
            ),
        }[self.kind]
        if not fits or (self.range and self.kind != "regression"):
            found = f"'classes: {self.classes}' and 'range: {self.range}'"
            yield f"kind {self.kind} needs {needed}; found {found}"
        if self.metric not in (None, *METRICS[self.kind]):
            known = ", ".join(METRICS[self.kind])
            yield f"metric '{self.metric}' is not for kind {self.kind}, which has {known}"
        for split in self.derived_splits:
            if getattr(self.files, split) is not None:
                yield f"'{split}' is both a file and a share of train; give one of them"
        if self.files.train and not (self.files.dev or self.dev):
            yield (
                "has no dev examples to choose the best epoch by: add a file, 'files.dev', or make "
                "the split: 'dev: 0.1'"
            )

    @property
    def count(self) -> int:
        """How many classes it has, as far as that is given."""
        return self.classes if isinstance(self.classes, int) else len(self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its classes, if they have any."""
        return self.classes if isinstance(self.classes, tuple) else ()

    @property
    def derived_splits(self) -> dict[str, float]:
        """The splits that are made of train, and their shares."""
        return {split: share for split in ("dev", "test") if (share := getattr(self, split))}

    @property
    def reading(self) -> dict[str, Any]:
        """All that decides how its files are read, beside their forms."""
        columns = ("sentence1", "sentence2", "label", "id")  # by those of the example table
        return {
            "columns": {ours: theirs for ours in columns if (theirs := getattr(self, ours))},
            "names": list(self.names),
            "ignore": list(self.ignore),
            "made": self.derived_splits,
            "controls": self.controls,
        }


NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")

_OF_TABLES = "overall normalised plain delta_m other all majority selection"
# What a module of heads has already, so that no head can be called so; `smart_apply` is what
# transformers gives every module once it has loaded a model.
_OF_TORCH = """
add_module apply bfloat16 buffers call_super_init children clear compile cpu cuda double
dump_patches eval extra_repr float forward get_buffer get_extra_state get_parameter get_submodule
half ipu items keys load_state_dict modules mtia named_buffers named_children named_modules
named_parameters parameters pop register_backward_hook register_buffer register_forward_hook
register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook
register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module
register_parameter register_state_dict_post_hook register_state_dict_pre_hook requires_grad_
set_extra_state set_submodule share_memory smart_apply state_dict to to_empty train training type
update values xpu zero_grad
"""
RESERVED = frozenset(f"{_OF_TABLES} {_OF_TORCH}".split())
"""Names that mean something else in tables, figures, grids or a model."""
