"""`minbert export`: transformers and the code in the card give the same logits, without minbert."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from encoders import CONFIGS, TEXT, Folders
from torch import Tensor, nn

from minbert.base.errors import UserError
from minbert.base.files import read_json, write_text
from minbert.commands.cli import main
from minbert.data.tokenise import encode
from minbert.data.tokenizer import load_tokenizer
from minbert.model.lora import LowRank, add_lora
from minbert.model.multitask import MultitaskModel
from minbert.model.weights import load_weights
from minbert.plan.plan import Plan
from minbert.predict.export import export, write_model
from minbert.predict.predictor import Predictor, source_of
from minbert.predict.resolve_run import find
from minbert.predict.usage import example
from minbert.spec.architecture import WEIGHTS, read_architecture
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS
from minbert.train.examples import special_tokens, token_examples

FIRST = ["a film", *TEXT[1:], "it", "a film " * 60]
SECOND = [TEXT[2], "of little else", "a", "is it?", "too long"]
HOW: dict[str, dict[str, Any]] = {
    "sst": {"loss": "cross_entropy"},
    "cfimdb": {
        "loss": "cross_entropy",
        "pooling": "mean",
        "convolution": {"residual": True},
    },
    "para": {
        "loss": "binary_cross_entropy",
        "pairing": "siamese",
        "features": ["u", "v", "u*v", "|u-v|"],
        "pooling": "max",
        "convolution": {"kernel": 5},
        "head": {"depth": 2, "width": 8},
    },
    "sts": {"loss": "mse", "pairing": "cross", "head": {"depth": 3, "width": 8}},
}
COSINE = {
    "para": {"loss": "cosine_embedding", "head": {"name": "cosine", "depth": 0}},
    "sts": {"loss": "cosine_mse", "head": {"name": "cosine", "depth": 2, "width": 8}},
}
for task in COSINE.values():
    task |= {"pairing": "siamese", "features": ["u", "v"], "pooling": "mean"}

LOADED = """
import json, os, re, sys
sys.modules["minbert"] = None  # its import fails
found = {}
for name, (folder, asked) in json.load(sys.stdin).items():
    os.chdir(folder)
    with open("README.md", encoding="utf-8") as file:
        (code,) = re.findall("```python\\n(.*?)```", file.read(), re.DOTALL)
    names = {}
    exec(code, names)
    found[name] = {task: names["outputs"](task, *sides).tolist() for task, sides in asked.items()}
