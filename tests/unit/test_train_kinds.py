"""Ways of training, of all weights or few: what moves, what is saved, and that it is loaded again.

Each with each kind of encoder.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from encoders import FAMILIES, WAYS, Folders
from safetensors.torch import load_file
from stepping import CPU, cached

from minbert.base.errors import UserError
from minbert.plan.parameters import count
from minbert.predict.predictor import load_trained
from minbert.spec.architecture import read_architecture
from minbert.spec.parts import load_part
from minbert.spec.stage import StageSpec
from minbert.train.examples import read_examples
from minbert.train.frozen_probe import FrozenProbe
from minbert.train.run import train_stage
from minbert.train.step import Gradients
from minbert.train.trainable import Finetuned, Sources, TrainableModel

SEED = 5
SIAMESE = {"pairing": "siamese", "features": ["u", "|u-v|"], "pooling": "mean"}
COSINE = SIAMESE | {"features": ["u", "v"], "head": {"name": "cosine"}, "loss": "cosine_mse"}
STAGES: dict[str, dict[str, Any]] = {
    "a": {"tasks": ("sst",), "trainable": "adapters", "adapter": {"width": 4}},
    "b": {
        "tasks": {"sts": {}, "para": {**SIAMESE, "convolution": {"kernel": 3}}},
        "trainable": "adapters",
        "adapter": {"width": 6},
    },
    "fusion": {"tasks": {"sst": {}, "sts": COSINE}, "trainable": "fusion", "fuse": ("v/a", "v/b")},
    "lora": {"tasks": ("sst", "sts"), "trainable": "lora", "lora": {"rank": 3}},
    "heads": {
        "tasks": {"sst": {}, "para": SIAMESE, "sts": {"pooling": "mean", "trained": False}},
        "trainable": "heads",
    },
    "all": {"tasks": {"sst": {}, "sts": {}, "para": SIAMESE}, "shared_layers": 1},
}
SAVED = {
    "a": (".adapter.", 2 * 2 * 4),
    "b": (".adapter.", 2 * 2 * 4),
    "fusion": (".adapter.", 2 * 2 * (2 * 4 + 4)),
    "lora": (".qkv.lora_", 2 * 2 * 2),
    "heads": ("nothing", 0),
}
"""Of frozen encoders: what the names of saved parts of it hold, and how many there are."""


@dataclass
class Trained:
    """A stage that was trained for two epochs of which the first was the better one."""

    spec: StageSpec
    sources: Sources
    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / "model.safetensors"

    def model(self) -> TrainableModel:
        """Return the model that the stage began with."""
        torch.manual_seed(SEED)
        kind: type[TrainableModel] = load_part("trainable", self.spec.trainable)
        return kind(self.spec, self.sources, CPU)

    def rows(self, name: str) -> list[dict[str, Any]]:
        return pq.read_table(self.folder / name).to_pylist()

    def assert_loaded_again_predicts(self, **near: float) -> Any:
        """Assert that the saved model predicts what was written; return it."""
        model = load_trained(self.spec, self.sources.backbone, self.file)
        rows, backbone = self.rows("predictions.parquet"), self.sources.backbone
        for task, how in self.spec.tasks.items():
            given = read_examples(self.sources.tokens[task], how.pairing, backbone, 512, CPU)
            for split in ("dev", "test"):
                examples = given[split]
                of = [r for r in rows if (r["task"], r["split"]) == (task, split)]
                assert [r["id"] for r in of] == examples.ids
                output = model.outputs(task, examples.inputs)
                scores = load_part("loss", how.loss)().scores(output)
                written = torch.tensor([r["scores"] for r in of])
                torch.testing.assert_close(written, scores, **near)
                assert len({str(r["scores"]) for r in of}) > 2
        return model


def train(name: str, spec: StageSpec, sources: Sources, base: Path, seed: int = SEED) -> Trained:
    """Train a stage; if it is one of heads, its features are cached first."""
    features = cached(spec, sources, base) if spec.trainable == "heads" else {}
    tokens = {task: sources.tokens[task] for task in spec.tasks}
    given = Sources(sources.backbone, tokens, features, None, sources.adapters)
    train_stage(spec, seed, given, base / name, title=name, device="cpu", precision="fp32")
    return Trained(spec, given, base / name)


@pytest.fixture(scope="module")
def trained(
    make_spec: Any, backbone: Path, tokens: dict[str, Path], tmp_path_factory: Any
) -> dict[str, Trained]:
    base, found = tmp_path_factory.mktemp("trained"), dict[str, Trained]()
    with pytest.MonkeyPatch.context() as patch:
        for name, stage in STAGES.items():
            spec: StageSpec = make_spec(**stage, epochs=2, optimiser={"lr": 0.01})
            adapters = tuple(found[ref[-1]].file for ref in spec.fuse or ())
            scores = iter((0.9, 0.1))
            patch.setattr("minbert.train.run.selection_score", lambda *_, s=scores: next(s))
            found[name] = train(name, spec, Sources(backbone, tokens, {}, None, adapters), base)
    return found


@pytest.mark.parametrize("name", STAGES)
def test_what_moved_is_saved_without_the_backbone_and_predicts_the_same_bits(
    name: str, trained: dict[str, Trained], backbone: Path
) -> None:
    stage = trained[name]
    assert not stage.assert_loaded_again_predicts(rtol=0, atol=0).training
    if name not in SAVED:
        return
    (mark, parts), model, saved = SAVED[name], stage.model(), load_file(stage.file)
    encoder = [n for n in saved if n.startswith("encoder.")]
    assert all(mark in n for n in encoder) and len(encoder) == parts
    first = model.weights
    assert first.keys() == saved.keys()
    assert {n.split(".")[1] for n in saved if n not in encoder} == set(stage.spec.tasks)
    for n, tensor in saved.items():
        frozen = ".adapter.adapters." in n or n.endswith(".threshold")
        frozen |= not stage.spec.tasks[n.split(".")[1]].trained if n not in encoder else False
        assert torch.equal(tensor, first[n]) == frozen, n
    tuned = Gradients(stage.spec, model, 0, torch.Generator()).parameters()
    counted = count(stage.spec, read_architecture(backbone / "config.json"), (4, 6) * (parts == 48))
    assert counted["trainable"] == sum(p.numel() for p in tuned)


def test_a_fusions_attention_is_recorded_by_sublayer(trained: dict[str, Trained]) -> None:
    rows = [r for r in trained["fusion"].rows("history.parquet") if "/" in r["metric"]]
    assert {row["epoch"] for row in rows} == {1}, "the best epoch's, though it is not the last"
    found = {(row["task"], *row["metric"].rpartition("/")[::2]): row["value"] for row in rows}
    places = [f"{n}/{part}" for n in (1, 2) for part in ("attention", "feed_forward")]
    for task in ("sst", "sts"):
        for place in places:
            pair = [found.pop((task, f"fusion_attention/{place}", n)) for n in "01"]
            assert min(pair) > 0 and sum(pair) == pytest.approx(1)
    assert not found


def test_another_stages_weights_are_refused(trained: dict[str, Trained], backbone: Path) -> None:
    for name, other in (("a", "fusion"), ("all", "heads")):
        told = rf"{other}/model\.safetensors: not the weights of this stage \(tensor '"
        with pytest.raises(UserError, match=told):
            load_trained(trained[name].spec, backbone, trained[other].file)


def test_outputs_on_features_are_the_whole_models(trained: dict[str, Trained]) -> None:
    spec, given = trained["heads"].spec, trained["heads"].sources
    probe = FrozenProbe(spec, given, CPU)
    whole = Finetuned(spec.model_copy(update={"trainable": "all"}), given, CPU)
    whole.weights = probe.weights
    for model in (probe, whole):
        model.module.eval()
    close = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-5)
    for task in spec.tasks:
        for split in ("dev", "test"):
            close(probe.outputs(task, split), whole.outputs(task, split))
        step = [(task, torch.tensor([3, 0, 3, 6]))]
        close(probe.forward(step), whole.forward(step))
    assert probe.tokens_seen == 0 < whole.tokens_seen


TASKS: dict[str, dict[str, Any]] = {
    "sst": {"pooling": "cls"},
    "para": {"pooling": "mean", "pairing": "siamese", "features": ["u", "v", "u*v"]},
    "sts": {"pooling": "cls", "pairing": "cross"},
}


@pytest.mark.parametrize(
    ("name", "way"),
    [(n, way) for a, n in enumerate(FAMILIES) for b, way in enumerate(WAYS) if (a + b) % 3 == 0],
)
def test_with_each_encoder_what_is_trained_is_counted_and_predicts_the_same(
    name: str, way: str, folders: Folders, tokens: dict[str, Path], make_spec: Any, tmp_path: Path
) -> None:
    backbone, fused = folders[name].ours, []
    for seed, part in enumerate("ab" if way == "fusion" else ""):
        tuned = make_spec(TASKS, trainable="adapters", adapter={"width": 3 + seed})
        fused.append(train(part, tuned, Sources(backbone, tokens, {}), tmp_path, seed).file)
    spec = make_spec(TASKS, **WAYS[way], optimiser={"lr": 0.01})
    sources = Sources(backbone, tokens, {}, None, tuple(fused))
    model = train("out", spec, sources, tmp_path).assert_loaded_again_predicts(atol=1e-5, rtol=1e-4)
    counted = count(spec, read_architecture(backbone / "config.json"), (3, 4) if fused else ())
    assert counted["total"] == sum(p.numel() for p in model.parameters())
