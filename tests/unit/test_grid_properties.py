"""Specs: the same meaning is the same spec, whatever is inherited and however it is spelt."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from grid_texts import grid, spec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minbert.spec.yaml import merge, nested

SETTINGS: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(
        ("optimiser.lr", "optimiser.schedule.warmup", "smart.weight", "tasks.sst.head.dropout"),
        st.floats(1e-7, 0.5).map(lambda x: float(f"{x:.6g}")),
    ),
    **dict.fromkeys(("epochs", "sampler.examples", "tasks.sst.batch_size"), st.integers(1, 60)),
    "shared_layers": st.sampled_from(["all", 1, 0]),
    "tasks.sst.pooling": st.sampled_from(["cls", "mean", "max"]),
    "tasks.para.convolution.kernel": st.sampled_from([1, 3, 5, 7]),
}
NEEDED = {
    **{"tasks.sst.loss": "cross_entropy", "tasks.sst.head.depth": 2},
    **{"tasks.para.loss": "binary_cross_entropy", "tasks.para.pairing": "cross"},
}
stages = st.fixed_dictionaries(SETTINGS).map(lambda chosen: NEEDED | chosen)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("grids")


def spelt(values: Any) -> str:
    """Return values as YAML that is spelt otherwise than JSON."""
    if isinstance(values, dict):
        return "{" + ", ".join(f"{key}: {spelt(values[key])}" for key in reversed(values)) + "}"
    return format(Decimal(repr(values)), "f") if isinstance(values, float) else str(values)


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(stage=stages, beaten=stages, own=st.sets(st.sampled_from(sorted(SETTINGS))))
def test_spelling_order_and_inheritance_change_no_spec(
    folder: Path, stage: dict[str, Any], beaten: dict[str, Any], own: set[str]
) -> None:
    template = {path: beaten[path] if path in own else stage[path] for path in stage}
    whole, parent, child = (
        reduce(merge, (nested(path, value) for path, value in flat.items()), {})
        for flat in (stage, template, {path: stage[path] for path in own})
    )
    one, other = f"a: {json.dumps(whole)}", f"b: {spelt({**child, 'extends': 't'})}"
    text = f"templates: {{t: {spelt(parent)}}}\nvariants:\n  {one}\n  {other}\n"
    found = grid(folder, text)
    assert spec(found, "a") == spec(found, "b")
