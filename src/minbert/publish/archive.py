"""A bundle as a file: what may be in it, the same bytes each time, and reading it with suspicion.

A bundle is a zip with `bundle.json`, which lists every other file with its size and SHA-256. Who
made it is unknown: nothing in it is believed before it was checked, and nothing is written outside
the folder that it is unpacked to.
"""

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from minbert.base.errors import UserError, printable
from minbert.data.identity import sha256
from minbert.store.kinds import KINDS
from minbert.store.node import LET_GO
from minbert.store.record import ADOPTED

MANIFEST = "bundle.json"
VERSION = 1
WEIGHTS = "model.safetensors"
TAKEN = ("backbone", "data", "labels", "rows", "train")
"""The kinds whose files are in a bundle; of all others there is the description alone."""

_MIB = 1 << 20
_LARGEST = {".safetensors": 16 << 30, ".parquet": 256 * _MIB}
_OTHERS = 64 * _MIB
_MOST = 200_000
_DAMAGE = (
    *(zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error),
    *(UnicodeDecodeError, OSError),
)
_EARLIEST = (1980, 1, 1, 0, 0, 0)
_ABOUT = re.compile(
    r"README\.md|ro-crate-metadata\.json|Snakefile|workflow/rules/[A-Za-z0-9_-]+\.smk|config\.json"
    r"|command\.txt|variants\.tsv|croissant/[a-z][a-z0-9_-]{0,63}-[0-9a-f]{16}\.json"
)
_STORED = re.compile(
    r"(?P<kind>[a-z]+)/(?P<key>[0-9a-f]{16})(/seed(?P<seed>0|[1-9][0-9]{0,18}))?/(?P<file>[a-z_.]+)"
)
_DESCRIPTION = re.compile(r"spec/(?P<kind>[a-z]+)-(?P<key>[0-9a-f]{16})\.json")


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Manifest(BaseModel):
    """What `bundle.json` says. `sources` are as in `store.plans.brought`."""

    format: Literal["minbert bundle"] = "minbert bundle"
    version: int = VERSION
    package: str
    tasks: list[dict[str, Any]] = []
    sources: dict[str, list[str]] = {}
    files: dict[str, _Entry]


def files_of(kind: str) -> tuple[str, ...]:
    """Return the names of a node's files that a bundle may have: no texts, and weights of runs."""
    left_out = {file for of, file in LET_GO if of == kind != "train"}
    return (*(file for file in KINDS[kind].outputs if file not in left_out), ADOPTED)


class Writer:
    """Adds files to a bundle; the last one is the list of them."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive
        self.files: dict[str, dict[str, Any]] = {}

    def add(self, name: str, content: Path | str) -> None:
        """Add a file, or a text; `UserError` if `unpack` would refuse its name."""
        if wrong := _wrong_name(name):
            raise UserError(
                f"{content if isinstance(content, Path) else name}: cannot be in a bundle: {name} "
                f"{wrong}. Name it with letters, digits, - and _ alone, or move it away"
            )
        if isinstance(content, Path):
            size = content.stat().st_size
            self.files[name] = {"bytes": size, "sha256": sha256(content)}
            with content.open("rb") as source, self._open(name, size) as target:
                shutil.copyfileobj(source, target, _MIB)
        else:
            data = content.encode()
            found = hashlib.sha256(data).hexdigest()
            self.files[name] = {"bytes": len(data), "sha256": found}
            with self._open(name, len(data)) as target:
                target.write(data)

    def end(self, **about: Any) -> None:
        """Add the list."""
        listed = Manifest.model_validate({"files": self.files, **about})
        self.add(MANIFEST, json_text(listed.model_dump()))

    def _open(self, name: str, size: int) -> IO[bytes]:
        info = zipfile.ZipInfo(name, _EARLIEST)
        info.create_system, info.external_attr = 3, (stat.S_IFREG | 0o644) << 16
        dense = name.endswith((".parquet", ".safetensors"))
        info.compress_type = zipfile.ZIP_STORED if dense else zipfile.ZIP_DEFLATED
        info.file_size = size
        return self.archive.open(info, "w")


def json_text(value: Any) -> str:
    """Return JSON for people, the same each time."""
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


class Refused:
    """Raises `UserError` naming the bundle and, if there is one, the file in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, why: str, name: str = "") -> UserError:
        where = f", {printable(name)[:200]}" if name else ""
        return UserError(f"{self.path}{where}: {why}. Nothing was imported.")


def unpack(path: Path, target: Path) -> Manifest:
    """Unpack a bundle to `target`, files of the store to `target`/store; return its list.

    Raises `UserError`, with the reason, for all that `bundle` does not write: other names, links,
    sizes and checksums that are not those of the list, damage.
    """
    refused = Refused(path)
    with _opened(path, refused) as archive:
        infos = _entries(archive, refused)
        manifest = _manifest(archive, infos, refused)
        _check_sizes(archive, infos, manifest, target, refused)
        for name, entry in manifest.files.items():
            at = target / (name if _ABOUT.fullmatch(name) else f"store/{name}")
            at.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(infos[name]) as source, at.open("xb") as sink:
                found, size = _copy(source, sink, entry.bytes)
            if size != entry.bytes:
                raise refused(f"does not have the {entry.bytes:,} bytes that are listed", name)
            if found != entry.sha256:
                raise refused("was changed: its SHA-256 is not the one that is listed", name)
    return manifest


