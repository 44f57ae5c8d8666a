"""One job of the pipeline: what it is to make, from which files, and where.

Every key counts this module: it decides which files a maker reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def node_folder(root: Path, kind: str, key: str, seed: int | None = None) -> Path:
    """Return the folder of a node's files under the results root."""
    folder = root / "store" / kind / key
    return folder / f"seed{seed}" if kind == "train" else folder


@dataclass(frozen=True)
class Job:
    """One node to make: its description, the results root, and for training its seed.

    `memory` is what it needs of a GPU in bytes, if known; `device` is the leased one. `failures`
    gives the error of each (paper, variant) that failed, if results are published nevertheless:
    files that a job needs may then be missing.
    """

    root: Path
    described: dict[str, Any]
    seed: int | None
    threads: int
    memory: int | None = None
    device: str = "cpu"
    failures: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def spec(self) -> dict[str, Any]:
        """What decides the result."""
        return self.described["spec"]

    @property
    def extra(self) -> dict[str, Any]:
        """What does not: labels, paths, devices."""
        return self.described["extra"]

    @property
    def title(self) -> str:
        """A short name for people."""
        return self.described["title"] + ("" if self.seed is None else f" . s{self.seed}")

    @property
    def out(self) -> Path:
        """The folder of the node's files."""
        return node_folder(self.root, self.described["kind"], self.described["key"], self.seed)

    def need(self, name: str) -> Path:
        """Return the path of the file that is needed under `name`."""
        need = self.described["needs"][name]
        seed = self.seed if need["seed"] is None else need["seed"]
        return node_folder(self.root, need["kind"], need["key"], seed) / need["file"]

    def needs(self, prefix: str) -> dict[str, Path]:
        """Return {rest of name: path} for the needs whose name begins with `prefix.`."""
        start = prefix + "."
        names = [name for name in self.described["needs"] if name.startswith(start)]
        return {name.removeprefix(start): self.need(name) for name in names}
