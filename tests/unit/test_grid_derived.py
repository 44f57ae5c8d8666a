"""What a key holds of code that no digest covers; keys of stages are as they ever were."""

import re

from planning import REPOSITORY

from minbert.plan.plan import Plan
from minbert.spec.resolve import StageRef
from minbert.spec.stage import StageSpec
from minbert.store.node import digest

SPEC = {
    "tasks": {
        "sts": {"loss": "mse", "pairing": "cross"},
        "sst": {"loss": "cross_entropy"},
        "cfimdb": {"loss": "cross_entropy", "trained": False},
    },
    "smart": {"weight": 1.0},
}


def spec() -> StageSpec:
    return StageSpec.model_validate(SPEC)


def test_what_training_takes_from_a_spec_by_code() -> None:
    found = spec().derived()
    assert (found["tasks"], found["trained"]) == (["sst", "sts", "cfimdb"], ["sst", "sts"])
    assert found["divergences"] == {"sst": "symmetric_kl", "sts": "squared_error"}
    assert found["parts"]["loss:mse"] == "minbert.train.losses.mse:MeanSquaredError"
    smart = {"weight": 1.0, "divergence": "detached_kl"}
    found = StageSpec.model_validate({**SPEC, "smart": smart}).derived()
    assert found["divergences"] == dict.fromkeys(("sst", "sts"), "detached_kl")
    assert [name for name in found["parts"] if "diverg" in name] == ["divergence:detached_kl"]


BEFORE = {
    "hybrid-bert hybrid-bert/main": "9f7a97b702ceb80e",
    "hybrid-bert sequential/main": "d1290a396f144ebc",
    "minbert-downstream r5/main": "e0cd29f064e7a5cf",
    "adapter-fusion adapter-fusion/sst": "31aaffc7b8cba1cb",
}


def test_settings_that_came_later_are_not_in_the_keys_of_older_stages() -> None:
    """All of a key but the digests of code and the keys of what is needed."""
    plan = Plan.load([REPOSITORY / "config.yaml"], REPOSITORY)
    refs = {name: StageRef(*re.split("[ /]", name)) for name in BEFORE}
    assert {name: digest(plan.train(ref).spec) for name, ref in refs.items()} == BEFORE
    assert spec().model_dump()["smart"].keys().isdisjoint({"divergence", "reduction"})