@contextmanager
def _opened(path: Path, refused: Refused) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except _DAMAGE as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # of an offset below 0
            raise
        raise refused(f"is damaged, truncated or not a zip file ({error})") from None


def _entries(archive: zipfile.ZipFile, refused: Refused) -> dict[str, zipfile.ZipInfo]:
    """Return the entries by name, all of them plain files with names that a bundle may have."""
    found: dict[str, zipfile.ZipInfo] = {}
    if len(archive.infolist()) > _MOST:
        raise refused(f"has {len(archive.infolist()):,} files, expected {_MOST:,} at most")
    for info in archive.infolist():
        name = info.orig_filename
        if name in found:
            raise refused("is in the zip twice", name)
        if wrong := _wrong_name(name):
            raise refused(wrong, name)
        if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
            raise refused("is a link or another special file, expected plain files", name)
        if info.flag_bits & 1:
            raise refused("is encrypted", name)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise refused("is compressed by a method that bundles do not use", name)
        found[name] = info
    return found


def _wrong_name(name: str) -> str | None:
    """Return what is wrong with the name of a file in a bundle."""
    if name == MANIFEST or _ABOUT.fullmatch(name):
        return None
    if match := _DESCRIPTION.fullmatch(name):
        return None if match["kind"] in KINDS else f"describes the unknown kind '{match['kind']}'"
    if not (match := _STORED.fullmatch(name)):
        return "is not part of a bundle"
    if match["kind"] not in TAKEN:
        known = "bundles contain files of " + ", ".join(TAKEN)
        return f"is a file of the kind '{match['kind']}'; {known}"
    if (match["seed"] is not None) != KINDS[match["kind"]].seeded:
        return f"is {'outside' if match['seed'] is None else 'in'} a seed's folder"
    if match["file"] not in files_of(match["kind"]):
        return f"is not part of a bundle, for the kind '{match['kind']}'"
    return None


def _manifest(
    archive: zipfile.ZipFile, infos: dict[str, zipfile.ZipInfo], refused: Refused
) -> Manifest:
    if MANIFEST not in infos:
        raise refused(f"has no {MANIFEST}; is it a bundle of `minbert bundle`?")
    if infos[MANIFEST].file_size > _OTHERS:
        raise refused(f"has more than {_OTHERS // _MIB} MiB", MANIFEST)
    try:
        read = json.loads(archive.read(infos[MANIFEST]))
        if isinstance(read, dict) and read.get("version", VERSION) != VERSION:
            found = str(read["version"])[:40]
            raise refused(
                f"is a bundle of version {found}, and this minbert reads version {VERSION}; "
                "make it again, or use the minbert that made it"
            )
        manifest = Manifest.model_validate(read)
        json_text(manifest.sources).encode()  # as it is written
    except (ValueError, RecursionError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else None
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}" if first else str(error)
        raise refused(f"is not a list of files ({why[:200]})", MANIFEST) from None
    present = infos.keys() - {MANIFEST}
    if unlisted := sorted(present - manifest.files.keys()):
        raise refused(f"is not listed in {MANIFEST}", unlisted[0])
    if gone := sorted(manifest.files.keys() - present):
        raise refused(f"is listed in {MANIFEST}, but missing", gone[0])
    return manifest


def _check_sizes(
    archive: zipfile.ZipFile,
    infos: dict[str, zipfile.ZipInfo],
    manifest: Manifest,
    target: Path,
    refused: Refused,
) -> None:
    """Refuse sizes that contradict each other, are too large, or do not fit on the disk."""
    for name, entry in manifest.files.items():
        if infos[name].file_size != entry.bytes:
            listed = f"{infos[name].file_size:,} bytes by the zip, {entry.bytes:,} by {MANIFEST}"
            raise refused(f"has {listed}", name)
        most = _LARGEST.get(Path(name).suffix, _OTHERS)
        if entry.bytes > most:
            raise refused(f"has {entry.bytes:,} bytes, expected {most // _MIB} MiB at most", name)
    described = sum(e.bytes for name, e in manifest.files.items() if name.startswith("spec/"))
    if described > _OTHERS:  # They are in memory together.
        found = f"{described:,} bytes of descriptions"
        raise refused(f"has {found}, expected {_OTHERS // _MIB} MiB at most")
    packed = sum(info.compress_size for info in infos.values())
    if packed > os.stat(str(archive.filename)).st_size:
        raise refused("has files that overlap: they take more room than the whole")
    needed, free = sum(e.bytes for e in manifest.files.values()), shutil.disk_usage(target).free
    if needed > free:
        raise refused(f"needs {needed:,} bytes, and the disk has {free:,} left")


def _copy(source: IO[bytes], sink: IO[bytes], size: int) -> tuple[str, int]:
    """Copy at most `size` bytes and one more; return the SHA-256 and the number of bytes."""
    found, done = hashlib.sha256(), 0
    while block := source.read(min(_MIB, size + 1 - done)):
        done += len(block)
        found.update(block)
        sink.write(block)
        if done > size:
            break
    sink.flush()
    os.fsync(sink.fileno())
    return found.hexdigest(), done
