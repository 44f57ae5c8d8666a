"""A bundle as a file: a zip of what `FILES` allows, with a list of sizes and checksums.

Nothing in a bundle is believed before it was checked. Only files of allowed names are unpacked, so
nothing is written outside the folder that it is unpacked to; other names, as of pages for people,
are passed over.
"""

import hashlib
import json
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from minbert.base.files import whole
from minbert.publish.checks import refusing
from minbert.spec.architecture import WEIGHTS
from minbert.store.node import KINDS
from minbert.store.plans import ADOPTED

MANIFEST = "bundle.json"
FORMAT = {"format": "minbert bundle", "version": 1}
KINDS_HELD = ("backbone", "data", "labels", "rows", "train")
FILES = {kind: (*KINDS[kind].lasting, ADOPTED) for kind in KINDS_HELD}
FILES["train"] += (WEIGHTS,)
"""The files of each kind that a bundle may have: no texts, and weights of runs alone. Of all other
nodes it has the description."""

_MOST = 4 << 30
"""Bytes of a file that is unpacked."""
_KEY = "[0-9a-f]{16}"
_NAME = re.compile(rf"spec/[a-z]+-{_KEY}\.json|([a-z]+)/{_KEY}/(?:seed\d+/)?([a-z.]+)")


def write(out: Path, files: Iterable[tuple[str, bytes]], **about: Any) -> None:
    """Write a bundle of `files` by name, the same bytes each time; the list of them comes last."""
    listed = {}
    with whole(out) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, data in files:
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
            listed[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        page = json.dumps({**FORMAT, **about, "files": listed}, indent=1)
        archive.writestr(zipfile.ZipInfo(MANIFEST), page, zipfile.ZIP_DEFLATED)


def unpack(path: Path, target: Path | None = None) -> dict[str, Any]:
    """Return a bundle's list, and unpack what it has of a store to `target`.

    Raises `UserError` for damage, sizes and checksums that are not those of the list.
    """
    with refusing(path), zipfile.ZipFile(path) as archive:
        listed: dict[str, Any] = json.loads(archive.read(MANIFEST))
        if not FORMAT.items() <= listed.items():
            raise ValueError(f"{MANIFEST} has a format other than {FORMAT}")
        entries = listed["files"].items()
        for name, entry in entries if target else ():
            found = _NAME.fullmatch(name)
            if not found or (found[1] and found[2] not in FILES.get(found[1], ())):
                continue
            if (size := archive.getinfo(name).file_size) > _MOST:
                raise ValueError(f"{name} has {size:,} bytes, allowed are {_MOST:,}")
            data = archive.read(name)
            if hashlib.sha256(data).hexdigest() != entry["sha256"]:
                raise ValueError(f"{name} was changed: its SHA-256 is not the one that is listed")
            at = target / name
            at.parent.mkdir(parents=True, exist_ok=True)
            at.write_bytes(data)
    return listed
