"""A task as it is written down: in `tasks.yaml` beside this file, or under `tasks` in config.yaml.

Both have the same keys, and their files the same reader (`minbert.data.dataset`). What it becomes
is a `minbert.spec.task.Task`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from minbert.spec.model import URLS, Distinct, Location, Spec, Text
from minbert.spec.protocol import SPLITS

Kind = Literal["classification", "binary", "regression"]

Metric = Literal["accuracy", "macro_f1", "f1", "matthews", "pearson", "spearman"]

METRICS: dict[Kind, tuple[Metric, ...]] = {
    "classification": ("accuracy", "macro_f1", "matthews"),
    "binary": ("accuracy", "f1", "macro_f1", "matthews"),
    "regression": ("pearson", "spearman"),
}
"""The metrics that fit each kind of task, its default first."""

MOST_CLASSES = 1000


def _as_text(value: Any) -> Any:
    """Take the numbers among names of classes as names: files often have 1, 2, 3."""
    if isinstance(value, list | tuple):
        return tuple(
            str(each) if isinstance(each, int) and not isinstance(each, bool) else each
            for each in value
        )
    return value


Name = Annotated[Text, Field(max_length=100)]
ClassNames = Annotated[
    tuple[Name, ...],
    Distinct,
    BeforeValidator(_as_text, json_schema_input_type=tuple[str | int, ...]),
]
Bound = Annotated[float, Field(ge=-1e6, le=1e6)]


def _to_file(value: Any) -> Any:
    """Take a text as a path or a URL."""
    if not isinstance(value, str):
        return value
    return {"url" if value.startswith(URLS) else "path": value}


CHECKSUMS = ("sha256", "git", "md5")


class DataFile(Spec):
    """A file: its path, or a URL with the checksum of what is there.

    The checksum is its SHA-256, or what its publisher gives: git's blob id, or MD5.
    """

    path: Location | None = None
    url: Annotated[str, Field(pattern=f"^({'|'.join(URLS)})")] | None = None
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    git: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")] | None = None
    md5: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None = None

    def mistakes(self) -> Iterator[str]:
        given = [kind for kind in CHECKSUMS if getattr(self, kind)]
        if (self.path is None) == (self.url is None):
            yield "a file is a 'path', or a 'url' with its 'sha256'; give one of them"
        if self.url is not None and not given:
            yield (
                f"{self.url!r} needs the checksum of what is there, as {{url: ..., sha256: ...}} "
                "(`sha256sum FILE` prints it)"
            )
        if len(given) > 1:
            yield f"'{given[0]}' and '{given[1]}' are given; one checksum is enough"

    @property
    def checksum(self) -> str | None:
        """Its checksum with the kind before it, such as `git:9cb7...`, if it is given."""
        given = ((kind, getattr(self, kind)) for kind in CHECKSUMS)
        return next((f"{kind}:{value}" for kind, value in given if value), None)


SplitFile = Annotated[DataFile, BeforeValidator(_to_file, json_schema_input_type=str | DataFile)]


class Files(Spec):
    """A file for each split, or a `folder` with them (or one file, which is train)."""

    train: SplitFile | None = None
    dev: SplitFile | None = None
    test: SplitFile | None = None
    folder: Location | None = None

    def mistakes(self) -> Iterator[str]:
        named = [split for split in SPLITS if getattr(self, split) is not None]
        if self.folder is not None and named:
            yield (
                f"has a 'folder', whose files are the splits, and '{named[0]}'; give the folder "
                "alone, or each split its file"
            )
        if self.folder is None and self.train is None:
            yield "needs 'train', a file; 'dev' and 'test' may be files too"


def _to_files(value: Any) -> Any:
    """Take a path as that of a folder or of train, and a URL as that of train."""
    if isinstance(value, str):
        return {"train": value} if value.startswith(URLS) else {"folder": value}
    return {"train": value} if isinstance(value, Mapping) and "url" in value else value


Share = Annotated[float, Field(gt=0, le=0.5)]


class TaskEntry(Spec):
    """What is predicted, how it is scored, and where its examples are.

    `classes` are the names of the classes, in their order, or how many there are; of a binary task
    the names of 0 and 1, if they have any. `range` bounds the label of a regression. `metric` is
    the task's own, which chooses epochs and stands in tables (default: accuracy, or Pearson r).
    `sentence1`, `sentence2`, `label` and `id` are names of columns; without `sentence2` the task
    has single sentences, without `id` a row is known by its split and place.

    A file's `format` is that of its ending, unless it is given. `dev` and `test` are shares of
    train's rows that become these splits, chosen by a hash of the text, so that rows with the same
    text stay together. Rows whose label is one of `ignore` are left out, such as SNLI's `-`. With
    `controls` texts may have control characters from U+0080 to U+009F, which are otherwise taken
    for a mistake in decoding.
    """

    title: Annotated[str, Field(max_length=60, pattern=r"^[^\n\r\t]*$")] = ""
    kind: Kind
    classes: ClassNames | int | None = None
    range: tuple[Bound, Bound] | None = None
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
        if self.kind == "classification":
            n = self.classes if isinstance(self.classes, int) else len(self.classes or ())
            if not 2 <= n <= MOST_CLASSES:
                yield (
                    "kind classification needs 'classes', their names such as [world, sports], or "
                    f"how many there are, 2 to {MOST_CLASSES}; found {self.classes!r}"
                )
        if self.kind == "binary" and self.classes is not None and len(self.names) != 2:
            yield f"kind binary has two 'classes', the names of 0 and 1; found {self.classes!r}"
        if self.kind == "regression" and self.classes is not None:
            yield "kind regression predicts a number: it has no 'classes', but a 'range'"
        if (self.kind == "regression") != (self.range is not None):
            yield (
                "'range', the lowest and highest label such as [0, 5], and 'kind: regression' go "
                f"together; found 'kind: {self.kind}' and 'range: {self.range}'"
            )
        if self.range and self.range[0] >= self.range[1]:
            yield f"'range' is [lowest, highest], found {list(self.range)}"
        if self.metric and self.metric not in METRICS[self.kind]:
            yield (
                f"metric '{self.metric}' is not for kind {self.kind}, which has "
                f"{', '.join(METRICS[self.kind])}"
            )
        columns = [*self.columns.values()]
        if twice := [name for name in columns if columns.count(name) > 1]:
            yield f"column '{twice[0]}' is named twice; each holds one thing"
        for split in self.derived_splits:
            if getattr(self.files, split) is not None:
                yield f"'{split}' is both a file and a share of train; give one of them"
        if self.files.train and self.files.dev is None and self.dev is None:
            yield (
                "has no dev examples to choose the best epoch by: add a file, 'files.dev', or make "
                "the split: 'dev: 0.1'"
            )
        if both := [name for name in self.ignore if name in self.names]:
            yield f"'{both[0]}' is one of 'classes' and of 'ignore'; keep one of them"
        if (taken := sum(self.derived_splits.values())) >= 1:
            yield (
                f"'dev' and 'test' are shares of train whose sum is {taken:g}, expected less than "
                "1: nothing is left to train on"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its classes, if they have any."""
        return self.classes if isinstance(self.classes, tuple) else ()

    @property
    def columns(self) -> dict[str, str]:
        """The names of the columns in its files, by those of the example table."""
        found = {"sentence1": self.sentence1, "sentence2": self.sentence2, "label": self.label}
        return {ours: theirs for ours, theirs in {**found, "id": self.id}.items() if theirs}

    @property
    def derived_splits(self) -> dict[str, float]:
        """The splits that are made of train, and their shares."""
        shares = {"dev": self.dev, "test": self.test}
        return {split: share for split, share in shares.items() if share is not None}

    @property
    def reading(self) -> dict[str, Any]:
        """All that decides how its files are read, beside their forms."""
        return {
            "columns": self.columns,
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
named_parameters
parameters pop register_backward_hook register_buffer register_forward_hook
register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook
register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module
register_parameter register_state_dict_post_hook register_state_dict_pre_hook requires_grad_
set_extra_state set_submodule share_memory smart_apply state_dict to to_empty train training type
update values xpu zero_grad
"""
RESERVED = frozenset(f"{_OF_TABLES} {_OF_TORCH}".split())
"""Names that mean something else in tables, figures, grids or a model."""
