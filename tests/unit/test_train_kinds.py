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
from torch import Tensor

from minbert.base.errors import UserError
from minbert.plan.parameters import count
from minbert.predict.predictor import load_trained
from minbert.spec.architecture import Architecture, read_architecture
from minbert.spec.parts import load_part
from minbert.spec.stage import StageSpec
from minbert.train.examples import Examples, reader
from minbert.train.features import cache_features
from minbert.train.finetune import Finetuned
from minbert.train.frozen_probe import FrozenProbe
from minbert.train.loop import Loop
from minbert.train.run import train_stage
from minbert.train.trainable import Sources, TrainableModel

CPU = torch.device("cpu")
SEED = 5
SIAMESE = {"pairing": "siamese", "features": ["u", "|u-v|"], "pooling": "mean"}
COSINE = {
    **{"pairing": "siamese", "features": ["u", "v"], "pooling": "mean"},
    **{"head": {"name": "cosine"}, "loss": "cosine_mse"},
}
CARRIED = {"pooling": "mean", "head": {"depth": 2}, "trained": False}
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
    "lora": {"tasks": ("sst", "sts"), "trainable": "lora", "lora": {"rank": 3}},
    "heads": {"tasks": {"sst": {}, "para": SIAMESE, "sts": CARRIED}, "trainable": "heads"},
    "all": {"tasks": {"sst": {}, "sts": {}, "para": SIAMESE}, "shared_layers": 1},
}
HEAD = "heads.{}.linears.0"
SAVED: dict[str, tuple[str, int, set[str]]] = {
    "a": (".adapter.", 2 * 2 * 4, {HEAD.format("sst")}),
    "b": (
        ".adapter.",
        2 * 2 * 4,
        {HEAD.format("sts"), HEAD.format("para"), "convolutions.para.convolution"},
    ),
    "fusion": (".adapter.", 2 * 2 * (2 * 4 + 4), {*map(HEAD.format, ("sst", "sts")), "heads.sts"}),
    "lora": (".qkv.lora_", 2 * 2 * 2, {HEAD.format("sst"), HEAD.format("sts")}),
}
"""Of frozen encoders: what the names of saved parts of it hold, how many there are, the rest."""


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
        kind: type[TrainableModel] = load_part("trainable", self.spec.trainable)
        return kind(self.spec, self.sources, CPU).weights()

    def rows(self, name: str) -> list[dict[str, Any]]:
        return pq.read_table(self.folder / name).to_pylist()


def features_of(
    spec: StageSpec, backbone: Path, tokens: dict[str, Path], out: Path
) -> dict[str, Path]:
    """Cache the features of a stage of heads; of others, return none."""
    found = {}
    for task, how in spec.tasks.items() if spec.trainable == "heads" else ():
        found[task] = out / task / "features.safetensors"
        files = (backbone, tokens[task], found[task])
        cache_features(task, how.pooling, how.pairing, 512, *files, CPU)
    return found


def examples_of(spec: StageSpec, task: str, sources: Sources) -> dict[str, Examples]:
    """Return the examples of a task as a stage reads them."""
    read = reader(sources.backbone, 512, CPU)
    return read(sources.tokens[task], task, spec.tasks[task].pairing)


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
            features = features_of(spec, backbone, tokens, base)
            adapters = tuple(found[ref[-1]].file for ref in spec.fuse or ())
            chosen = {task: tokens[task] for task in spec.tasks}
            sources = Sources(backbone, chosen, features, None, adapters)
            scores = iter((0.9, 0.1))
            patch.setattr("minbert.train.loop.selection_score", lambda *_, s=scores: next(s))
            train_stage(
                spec, SEED, sources, base / name, title=name, device="cpu", precision="fp32"
            )
            found[name] = Trained(spec, sources, base / name, models[-1])
    return found


@pytest.mark.parametrize("name", SAVED)
def test_the_backbone_stays_and_one_file_holds_the_rest(
    name: str, trained: dict[str, Trained], backbone: Path, architecture: Architecture
) -> None:
    stage, (mark, parts, others) = trained[name], SAVED[name]
    module, saved = stage.model.module, load_file(stage.file)
    whole = {n: t for n, t in module.state_dict().items() if n.startswith("encoder.")}
    kept = {n.removeprefix("encoder.shared."): t for n, t in whole.items() if mark not in n}
    before = load_file(backbone / "model.safetensors")
    assert kept.keys() == before.keys()
    assert all(torch.equal(tensor, before[n]) for n, tensor in kept.items())
    encoder = [n for n in saved if n.startswith("encoder.")]
    assert all(mark in n for n in encoder) and len(encoder) == parts
    assert {n.rpartition(".")[0] for n in saved if n not in encoder} == others
    first = stage.initial()
    assert first.keys() == saved.keys()
    for n, tensor in saved.items():
        frozen = ".adapter.adapters." in n or n.endswith(".threshold")
        assert torch.equal(tensor, first[n]) == frozen, n
    counted = count(stage.spec, architecture, (4, 6) if stage.spec.fuse else ())
    assert counted["total"] == sum(p.numel() for p in module.parameters())
    tuned = [p for task in stage.spec.trained_tasks for p in stage.model.own_parameters(task)]
    tuned += stage.model.shared_parameters()
    assert counted["trainable"] == sum(p.numel() for p in tuned)


