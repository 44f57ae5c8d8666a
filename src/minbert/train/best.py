"""The weights of the best epoch, in a file: in memory they would be the model once more."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from minbert.common.files import whole
from minbert.model.weights import load_weights, save_weights
from minbert.train.state import file_checksum


class Best:
    """Keeps the weights of a run's best epoch in a file of `folder`, named after the epoch.

    The file that a saved state names stays until a state that names another one is whole.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.crc32 = 0
        """The checksum of the file that was written last; 0 if none was."""
        self._named = 0

    def path(self, epoch: int) -> Path:
        """Return where the weights of `epoch` are; without a best epoch (0) there is no file."""
        return self.folder / f"best-{epoch}.safetensors"

    def keep(self, epoch: int, weights: Mapping[str, Tensor]) -> None:
        """Write the weights of `epoch`, the best one so far; tensors of any device."""
        save_weights(self.path(epoch), weights)
        self.crc32 = file_checksum(self.path(epoch))
        self._remove_but(epoch, self._named)

    def is_named(self, epoch: int) -> None:
        """Note that a saved state names the file of `epoch`, and is whole."""
        self._named = epoch
        self._remove_but(epoch)

    def resume(self, epoch: int, crc32: int) -> str:
        """Take up the file that a saved state names; return what is wrong with it, or ""."""
        path = self.path(epoch)
        if epoch and not path.exists():
            return f"{path} is gone"
        if epoch and file_checksum(path) != crc32:
            return f"{path} is damaged: its checksum is not the one in the state"
        self.crc32, self._named = crc32, epoch
        return ""

    def load(self, epoch: int) -> dict[str, Tensor]:
        """Read the weights of `epoch` on the CPU."""
        return load_weights(self.path(epoch))

    def copy(self, epoch: int, to: Path) -> None:
        """Copy the file of `epoch` to `to`, whole or not at all."""
        with whole(to) as temporary:
            shutil.copyfile(self.path(epoch), temporary)

    def clear(self) -> None:
        """Remove what was kept: the run has ended, and no state is left that names it."""
        self._remove_but()

    def _remove_but(self, *epochs: int) -> None:
        kept = {self.path(epoch) for epoch in epochs}
        for path in self.folder.glob("best-*.safetensors"):
            if path not in kept:
                path.unlink()
