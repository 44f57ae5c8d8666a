"""Each way of training works with each kind of encoder: what is saved predicts what was scored."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from encoders import FAMILIES, WAYS, Folders, Made
from safetensors.torch import load_file

from minbert.plan.parameters import count
from minbert.predict.predictor import load_trained
from minbert.spec.architecture import read_architecture
from minbert.train.examples import read_examples, special_tokens
from minbert.train.features import cache_features
from minbert.train.inference import pool_all
from minbert.train.run import train_stage
from minbert.train.trainable import Sources

CPU = torch.device("cpu")
TASKS: dict[str, dict[str, Any]] = {
    "sst": {"pooling": "cls"},
    "para": {"pooling": "mean", "pairing": "siamese", "features": ["u", "v", "u*v"]},
    "sts": {"pooling": "cls", "pairing": "cross"},
}


def sources_of(way: str, spec: Any, made: Made, tokens: dict[str, Path], base: Path) -> Sources:
    features: dict[str, Path] = {}
    if way == "cached features":
        for task, how in spec.tasks.items():
            features[task] = base / task / "features.safetensors"
            files = (made.ours, tokens[task], features[task])
            cache_features(task, how.pooling, how.pairing, spec.max_length, *files, CPU)
    adapters = tuple(base / name / "model.safetensors" for name in spec.fuse or ())
    return Sources(made.ours, tokens, features, None, adapters)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_trained_is_counted_saved_and_predicts_the_same(
    name: str, way: str, folders: Folders, tokens: dict[str, Path], make_spec: Any, tmp_path: Path
) -> None:
    made = folders[name]
    arch = read_architecture(made.ours / "config.json")
    train = partial(train_stage, device="cpu", precision="fp32")
    if way == "fusion":
        for seed, fused in enumerate("ab"):
            tuned = make_spec(TASKS, trainable="adapters", adapter={"width": 3 + seed})
            files = Sources(made.ours, tokens, {})
            train(tuned, seed, files, tmp_path / fused, title=fused)
    spec = make_spec(TASKS, **WAYS[way], optimiser={"lr": 0.01})
    sources = sources_of(way, spec, made, tokens, tmp_path)
    train(spec, 0, sources, tmp_path / "out", title=way)
    model = load_trained(spec, made.ours, tmp_path / "out" / "model.safetensors")
    counted = count(spec, arch, (3, 4) if way == "fusion" else ())
    assert counted["total"] == sum(p.numel() for p in model.parameters())
    state = load_file(tmp_path / "out" / "model.safetensors")
    assert all(tensor.isfinite().all() for tensor in state.values())
    special = special_tokens(made.ours / "tokenizer.json", arch.two_types)
    rows = pq.read_table(tmp_path / "out" / "predictions.parquet").to_pylist()
    for task, how in spec.tasks.items():
        given = (tokens[task], task, how.pairing, special, arch.positions, CPU, arch.vocab_size)
        examples = read_examples(*given)["dev"]
        with torch.no_grad():
            pooled = pool_all(partial(model.pooled, task), examples)
            output = model.from_pooled(task, pooled)
        kept = {r["id"]: r["scores"] for r in rows if (r["task"], r["split"]) == (task, "dev")}
        found = torch.tensor([kept[each] for each in examples.ids])
        expected = output.sigmoid() if task == "para" else output
        expected = expected.softmax(1) if task == "sst" else expected
        torch.testing.assert_close(found, expected.reshape(found.shape), atol=1e-5, rtol=1e-4)
        assert len({str(scores) for scores in kept.values()}) > 3
