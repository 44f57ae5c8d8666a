"""File systems of a test's own: a small one, and one that cannot be written.

They need root and mount; without, a test that asks for one is skipped, and says so.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def mount(*words: str) -> None:
    """Run `mount`, or skip the test where that is not allowed."""
    try:
        subprocess.run(["mount", *words], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        told = getattr(error, "stderr", "") or str(error)
        pytest.skip(f"a file system of its own needs root and mount: {told.strip()}")


@contextmanager
def mounted(folder: Path, *words: str) -> Iterator[Path]:
    """Mount something on the new `folder` for the block."""
    folder.mkdir()
    mount(*words, str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


class SmallDisk:
    """A tmpfs at `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self, leave: int = 0) -> None:
        """Leave `leave` free bytes, rounded up to pages."""
        self.free()
        system = os.statvfs(self.folder)
        pages = system.f_bavail - -(-leave // system.f_frsize)
        with self._ballast.open("wb") as handle:
            os.posix_fallocate(handle.fileno(), 0, max(1, pages * system.f_frsize))

    def free(self) -> None:
        """Give the room back."""
        self._ballast.unlink(missing_ok=True)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[SmallDisk]:
    """Mount a tmpfs of `size` (as mount takes it) on `folder` for the block."""
    with mounted(folder, "-t", "tmpfs", "-o", f"size={size}", "none"):
        yield SmallDisk(folder)


@contextmanager
def read_only(folder: Path, source: Path) -> Iterator[Path]:
    """Show `source` in `folder`, where root cannot write either."""
    with mounted(folder, "--bind", str(source)):
        mount("-o", "remount,ro,bind", str(folder))
        yield folder
