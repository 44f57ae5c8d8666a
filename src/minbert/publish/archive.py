"""A bundle as a file: a zip of what `FILES` allows, with a list of sizes and checksums.

Nothing in a bundle is believed before it was checked. Only files of allowed names are unpacked, so
nothing is written outside the folder that it is unpacked to; other names, as of pages for people,
are passed over.
"""

import hashlib
import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from minbert.base.errors import UserError
from minbert.spec.architecture import WEIGHTS
from minbert.store.plans import ADOPTED

MANIFEST = "bundle.json"
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

_MOST = 4 << 30
"""Bytes of a file that is unpacked."""
_EARLIEST = (1980, 1, 1, 0, 0, 0)
_DAMAGE = (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error)
_KEY, _SEED = "[0-9a-f]{16}", {"train": r"seed(?:0|[1-9]\d*)/"}
_STORED = [
    re.compile(rf"{kind}/{_KEY}/{_SEED.get(kind, '')}(?:{'|'.join((*names, ADOPTED))})")
    for kind, names in FILES.items()
]
_ALLOWED = [re.compile(rf"spec/[a-z]+-{_KEY}\.json"), *_STORED]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Manifest(BaseModel):
    """What `bundle.json` says."""

    format: Literal["minbert bundle"] = "minbert bundle"
    version: Literal[1] = 1
    package: str
    tasks: list[dict[str, Any]] = []
    files: dict[str, _Entry]


class Writer:
    """Adds files to a bundle, the same bytes each time; the last one is the list of them."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive
        self.files: dict[str, dict[str, Any]] = {}

    def add(self, name: str, content: bytes | str) -> None:
        """Add a file's content."""
        info = zipfile.ZipInfo(name, _EARLIEST)
        dense = name.endswith((".parquet", ".safetensors"))
        info.compress_type = zipfile.ZIP_STORED if dense else zipfile.ZIP_DEFLATED
        data = content.encode() if isinstance(content, str) else content
        self.archive.writestr(info, data)
        self.files[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}

    def end(self, **about: Any) -> None:
        """Add the list."""
        listed = Manifest.model_validate({"files": self.files, **about})
        self.add(MANIFEST, json_text(listed.model_dump()))


def json_text(value: Any) -> str:
    """Return JSON for people, the same each time."""
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def unpack(path: Path, target: Path) -> Manifest:
    """Unpack what a bundle has of the store to `target`; return its list.

    Raises `UserError` for damage, and for sizes and checksums that are not those of the list.
    """
    with _opened(path) as (archive, manifest):
        for name, entry in manifest.files.items():
            if not any(allowed.fullmatch(name) for allowed in _ALLOWED):
                continue
            if (info := archive.getinfo(name)).file_size > _MOST:
                raise ValueError(f"{name} has {info.file_size:,} bytes, allowed are {_MOST:,}")
            data = archive.read(info)
            if (len(data), hashlib.sha256(data).hexdigest()) != (entry.bytes, entry.sha256):
                raise ValueError(f"{name} was changed: its SHA-256 is not the one that is listed")
            at = target / name
            at.parent.mkdir(parents=True, exist_ok=True)
            at.write_bytes(data)
    return manifest


def names_in(path: Path) -> set[str]:
    """Return the names of a bundle's files. Raises `UserError` if it is none."""
    with _opened(path) as (_, manifest):
        return {*manifest.files}


@contextmanager
def _opened(path: Path) -> Iterator[tuple[zipfile.ZipFile, Manifest]]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive, Manifest.model_validate_json(archive.read(MANIFEST))
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file; expected a bundle") from None
    except (ValueError, KeyError, *_DAMAGE) as error:
        why = " ".join(str(error).split())[:200]
        raise UserError(f"{path}: is damaged, or no file of `minbert bundle` ({why})") from None
