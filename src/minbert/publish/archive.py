"""A bundle as a file: a zip of what `FILES` allows, with a list of sizes and checksums.

Nothing in a bundle is believed before it was checked, and nothing is written outside the folder
that it is unpacked to.
"""

import hashlib
import json
import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from minbert.base.errors import UserError
from minbert.data.identity import sha256
from minbert.spec.architecture import WEIGHTS
from minbert.store.record import ADOPTED

MANIFEST = "bundle.json"
VERSION = 1
RUN = ("run.json", "history.parquet", "predictions.parquet")
FILES = {
    "backbone": ("config.json",),
    "data": ("report.json", "rows.parquet"),
    "labels": ("labels.parquet", "labels.json"),
    "rows": ("rows.parquet",),
    "train": (*RUN, WEIGHTS),
}
"""The files of each kind that a bundle may have, besides `ADOPTED`: no texts, and weights of runs
alone. Of all other nodes it has the description. These are those of earlier versions, too."""

_MIB = 1 << 20
_EARLIEST = (1980, 1, 1, 0, 0, 0)
_DAMAGE = (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error)
_FOR_PEOPLE = re.compile(
    r"config\.json|command\.txt|variants\.tsv|README\.md|ro-crate-metadata\.json|Snakefile"
    r"|workflow/rules/[\w-]+\.smk|croissant/[\w-]+\.json"
)
_STORED = re.compile(r"(?P<kind>[a-z]+)/[0-9a-f]{16}(?P<seed>/seed(0|[1-9]\d*))?/(?P<file>[\w.]+)")
_DESCRIPTION = re.compile(r"spec/[a-z]+-[0-9a-f]{16}\.json")


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Manifest(BaseModel):
    """What `bundle.json` says. `sources` are as in `store.plans.brought`."""

    format: Literal["minbert bundle"] = "minbert bundle"
    version: Literal[1] = 1
    package: str
    tasks: list[dict[str, Any]] = []
    sources: dict[str, list[str]] = {}
    files: dict[str, _Entry]


class Writer:
    """Adds files to a bundle, the same bytes each time; the last one is the list of them."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive
        self.files: dict[str, dict[str, Any]] = {}

    def add(self, name: str, content: Path | str) -> None:
        """Add a file, or a text."""
        info = zipfile.ZipInfo(name, _EARLIEST)
        info.create_system, info.external_attr = 3, (stat.S_IFREG | 0o644) << 16
        dense = name.endswith((".parquet", ".safetensors"))
        info.compress_type = zipfile.ZIP_STORED if dense else zipfile.ZIP_DEFLATED
        if isinstance(content, Path):
            info.file_size = content.stat().st_size
            found = sha256(content)
            with content.open("rb") as source, self.archive.open(info, "w") as target:
                shutil.copyfileobj(source, target, _MIB)
        else:
            data = content.encode()
            found = hashlib.sha256(data).hexdigest()
            self.archive.writestr(info, data)
        self.files[name] = {"bytes": info.file_size, "sha256": found}

    def end(self, **about: Any) -> None:
        """Add the list."""
        listed = Manifest.model_validate({"files": self.files, **about})
        self.add(MANIFEST, json_text(listed.model_dump()))


def json_text(value: Any) -> str:
    """Return JSON for people, the same each time."""
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def unpack(path: Path, target: Path) -> Manifest:
    """Unpack what a bundle has of the store to `target`; return its list.

    Raises `UserError`, with the reason, for all that `bundle` does not write: other names, sizes
    and checksums that are not those of the list, damage.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = _manifest(archive)
            for name, entry in manifest.files.items():
                if not _FOR_PEOPLE.fullmatch(name):
                    _unpack(archive.getinfo(name), entry, target, archive)
            return manifest
    except _DAMAGE as error:
        raise UserError(f"is damaged, truncated or not a zip file ({error})") from None


def names_in(path: Path) -> Collection[str]:
    """Return the names of a bundle's files. Raises `UserError` if it is none."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _manifest(archive).files
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file; expected a bundle") from None
    except (*_DAMAGE, UserError) as error:
        raise UserError(f"{path}: {error}") from None


def _unpack(info: zipfile.ZipInfo, entry: _Entry, target: Path, archive: zipfile.ZipFile) -> None:
    name = info.orig_filename
    if wrong := _wrong_name(name):
        raise UserError(f"{name} {wrong}")
    most = (16 << 30) if name.endswith(WEIGHTS) else 256 * _MIB
    if info.file_size != entry.bytes or entry.bytes > most:
        raise UserError(
            f"{name} has {info.file_size:,} bytes, expected the {entry.bytes:,} of {MANIFEST}, and "
            f"{most // _MIB:,} MiB at most"
        )
    at = target / name
    at.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(info) as source, at.open("xb") as sink:  # no more than `file_size`
        shutil.copyfileobj(source, sink, _MIB)
    if sha256(at) != entry.sha256:
        raise UserError(f"{name} was changed: its SHA-256 is not the one that is listed")


def _manifest(archive: zipfile.ZipFile) -> Manifest:
    names = [info.orig_filename for info in archive.infolist()]
    if MANIFEST not in names:
        raise UserError(f"has no {MANIFEST}; is it a bundle of `minbert bundle`?")
    try:
        manifest = Manifest.model_validate_json(archive.read(MANIFEST))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(f"{MANIFEST} is no list of files ({where}: {first['msg']})") from None
    if other := {*names} ^ {*manifest.files, MANIFEST}:
        raise UserError(f"{min(other)} is not listed in {MANIFEST}, or missing")
    if len(names) > len(manifest.files) + 1:
        raise UserError("has a file twice")
    return manifest


def _wrong_name(name: str) -> str | None:
    """Return what is wrong with the name of a file in a bundle."""
    if _DESCRIPTION.fullmatch(name):
        return None
    match = _STORED.fullmatch(name)
    if not match or match["file"] not in (*FILES.get(match["kind"], ()), ADOPTED):
        return "is not part of a bundle"
    if (match["seed"] is None) == (match["kind"] == "train"):
        return f"is {'outside' if match['seed'] is None else 'in'} a seed's folder"
    return None
