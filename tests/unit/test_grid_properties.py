"""Specs: the same meaning is the same spec however it is written."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import reduce
from pathlib import Path
from random import Random
from typing import Any

import pytest
from grid_texts import grid, spec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minbert.spec.yaml import merge, nested
from minbert.store.node import canonical

SETTINGS: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(
        ("optimiser.lr", "optimiser.schedule.warmup", "smart.weight", "tasks.sst.head.dropout"),
        st.floats(1e-7, 0.5).map(lambda x: float(f"{x:.6g}")),
    ),
    **dict.fromkeys(("epochs", "sampler.examples", "tasks.sst.batch_size"), st.integers(1, 60)),
    "optimiser.schedule.name": st.sampled_from(["constant", "linear", "cosine"]),
    "shared_layers": st.sampled_from(["all", 1, 0]),
    "tasks.sst.pooling": st.sampled_from(["cls", "mean", "max"]),
    "tasks.sst.init_bias_to_prior": st.booleans(),
    "tasks.para.convolution.kernel": st.sampled_from([1, 3, 5, 7]),
}

stages = st.fixed_dictionaries(SETTINGS).map(
    lambda chosen: {
        **{"tasks.sst.loss": "cross_entropy", "tasks.sst.head.depth": 2},
        **{"tasks.para.loss": "binary_cross_entropy", "tasks.para.pairing": "cross"},
        **chosen,
    }
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("grids")


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


def described(folder: Path, random: Random, **written: Any) -> list[str]:
    """Return what keys hold of the variants `a` and `b`, whose settings have dotted paths."""
    bodies = {
        name: reduce(merge, (nested(*each) for each in flat.items()), {})
        for name, flat in written.items()
    }
    templates = spelt({"t": bodies.pop("t")}, random)
    found = grid(folder, f"templates: {templates}\nvariants: {spelt(bodies, random)}\n")
    return [canonical(spec(found, name).model_dump(mode="json")) for name in ("a", "b")]


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(stage=stages, random=st.randoms(use_true_random=False), data=st.data())
def test_spelling_order_and_inheritance_change_no_spec(
    folder: Path, stage: dict[str, Any], random: Random, data: st.DataObject
) -> None:
    inherited = set(data.draw(st.lists(st.sampled_from(sorted(SETTINGS)), max_size=9)))
    beaten = data.draw(stages)
    template = {p: beaten[p] if p not in inherited else v for p, v in stage.items()}
    own = {path: value for path, value in stage.items() if path not in inherited}
    one, other = described(folder, random, t=template, a=stage, b={"extends": "t", **own})
    assert one == other
