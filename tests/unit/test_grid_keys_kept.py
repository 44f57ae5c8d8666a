"""Settings that came later leave the specs, and so the keys, of older stages as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from minbert.plan.experiment import Experiment
from minbert.spec.config import load_config
from minbert.spec.resolve import StageRef
from minbert.store.node import digest

ROOT = Path(__file__).parents[2]
BEFORE = {
    "hybrid-bert hybrid-bert/main": "84edfd928da808ed",
    "hybrid-bert sequential/main": "75c3d4deb1452cca",
    "minbert-downstream r5/main": "40b17ea36f1e3e09",
    "adapter-fusion adapter-fusion/sst": "20aa05817c02c9c5",
}


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return Experiment.read(load_config(ROOT / "config.yaml"), ROOT)


@pytest.mark.parametrize("stage", BEFORE)
def test_what_a_stage_asks_for_is_as_it_was(stage: str, experiment: Experiment) -> None:
    """All of the key but the digests of code and the keys of what is needed."""
    paper, ref = stage.split()
    asked = experiment.train(StageRef(paper, *ref.split("/"))).spec
    assert digest(asked) == BEFORE[stage]
