"""The short form of the chaos (`make chaos` is the long one): three kills, and no difference."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from chaos.campaign import Campaign
from chaos.compare import compare
from chaos.grid import again

from .project import Project

pytestmark = pytest.mark.pipeline

KILLS = 3


def test_what_was_killed_at_random_ends_like_what_was_not(
    finished: Project, tmp_path: Path
) -> None:
    project = again(finished, tmp_path / "disturbed")
    campaign = Campaign(project, random.Random(5), KILLS, pause=(1, 5))
    campaign.run()
    found = compare(finished, project, project.root / "mlflow.db")
    assert not found.differences, campaign.done
    assert campaign.done.total() == KILLS
    assert found.counted["attempts"] >= len(finished.variants()) and found.counted["points"] > 50


def test_a_difference_would_be_found(finished: Project, tmp_path: Path) -> None:
    project = finished.copy(tmp_path / "changed")
    path = project.seed_folder("1-bert") / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    (project.root / "tables" / "index.md").write_text("nothing")
    (project.root / "work" / "state-1.pt").parent.mkdir(exist_ok=True)
    (project.root / "work" / "state-1.pt").touch()
    (log,) = (project.root / "tracking").glob(f"*-{project.key('1-bert')}-s0-*")
    run, point, *rest = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([run, point, point, *rest]))
    found = compare(finished, project, finished.root / "mlflow.db")
    told = [difference.partition(":")[0] for difference in found.differences]
    weights = str(path.relative_to(project.root))
    assert told[:3] == ["tables/index.md", weights, "left behind"]
    assert told[3:6] == [log.stem] * 2 + [f"history of {log.stem}"], found.differences
