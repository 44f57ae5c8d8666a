"""Adapters and fusions trained and saved; every kind of stage loaded again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from minbert.base.errors import UserError
from minbert.plan.parameters import count
from minbert.predict.predictor import load_trained
from minbert.spec.architecture import Architecture
from minbert.spec.parts import load_part
from minbert.spec.stage import StageSpec
from minbert.train.adapters import AdapterTuned
from minbert.train.examples import read_examples, special_tokens
from minbert.train.features import cache_features
from minbert.train.fusion import FusionTuned
from minbert.train.inference import pool_all
from minbert.train.loop import Loop
from minbert.train.run import train_stage
from minbert.train.trainable import Sources, TrainableModel

CPU = torch.device("cpu")
SEED = 5
SIAMESE = {"pairing": "siamese", "features": ["u", "|u-v|"], "pooling": "mean"}
COSINE = {
    "pairing": "siamese",
    "features": ["u", "v"],
    "head": {"name": "cosine"},
    "loss": "cosine_mse",
    "pooling": "mean",
}
STAGES: dict[str, dict[str, Any]] = {
    "a": {"tasks": ("sst",), "trainable": "adapters", "adapter": {"width": 4}},
    "b": {
        "tasks": {"sts": {}, "para": {**SIAMESE, "convolution": {"kernel": 3}}},
        "trainable": "adapters",
        "adapter": {"width": 6},
    },
    "fusion": {
        "tasks": {"sst": {}, "sts": COSINE},
        "trainable": "fusion",
        "fuse": ("v/a", "v/b"),
    },
    "heads": {"tasks": {"sst": {}, "para": SIAMESE}, "trainable": "heads"},
    "all": {"tasks": {"sst": {}, "sts": {}, "para": SIAMESE}, "shared_layers": 1},
}
FROZEN = ("a", "b", "fusion")


@dataclass
class Trained:
    """A stage that was trained for two epochs of which the first was the better one."""

    spec: StageSpec
    sources: Sources
    folder: Path
    model: TrainableModel

    @property
    def file(self) -> Path:
        return self.folder / "model.safetensors"

    def initial(self) -> dict[str, Tensor]:
        """Return the weights that the stage began with."""
        torch.manual_seed(SEED)
        model: TrainableModel = load_part("trainable", self.spec.trainable)(
            self.spec, self.sources, CPU
        )
        return model.weights()


@pytest.fixture(scope="module")
def trained(
    make_spec: Any,
    backbone: Path,
    tokens: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Trained]:
    base = tmp_path_factory.mktemp("trained")
    models: list[TrainableModel] = []

    class Seen(Loop):
        def __init__(self, spec: StageSpec, model: TrainableModel, *more: Any) -> None:
            models.append(model)
            super().__init__(spec, model, *more)

    found: dict[str, Trained] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("minbert.train.run.Loop", Seen)
        for name, stage in STAGES.items():
            spec: StageSpec = make_spec(**stage, epochs=2, optimiser={"lr": 0.01})
            features = {}
            for task, how in spec.tasks.items():
                if spec.trainable == "heads":
                    features[task] = base / task / "features.safetensors"
                    files = (backbone, tokens[task], features[task])
                    cache_features(task, how.pooling, how.pairing, spec.max_length, *files, CPU)
            adapters = tuple(found[ref[-1]].file for ref in spec.fuse or ())
            chosen = {task: tokens[task] for task in spec.tasks}
            sources = Sources(backbone, chosen, features, None, adapters)
            scores = iter((0.9, 0.1))
            patch.setattr("minbert.train.loop.selection_score", lambda *_, s=scores: next(s))
            out = base / name
            train_stage(spec, SEED, sources, out, title=name, device="cpu", precision="fp32")
            found[name] = Trained(spec, sources, out, models[-1])
    return found


@pytest.mark.parametrize("name", FROZEN)
def test_the_backbone_stays_and_what_is_inserted_moves(
    name: str, trained: dict[str, Trained], backbone: Path
) -> None:
    stage = trained[name]
    module = stage.model.module
    whole = {n: t for n, t in module.state_dict().items() if n.startswith("encoder.")}
    kept = {n: t for n, t in whole.items() if ".adapter." not in n}
    before = {
        f"encoder.shared.{n}": t for n, t in load_file(backbone / "model.safetensors").items()
    }
    assert kept.keys() == before.keys()
    assert all(torch.equal(tensor, before[n]) for n, tensor in kept.items())
    first, saved = stage.initial(), load_file(stage.file)
    assert first.keys() == saved.keys()
    for n, tensor in saved.items():
        frozen = ".adapter.adapters." in n or n.endswith(".threshold")
        assert torch.equal(tensor, first[n]) == frozen, n


def test_a_fusions_attention_is_recorded_by_sublayer(trained: dict[str, Trained]) -> None:
    stage = trained["fusion"]
    rows = pq.read_table(stage.folder / "history.parquet").to_pylist()
    found = {
        (row["task"], row["metric"]): row["value"]
        for row in rows
        if row["metric"].startswith("fusion_attention/")
    }
    details = {row["epoch"] for row in rows if "/" in row["metric"]}
    assert details == {1}, "the best epoch's, though it is not the last"
    places = [f"{layer}/{place}" for layer in (1, 2) for place in ("attention", "feed_forward")]
    for task in ("sst", "sts"):
        by_place = {
            place: [found.pop((task, f"fusion_attention/{place}/{n}")) for n in (0, 1)]
            for place in places
        }
        sums = [sum(weights) for weights in by_place.values()]
        torch.testing.assert_close(sums, [1.0] * 4, atol=1e-9, rtol=0)
        model = stage.model
        assert isinstance(model, FusionTuned)
        first = model.module.encoder.shared.layers["0"].attention
        seen: list[Tensor] = []
        kept = first.adapter.register_forward_pre_hook(
            lambda _, given, to=seen: to.append(given[0])
        )
        model.outputs(task, "dev")
        kept.remove()
        hidden = torch.cat(seen)
        mean = first.adapter.weights(hidden, first.adapter.changes(hidden)).mean(1)
        torch.testing.assert_close(mean.tolist(), by_place["1/attention"], atol=1e-5, rtol=0)
    assert not found
    assert not any(
        row["metric"].startswith("fusion")
        for row in pq.read_table(trained["a"].folder / "history.parquet").to_pylist()
    )


def test_a_fusions_adapters_are_those_of_the_earlier_stages(trained: dict[str, Trained]) -> None:
    fused = load_file(trained["fusion"].file)
    for number, name in enumerate(("a", "b")):
        ours = {n: t for n, t in load_file(trained[name].file).items() if ".adapter." in n}
        assert len(ours) == 2 * 2 * 4
        for n, tensor in ours.items():
            assert torch.equal(
                fused[n.replace(".adapter.", f".adapter.adapters.{number}.")], tensor
            )


@pytest.mark.parametrize("name", FROZEN)
def test_one_file_holds_all_but_the_backbone(
    name: str, trained: dict[str, Trained], architecture: Architecture
) -> None:
    stage = trained[name]
    saved = load_file(stage.file)
    parts = {"a": 4, "b": 4, "fusion": 2 * 4 + 4}[name]
    encoder = [n for n in saved if n.startswith("encoder.")]
    assert all(".adapter." in n for n in encoder) and len(encoder) == 2 * 2 * parts
    others = {n.rpartition(".")[0] for n in saved if n not in encoder}
    assert (
        others
        == {
            "a": {"heads.sst.linears.0"},
            "b": {"heads.sts.linears.0", "heads.para.linears.0", "convolutions.para.convolution"},
            "fusion": {"heads.sst.linears.0", "heads.sts", "heads.sts.linears.0"},
        }[name]
    )
    counted = count(stage.spec, architecture, (4, 6) if stage.spec.fuse else ())
    assert counted["total"] == sum(p.numel() for p in stage.model.module.parameters())
    model = stage.model
    tuned = [p for task in stage.spec.trained_tasks for p in model.own_parameters(task)]
    tuned += model.shared_parameters()
    assert counted["trainable"] == sum(p.numel() for p in tuned)


@pytest.mark.parametrize("name", list(STAGES))
def test_loaded_again_it_predicts_the_same_bits(
    name: str, trained: dict[str, Trained], backbone: Path
) -> None:
    stage = trained[name]
    model = load_trained(stage.spec, backbone, stage.file)
    assert not model.training
    found = []
    special = special_tokens(backbone / "tokenizer.json", two_types=True)
    length = 24  # the backbone's
    for split in ("dev", "test"):
        for task in stage.spec.ordered_tasks:
            how = stage.spec.tasks[task]
            path = stage.sources.tokens[task]
            examples = read_examples(path, task, how.pairing, special, length, CPU, 1000)[split]
            with torch.no_grad():
                pooled = pool_all(partial(model.pooled, task), examples)
                output = model.from_pooled(task, pooled)
            loss = load_part("loss", how.loss)()
            predicted, scores = loss.prediction(output).tolist(), loss.scores(output).tolist()
            found += list(zip(examples.ids, predicted, scores, strict=True))
            if name == "heads":
                cached = load_file(stage.sources.features[task])[split]
                assert torch.equal(pooled, cached)
            else:
                assert torch.equal(output, stage.model.outputs(task, split))
    rows = pq.read_table(stage.folder / "predictions.parquet").to_pylist()
    assert found == [(row["id"], row["prediction"], row["scores"]) for row in rows]
    for task in stage.spec.tasks:
        assert len({str(row["scores"]) for row in rows if row["task"] == task}) > 5


@pytest.mark.parametrize(
    ("name", "other"),
    [("fusion", "a"), ("a", "fusion"), ("a", "b"), ("heads", "all"), ("all", "heads")],
)
def test_another_stages_weights_are_refused(
    name: str, other: str, trained: dict[str, Trained], backbone: Path
) -> None:
    with pytest.raises(
        UserError, match=rf"{other}/model\.safetensors: not the weights of this stage \(tensor '"
    ):
        load_trained(trained[name].spec, backbone, trained[other].file)


def test_adapters_of_another_width_are_refused(trained: dict[str, Trained], backbone: Path) -> None:
    spec = trained["a"].spec
    assert spec.adapter is not None
    wider = spec.model_copy(update={"adapter": spec.adapter.model_copy(update={"width": 5})})
    with pytest.raises(UserError, match=r"not the weights of this stage \(tensor 'encoder\..*down"):
        load_trained(wider, backbone, trained["a"].file)


def test_only_the_stages_own_weights_are_restored(trained: dict[str, Trained]) -> None:
    stage = trained["a"]
    model = AdapterTuned(stage.spec, stage.sources, CPU)
    saved = load_file(stage.file)
    model.restore(saved)
    assert all(torch.equal(tensor, saved[n]) for n, tensor in model.weights().items())
    some = dict(list(saved.items())[1:])
    for wrong in (some, {**saved, "heads.para.linears.0.bias": torch.zeros(1)}):
        with pytest.raises(ValueError, match="not this model's weights"):
            model.restore(wrong)


def test_a_stage_without_adapters_is_not_fused(trained: dict[str, Trained]) -> None:
    given = trained["fusion"].sources
    wrong = Sources(given.backbone, given.tokens, {}, None, (trained["all"].file,) * 2)
    with pytest.raises(UserError, match=r"all/model\.safetensors: holds no adapters to fuse"):
        FusionTuned(trained["fusion"].spec, wrong, CPU)
