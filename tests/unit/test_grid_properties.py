"""Keys: the same meaning has the same key however it is written; another meaning has another."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import reduce
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from planning import planning_folder

from minbert.plan.plan import Plan
from minbert.spec.resolve import StageRef
from minbert.spec.yaml import merge, parse_yaml
from minbert.spec.yaml import nested as at
from minbert.store.node import canonical

HEAD = "paper: hybrid-bert\ntitle: T\noverall: plain\n"
CONFIG = {"grids": "g", "data": "builtin", "backbone": "builtin"}

BASE: dict[str, Any] = {
    "tasks.sst.loss": "cross_entropy",
    "tasks.para.loss": "binary_cross_entropy",
    "tasks.para.pairing": "cross",
    "tasks.sst.head.depth": 2,
}
"""A stage that uses each of `SETTINGS`."""

rates = st.floats(1e-7, 0.5).map(lambda x: float(f"{x:.6g}"))
SETTINGS: dict[str, st.SearchStrategy[Any]] = {
    "optimiser.lr": rates,
    "optimiser.eps": rates,
    "optimiser.weight_decay": rates,
    "optimiser.schedule.warmup": rates,
    "optimiser.schedule.name": st.sampled_from(["constant", "linear", "cosine", "onecycle"]),
    "dropout.embedding": rates,
    "dropout.sublayer": rates,
    "dropout.attention": rates,
    "epochs": st.integers(1, 60),
    "max_length": st.integers(8, 512),
    "reduction": st.sampled_from(["sum", "mean"]),
    "shared_layers": st.sampled_from(["all", 1, 0]),
    "sampler.name": st.sampled_from(["unified", "alternating", "recycled", "sequential"]),
    "sampler.examples": st.integers(1, 10_000),
    "smart.weight": rates,
    "smart.step": rates,
    "tasks.sst.pooling": st.sampled_from(["cls", "mean", "max"]),
    "tasks.sst.batch_size": st.integers(1, 128),
    "tasks.sst.weight": rates,
    "tasks.sst.init_bias_to_prior": st.booleans(),
    "tasks.sst.head.width": st.integers(1, 512),
    "tasks.sst.head.dropout": rates,
    "tasks.para.convolution.kernel": st.sampled_from([1, 3, 5, 7]),
    "tasks.para.convolution.residual": st.booleans(),
}
"""Settings of which each value means something else; every stage sets all that a change needs."""

stages = st.fixed_dictionaries(SETTINGS).map(lambda chosen: BASE | chosen)
changed_settings = st.sampled_from(sorted(SETTINGS))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planning_folder(tmp_path_factory.mktemp("plan"))


def nested(flat: dict[str, Any]) -> dict[str, Any]:
    return reduce(merge, (at(path, value) for path, value in flat.items()), {})


def spelt(value: Any, random: Random) -> str:
    """Return a value as YAML, in one of its spellings, the keys of mappings in any order."""
    if isinstance(value, dict):
        names = random.sample(sorted(value), len(value))
        return "{" + ", ".join(f"{name}: {spelt(value[name], random)}" for name in names) + "}"
    if isinstance(value, bool):
        return random.choice(["true", "True"] if value else ["false", "FALSE"])
    if isinstance(value, float):
        plain = format(Decimal(repr(value)), "f")
        return random.choice([repr(value), plain, f"{plain}00" if "." in plain else plain])
    return random.choice([json.dumps(value), str(value)])


def keys(base: Path, text: str) -> dict[str, str]:
    """Return {variant: training key} of a grid."""
    (base / "workflow/grids/g.yaml").write_text(HEAD + text, encoding="utf-8")
    plan = Plan.load({**CONFIG, "results": str(base / "results")}, base)
    return {name: plan.train(StageRef("hybrid-bert", name, "main")).key for name in ("a", "b")}


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(stage=stages, random=st.randoms(use_true_random=False), data=st.data())
def test_spelling_order_and_inheritance_are_in_no_key(
    base: Path, stage: dict[str, Any], random: Random, data: st.DataObject
) -> None:
    inherited = set(data.draw(st.lists(st.sampled_from(sorted(SETTINGS)), max_size=9)))
    beaten = data.draw(stages)
    template = {p: beaten[p] if p not in inherited else v for p, v in stage.items()}
    own = {path: value for path, value in stage.items() if path not in inherited}
    written = {
        "templates": {"t": nested(template)},
        "variants": {"a": nested(stage), "b": {"extends": "t"} | nested(own)},
    }
    text = "\n".join(f"{name}: {spelt(value, random)}" for name, value in written.items())
    found = keys(base, text)
    assert found["a"] == found["b"]


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(stage=stages, path=changed_settings, data=st.data())
def test_another_value_of_any_setting_is_another_key(
    base: Path, stage: dict[str, Any], path: str, data: st.DataObject
) -> None:
    other = data.draw(SETTINGS[path].filter(lambda value: value != stage[path]))
    random = Random(1)
    variants = {"a": nested(stage), "b": nested(stage | {path: other})}
    found = keys(base, f"variants: {spelt(variants, random)}")
    assert found["a"] != found["b"]


scalars = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=100)
@given(value=values, random=st.randoms(use_true_random=False))
def test_canonical_text_knows_no_order_of_keys(value: Any, random: Random) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: shuffled(value[k]) for k in random.sample(list(value), len(value))}
        return [shuffled(each) for each in value] if isinstance(value, list) else value

    text = canonical(value)
    assert canonical(shuffled(value)) == text
    # Nothing is lost: the value comes back, and with it the same text.
    assert canonical(json.loads(text)) == text and json.loads(text) == value


mappings = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
).filter(lambda value: isinstance(value, dict))


@settings(max_examples=100)
@given(base=mappings, over=mappings)
def test_merging_again_changes_nothing(base: dict[str, Any], over: dict[str, Any]) -> None:
    once = merge(base, over)
    assert merge(once, over) == once and merge({}, over) == over


@settings(max_examples=100)
@given(value=st.floats(allow_nan=False) | st.integers(-(10**17), 10**17))
def test_numbers_mean_themselves_however_they_are_written(value: float) -> None:
    for text in (repr(value).replace("inf", ".inf"), f"{value!r}".replace("inf", ".inf").upper()):
        found = parse_yaml(text.replace(".INF", ".inf"), "here")
        assert found == value and type(found) is type(value)