def test_a_stage_of_heads_holds_the_heads_and_moves_those_that_it_trains(
    trained: dict[str, Trained],
) -> None:
    first, saved = trained["heads"].initial(), load_file(trained["heads"].file)
    assert first.keys() == saved.keys() and all(n.startswith("heads.") for n in saved)
    for name, tensor in saved.items():
        assert torch.equal(tensor, first[name]) == name.startswith("heads.sts."), name


def test_a_fusions_attention_is_recorded_by_sublayer(trained: dict[str, Trained]) -> None:
    stage = trained["fusion"]
    rows = stage.rows("history.parquet")
    found = {
        (row["task"], row["metric"]): row["value"]
        for row in rows
        if row["metric"].startswith("fusion_attention/")
    }
    details = {row["epoch"] for row in rows if "/" in row["metric"]}
    assert details == {1}, "the best epoch's, though it is not the last"
    places = [f"{layer}/{place}" for layer in (1, 2) for place in ("attention", "feed_forward")]
    model = stage.model
    adapter = model.module.encoder.shared.layers["0"].attention.adapter
    for task in ("sst", "sts"):
        by_place = {
            place: [found.pop((task, f"fusion_attention/{place}/{n}")) for n in (0, 1)]
            for place in places
        }
        sums = [sum(weights) for weights in by_place.values()]
        torch.testing.assert_close(sums, [1.0] * 4, atol=1e-9, rtol=0)
        seen: list[Tensor] = []
        hook = adapter.register_forward_pre_hook(lambda _, given, to=seen: to.append(given[0]))
        model.outputs(task, "dev")
        hook.remove()
        hidden = torch.cat(seen)
        mean = adapter.weights(hidden, adapter.changes(hidden)).mean(1)
        torch.testing.assert_close(mean.tolist(), by_place["1/attention"], atol=1e-5, rtol=0)
    assert not found
    assert not any(r["metric"].startswith("fusion") for r in trained["a"].rows("history.parquet"))


@pytest.mark.parametrize("name", STAGES)
def test_loaded_again_it_predicts_the_same_bits(
    name: str, trained: dict[str, Trained], backbone: Path
) -> None:
    stage = trained[name]
    model = load_trained(stage.spec, backbone, stage.file)
    assert not model.training
    found = []
    for split in ("dev", "test"):
        for task in stage.spec.ordered_tasks:
            examples = examples_of(stage.spec, task, stage.sources)[split]
            with torch.no_grad():
                pooled = examples.pool(model.pooled)
                output = model.from_pooled(task, pooled)
            loss = load_part("loss", stage.spec.tasks[task].loss)()
            predicted, scores = loss.prediction(output).tolist(), loss.scores(output).tolist()
            found += list(zip(examples.ids, predicted, scores, strict=True))
            if name == "heads":
                assert torch.equal(pooled, load_file(stage.sources.features[task])[split])
            else:
                assert torch.equal(output, stage.model.outputs(task, split))
    rows = stage.rows("predictions.parquet")
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
    told = rf"{other}/model\.safetensors: not the weights of this stage \(tensor '"
    with pytest.raises(UserError, match=told):
        load_trained(trained[name].spec, backbone, trained[other].file)


def test_adapters_of_another_width_are_refused(trained: dict[str, Trained], backbone: Path) -> None:
    spec = trained["a"].spec
    wider = spec.model_copy(update={"adapter": spec.adapter.model_copy(update={"width": 5})})
    with pytest.raises(UserError, match=r"not the weights of this stage \(tensor 'encoder\..*down"):
        load_trained(wider, backbone, trained["a"].file)


def test_only_the_stages_own_weights_are_restored(trained: dict[str, Trained]) -> None:
    model, saved = trained["a"].model, load_file(trained["a"].file)
    model.restore(saved)
    assert all(torch.equal(tensor, saved[n]) for n, tensor in model.weights().items())
    some = dict(list(saved.items())[1:])
    for wrong in (some, {**saved, "heads.para.linears.0.bias": torch.zeros(1)}):
        with pytest.raises(ValueError, match="not this model's weights"):
            model.restore(wrong)


