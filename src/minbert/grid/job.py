"""One job of the pipeline: what it is to make, from which files, and where."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minbert.common.environment import versions
from minbert.common.errors import UserError
from minbert.common.files import read_json
from minbert.grid.code import code_modules, differs, files_digest
from minbert.grid.node import SEEDED, description_path, node_folder


@dataclass(frozen=True)
class Job:
    """One node to make: its description, the results root, and for training its seed.

    `memory` is what it needs of a GPU, in bytes; None: not known.
    """

    root: Path
    described: dict[str, Any]
    seed: int | None
    threads: int
    memory: int | None = None

    @classmethod
    def load(
        cls,
        root: Path,
        kind: str,
        key: str,
        seed: int | None,
        threads: int,
        memory: int | None = None,
    ) -> Job:
        """Read the description of a node; refuse if its code is not that which was planned."""
        path = description_path(root, kind, key)
        if not path.exists():
            raise UserError(
                f"no {kind} with key {key} is planned under {root} ({path} is missing); "
                "`snakemake -n all` writes what is planned, `minbert plan` lists the keys"
            )
        described = read_json(path)
        if kind in SEEDED and seed is None:
            raise UserError(f"a {kind} job needs --seed")
        changed = []
        if described.get("files") != files_digest(described["code"]):
            changed = differs(described["code"], code_modules(described["roots"]))
        if changed:
            raise UserError(
                f"the code of {kind} {key} has changed since it was planned "
                f"({', '.join(changed)}): run snakemake again, which plans it anew"
            )
        wanted = described["spec"].get("dependencies", {})
        if wanted != (here := versions(wanted)):
            raise UserError(
                f"{kind} {key} was planned for {_listed(wanted)}, and this job runs with "
                f"{_listed(here)}: run snakemake in the environment of its jobs, or take "
                "`dependencies` out of config.yaml"
            )
        return cls(root, described, seed, threads, memory)

    @property
    def spec(self) -> dict[str, Any]:
        """What decides the result."""
        return self.described["spec"]

    @property
    def extra(self) -> dict[str, Any]:
        """What does not: labels, paths, devices."""
        return self.described["extra"]

    @property
    def processes(self) -> int:
        """How many processes share the job."""
        return int(self.described.get("processes", 1))

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


def _listed(packages: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in packages.items())
