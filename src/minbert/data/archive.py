"""Reading a tar archive without ever unpacking it: nothing of it can be written anywhere."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from minbert.common.errors import UserError

MAX_MEMBER_BYTES = 64 << 20


def read_members(
    archive: Path, max_member_bytes: int = MAX_MEMBER_BYTES
) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of each regular file of a tar archive, plain or compressed, in order.

    Members are read in memory, one at a time. Raises `UserError` naming the member for an
    absolute name, a `..` in it, a link, a device or a pipe, or more than `max_member_bytes`, and
    naming the archive if it is damaged or no archive.
    """
    if not archive.is_file():
        raise UserError(f"no such archive: {archive}")
    try:
        # The stream mode reads forwards only: one pass over the compressed bytes.
        with tarfile.open(archive, "r|*") as members:
            for member in members:
                _check(archive, member, max_member_bytes)
                if member.isfile():
                    handle = members.extractfile(member)
                    assert handle is not None  # only members that are no files have none
                    content = handle.read()
                    if len(content) != member.size:
                        raise tarfile.ReadError(f"'{member.name}' is cut short")
                    yield member.name, content
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise UserError(
            f"{archive}: not a whole tar archive ({error}); delete it and fetch it again"
        ) from error


def _check(archive: Path, member: tarfile.TarInfo, max_member_bytes: int) -> None:
    name = PurePosixPath(member.name)
    fault = None
    if name.is_absolute() or "\\" in member.name or member.name[1:2] == ":":
        fault = "has an absolute or foreign name"
    elif ".." in name.parts:
        fault = "has '..' in its name"
    elif member.issym() or member.islnk():
        fault = f"is a link to '{member.linkname}'"
    elif not (member.isfile() or member.isdir()):
        fault = "is neither a file nor a folder"
    elif member.size > max_member_bytes:
        fault = f"has {member.size:,} bytes, more than {max_member_bytes:,}"
    if fault:
        raise UserError(
            f"{archive}: member '{member.name}' {fault}; nothing was unpacked. "
            "Fetch the archive from its publisher again"
        )