def test_features_have_a_row_a_sequence_and_the_same_bytes_again(
    trained: dict[str, Trained], backbone: Path, tokens: dict[str, Path], tmp_path: Path
) -> None:
    files = trained["heads"].sources.features
    found = {task: load_file(path) for task, path in files.items()}
    sizes = {task: {split: len(t) for split, t in of.items()} for task, of in found.items()}
    assert sizes == {
        "sst": {"train": 11, "dev": 6, "test": 5},
        "para": {"train": 36, "dev": 16, "test": 8},
        "sts": {"train": 10, "dev": 7, "test": 5},
    }
    kinds = {(t.dtype, t.shape[1]) for of in found.values() for t in of.values()}
    assert kinds == {(torch.float32, 32)}
    again = tmp_path / "again.safetensors"
    cache_features("para", "mean", "siamese", 512, backbone, tokens["para"], again, CPU)
    assert again.read_bytes() == files["para"].read_bytes()


def test_outputs_on_features_are_the_whole_models(trained: dict[str, Trained]) -> None:
    spec, given = trained["heads"].spec, trained["heads"].sources
    probe = FrozenProbe(spec, given, CPU)
    whole = Finetuned(spec.model_copy(update={"trainable": "all"}), given, CPU)
    for name, tensor in probe.weights().items():
        if tensor.numel() > 50:  # Both start alike.
            other = whole.weights()[name].std().item()
            assert tensor.std().item() == pytest.approx(other, rel=0.2), name
    unfit = whole.module.load_state_dict(probe.weights(), strict=False)
    assert not unfit.unexpected_keys
    assert all(name.startswith("encoder.") for name in unfit.missing_keys)
    for model in (probe, whole):
        model.module.eval()
    close = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-5)
    for task in spec.tasks:
        for split in ("dev", "test"):
            close(probe.outputs(task, split), whole.outputs(task, split))
            assert probe.examples[task][split].ids == whole.examples[task][split].ids
        step = [(task, torch.tensor([3, 0, 3, 6]))]
        close(probe.forward(step), whole.forward(step))
    assert probe.shared_parameters() == []
    own = [p for task in spec.tasks for p in probe.own_parameters(task)]
    assert {id(p) for p in own} == {id(p) for p in probe.module.parameters()}
    absent = given.features["sst"].with_name("absent")
    with pytest.raises(UserError, match=r"absent: no such weights file"):
        FrozenProbe(spec, Sources(given.backbone, given.tokens, {"sst": absent}), CPU)


TASKS: dict[str, dict[str, Any]] = {
    "sst": {"pooling": "cls"},
    "para": {"pooling": "mean", "pairing": "siamese", "features": ["u", "v", "u*v"]},
    "sts": {"pooling": "cls", "pairing": "cross"},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FAMILIES)
def test_with_each_encoder_what_is_trained_is_counted_saved_and_predicts_the_same(
    name: str, way: str, folders: Folders, tokens: dict[str, Path], make_spec: Any, tmp_path: Path
) -> None:
    backbone = folders[name].ours
    train = partial(train_stage, device="cpu", precision="fp32")
    fused = []
    for seed, part in enumerate("ab" if way == "fusion" else ""):
        tuned = make_spec(TASKS, trainable="adapters", adapter={"width": 3 + seed})
        train(tuned, seed, Sources(backbone, tokens, {}), tmp_path / part, title=part)
        fused.append(tmp_path / part / "model.safetensors")
    spec = make_spec(TASKS, **WAYS[way], optimiser={"lr": 0.01})
    features = features_of(spec, backbone, tokens, tmp_path)
    sources = Sources(backbone, tokens, features, None, tuple(fused))
    train(spec, 0, sources, tmp_path / "out", title=way)
    model = load_trained(spec, backbone, tmp_path / "out" / "model.safetensors")
    counted = count(spec, read_architecture(backbone / "config.json"), (3, 4) if fused else ())
    assert counted["total"] == sum(p.numel() for p in model.parameters())
    state = load_file(tmp_path / "out" / "model.safetensors")
    assert all(tensor.isfinite().all() for tensor in state.values())
    rows = pq.read_table(tmp_path / "out" / "predictions.parquet").to_pylist()
    for task in spec.tasks:
        examples = examples_of(spec, task, sources)["dev"]
        with torch.no_grad():
            output = model.from_pooled(task, examples.pool(model.pooled))
        kept = {r["id"]: r["scores"] for r in rows if (r["task"], r["split"]) == (task, "dev")}
        found = torch.tensor([kept[each] for each in examples.ids])
        expected = {"para": output.sigmoid(), "sst": output.softmax(-1)}.get(task, output)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
        assert len({str(scores) for scores in kept.values()}) > 3
