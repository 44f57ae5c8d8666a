"""study/digests.json: what the bundles' runs were trained on, which newer records say themselves.

python study/digests.py      # needs data/ (README.md); makes tokens anew, in half a minute

It was made by the code of the bundles' runs: other code gives nodes other keys, and is refused.
"""

import tempfile
import zipfile
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError
from minbert.base.files import write_json
from minbert.commands.provenance import backbone_digest
from minbert.commands.steps import load_job, run_job
from minbert.data.digests import task_digests
from minbert.plan.describe import write
from minbert.plan.plan import Plan
from minbert.spec.config import load_config
from minbert.store.node import Node

STUDY = Path("study")
CONFIGURATIONS = (("minilm",), ("minilm", "gte"))
"""Of each encoder; those of the other questions have the same tokens."""


def digests(root: Path) -> dict[str, dict[str, Any]]:
    """Return {`tokens`: {key: {task, splits}}, `backbone`: {key: digest}} of all bundles.

    Examples, tokens and backbones are made under `root`. Raises `UserError` if the bundles' are of
    other keys.
    """
    found: dict[str, dict[str, Any]] = {"tokens": {}, "backbone": {}}
    for names in CONFIGURATIONS:
        files = [STUDY / f"{name}.yaml" for name in ("v1/settings", *names)]
        plan = Plan.of(load_config(files, {"results": str(root)}), Path())
        write(plan)
        for node in plan.nodes.values():
            if node.kind in found:
                _make(node, root)
        for node in (node for node in plan.nodes.values() if node.kind == "tokens"):
            table = task_digests(node.folder(root) / "tokens.parquet")
            found["tokens"][node.key] = {"task": node.extra["task"], "splits": table}
        backbone = plan.sources.backbone
        weights = backbone.folder(root) / "model.safetensors"
        found["backbone"][backbone.key] = backbone_digest(weights)
    for kind, known in found.items():
        if other := bundled(kind) - known.keys():
            raise UserError(f"the bundles have {kind} of other keys: {', '.join(sorted(other))}")
    return found


def _make(node: Node, root: Path) -> None:
    for need in node.needs.values():
        _make(need.node, root)
    if not all((node.folder(root) / name).exists() for name in node.outputs):
        run_job(load_job(root, node.kind, node.key, None, threads=1))


def bundled(kind: str) -> set[str]:
    """Return the keys of the nodes of a kind that the bundles describe."""
    names: set[str] = set()
    for path in STUDY.glob("*.zip"):
        with zipfile.ZipFile(path) as archive:
            names |= {Path(name).stem for name in archive.namelist() if name.startswith("spec/")}
    return {name.partition("-")[2] for name in names if name.startswith(f"{kind}-")}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        write_json(STUDY / "digests.json", digests(Path(folder)))