print(json.dumps(found))
"""


@torch.no_grad()
def logits(model: MultitaskModel, arch: Any, tokenizer: Path, length: int, task: str) -> Tensor:
    """Return what our model gives for the examples, [examples, outputs]."""

    known, ids = TASKS[task], partial(encode, load_tokenizer(tokenizer))
    table = pa.table(
        {
            "id": list(map(str, range(len(FIRST)))),
            "label": pa.nulls(len(FIRST), pa.float32()),
            "tokens1": pa.array(ids(list(FIRST)), pa.list_(pa.int32())),
            "tokens2": pa.array(ids(list(SECOND)), pa.list_(pa.int32())),
        }
    )
    special = special_tokens(tokenizer, arch.two_types)
    pairing = model.spec.tasks[task].pairing if known.pair else None
    examples = token_examples(table, pairing, special, length, torch.device("cpu"))
    pooled = examples.inputs.pool(lambda batch: model.pooled([(task, batch)])[0])
    return model.from_pooled(task, pooled)


def sides(task: str) -> list[list[str]]:
    return [FIRST, SECOND] if TASKS[task].pair else [FIRST]


def elsewhere(exported: dict[str, tuple[Path, list[str]]]) -> dict[str, dict[str, Tensor]]:
    """Return the logits of all exported folders and their tasks, by the code in their cards."""
    asked = {
        name: (str(folder), {task: sides(task) for task in tasks})
        for name, (folder, tasks) in exported.items()
    }
    words = [sys.executable, "-I", "-c", LOADED]
    done = subprocess.run(
        words, check=False, input=json.dumps(asked), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "newly initialized" not in done.stderr and "not used" not in done.stderr, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    return {
        name: {task: torch.tensor(rows) for task, rows in of.items()} for name, of in found.items()
    }


def compare(found: dict[str, Tensor], expected: dict[str, Tensor], name: str) -> None:
    for task, ours in expected.items():
        assert ours.std(0).max() > 1e-3, f"{name}, {task}: all alike"
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0, msg=lambda m: f"{name}: {m}")


def model_of(folder: Path, lora: bool = False, **stage: Any) -> MultitaskModel:
    """Return a model with random heads on a backbone, in evaluation mode."""
    torch.manual_seed(5)
    spec = StageSpec.model_validate({"tasks": HOW, **stage})
    model = MultitaskModel(read_architecture(folder / "config.json"), spec)
    model.encoder.load_backbone(load_weights(folder / WEIGHTS))
    if lora:
        add_lora(model.encoder, 2, 8.0)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, LowRank):
                module.up.weight.normal_(std=0.2)
            if isinstance(module, nn.Conv1d):
                module.weight.mul_(4)
        for parameter in model.encoder.own.parameters():  # copies that differ
            parameter.add_(torch.randn_like(parameter), alpha=0.02)
    return model.eval()


def test_every_encoder_and_every_head_gives_the_same_logits_elsewhere(
    folders: Folders, tmp_path: Path
) -> None:
    cases: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
        name: (name, {}, tuple(HOW)) for name in CONFIGS
    }
    cases["lora"] = ("bert", {"lora": True}, tuple(HOW))
    cases["cosine"] = ("bert", {"tasks": COSINE}, tuple(COSINE))
    cases["none shared"] = ("electra", {"shared_layers": "none"}, ("sts",))
    cases["top shared"] = ("roberta", {"shared_layers": 1, "shared_end": "top"}, ("sst",))
    exported, expected = {}, {}
    for number, (name, (of, stage, tasks)) in enumerate(cases.items()):
        ours = folders[of].ours
        model, arch = model_of(ours, **stage), read_architecture(ours / "config.json")
        tokenizer, folder = ours / "tokenizer.json", tmp_path / str(number)
        expected[name] = {t: logits(model, arch, tokenizer, 48, t) for t in tasks}
        write_model(folder, model, tasks, arch, tokenizer, 48)
        write_text(folder / "README.md", f"```python\n{example(tasks)}```\n")
        exported[name] = (folder, list(tasks))
    found = elsewhere(exported)
    for name, ours_of in expected.items():
        compare(found[name], ours_of, name)


def test_trained_variants_are_exported_by_the_command(
    trained_plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = trained_plan.root
    cases = {
        "one/three": ["sst", "para", "sts"],
        "staged --task sts": ["sts"],
        "best --task para": ["para"],
    }
    exported, expected = {}, {}
    for number, (words, tasks) in enumerate(cases.items()):
        variant, *options = words.split()
        folder = tmp_path / str(number)
        main(["export", variant, str(folder), *options, "--results", str(root)])
        assert capsys.readouterr().out == f"{folder}: {', '.join(tasks)}\n"
        run = find(root, variant).runs(tasks)[tasks[0]]
        predictor = Predictor(source_of(run), "cpu")
        files = (run.job.need("backbone.tokenizer.json"), predictor.max_length)
        of = partial(logits, predictor.model, predictor.arch, *files)
        exported[words], expected[words] = (folder, tasks), {task: of(task) for task in tasks}
    found = elsewhere(exported)
    for words, ours in expected.items():
        compare(found[words], ours, words)
    facts = read_json(tmp_path / "0" / "heads.json")["tasks"]
    assert facts["sst"]["classes"][0] == "negative" and facts["sts"]["range"] == [0, 5]
    assert "the likeliest class" in facts["sst"]["reading"]
    card = (tmp_path / "2" / "README.md").read_text("utf-8")
    key = find(root, "best").runs(["para"])["para"].key
    assert "# one: best" in card and f"training `{key}`" in card
    assert "| para | accuracy | dev | 0.5000 |" in card
    assert "- sst: generated by this repository" in card


@pytest.mark.parametrize(
    ("variant", "task", "told"),
    [
        ("staged", None, "sst, para, sts have no encoder in common; name one"),
        ("adapted", "sst", "'trainable: adapters' puts adapters with a nonlinearity"),
        ("fused", None, "'trainable: fusion' puts adapters"),
        ("later", "sst", "variant 'later' is not trained yet"),
    ],
)
def test_what_cannot_be_exported_is_refused_and_writes_nothing(
    variant: str, task: str | None, told: str, trained_plan: Plan, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=re.escape(told)):
        export(trained_plan.root, variant, tmp_path / "out", task=task)
    assert not (tmp_path / "out").exists()
    (tmp_path / "mine.txt").write_text("mine")
    for folder in (tmp_path, tmp_path / "mine.txt"):
        with pytest.raises(UserError, match="expected a new or an empty folder"):
            export(trained_plan.root, variant, folder, task=task)


def test_an_export_that_fails_leaves_no_half_of_a_model(
    trained_plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        assert (path.parent / "model.safetensors").exists()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("minbert.predict.export.write_text", full)
    with pytest.raises(OSError, match="No space left"):
        export(trained_plan.root, "frozen", tmp_path / "model")
    assert not any((tmp_path / "model").iterdir())
