"""`minbert export`: transformers and the code in the card give the same logits, without minbert."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from encoders import CONFIGS, TEXT, Folders
from torch import Tensor, nn

from minbert.base.errors import UserError
from minbert.base.files import read_json, write_text
from minbert.commands.cli import main
from minbert.model.multitask import MultitaskModel
from minbert.model.weights import load_weights
from minbert.plan.plan import Plan
from minbert.predict.export import card, export, write_model
from minbert.predict.predictor import Predictor
from minbert.predict.resolve_run import find
from minbert.spec.architecture import WEIGHTS, read_architecture
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS

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
for folder, asked in json.load(sys.stdin).items():
    os.chdir(folder)
    with open("README.md", encoding="utf-8") as file:
        (code,) = re.findall("```python\\n(.*?)```", file.read(), re.DOTALL)
    names = {}
    exec(code, names)
    found[folder] = {task: names["outputs"](task, *sides).tolist() for task, sides in asked.items()}
print(json.dumps(found))
"""


def sides(task: str) -> list[list[str]]:
    return [FIRST, SECOND] if TASKS[task].pair else [FIRST]


def logits(made: Predictor) -> Tensor:
    """Return what our model gives for the examples, [examples, outputs]."""
    pairs = zip(*sides(made.task.name), strict=True)
    return made.logits([{f"sentence{n}": text for n, text in enumerate(of, 1)} for of in pairs])


def elsewhere(asked: dict[str, list[str]]) -> dict[str, dict[str, Tensor]]:
    """Return the logits of exported folders and their tasks, by the code in their cards."""
    words = [sys.executable, "-I", "-c", LOADED]
    texts = {folder: {task: sides(task) for task in tasks} for folder, tasks in asked.items()}
    given = {"input": json.dumps(texts), "capture_output": True, "text": True}
    done = subprocess.run(words, check=False, **given)
    assert done.returncode == 0, done.stderr
    assert "newly initialized" not in done.stderr and "not used" not in done.stderr, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    return {n: {task: torch.tensor(rows) for task, rows in of.items()} for n, of in found.items()}


def model_of(folder: Path, **stage: Any) -> MultitaskModel:
    """Return a model with random heads on a backbone, in evaluation mode."""
    torch.manual_seed(5)
    spec = StageSpec.model_validate({"tasks": HOW, "max_length": 48, **stage})
    model = MultitaskModel(read_architecture(folder / "config.json"), spec)
    model.encoder.load_backbone(load_weights(folder / WEIGHTS))
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Conv1d):
                module.weight.mul_(4)
        for parameter in model.encoder.own.parameters():  # copies that differ
            parameter.add_(torch.randn_like(parameter), alpha=0.02)
    return model.eval()


def test_every_encoder_and_head_gives_the_same_logits_elsewhere_as_do_trained_variants(
    folders: Folders, trained_plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
        *((name, {}, tuple(HOW)) for name in CONFIGS),
        ("bert", {"tasks": COSINE}, tuple(COSINE)),
        ("electra", {"shared_layers": "none"}, ("sts",)),
        ("roberta", {"shared_layers": 1, "shared_end": "top"}, ("sst",)),
    ]
    root, cpu, expected = trained_plan.root, torch.device("cpu"), {}
    run = find(root, "one/three").run("sst")
    for number, (name, stage, tasks) in enumerate(cases):
        ours, folder = folders[name].ours, tmp_path / f"{number} {name}"
        model = model_of(ours, **stage)
        made = {task: Predictor(TASKS[task], model, ours, cpu) for task in tasks}
        expected[str(folder)] = {task: logits(of) for task, of in made.items()}
        write_model(folder, made[tasks[0]], tasks)
        write_text(folder / "README.md", card(run, tasks))
    for words in ("one/three", "staged --task sts", "best --task para"):
        variant, *options = words.split()
        told, folder = options[1:] or ["sst", "para", "sts"], tmp_path / words
        main(["export", variant, str(folder), *options, "--results", str(root)])
        assert capsys.readouterr().out == f"{folder}: {', '.join(told)}\n"
        runs = find(root, variant).runs(told)
        expected[str(folder)] = {t: logits(Predictor.of(run, "cpu")) for t, run in runs.items()}
    found = elsewhere({folder: [*of] for folder, of in expected.items()})
    for name, tensors in expected.items():
        assert all(of.std(0).max() > 1e-3 for of in tensors.values()), f"{name}: all alike"
        message = partial("{}: {}".format, name)
        torch.testing.assert_close(found[name], tensors, atol=1e-5, rtol=0, msg=message)
    facts = read_json(tmp_path / "one/three" / "heads.json")["tasks"]
    assert facts["sst"]["names"][0] == "negative" and facts["sts"]["high"] == 5
    assert "the likeliest class" in facts["sst"]["reading"]
    text = (tmp_path / "best --task para" / "README.md").read_text("utf-8")
    assert "# one: best" in text and f"training `{runs['para'].key}`" in text
    assert "\n| para | accuracy | dev | 0.5000 |\n" in text and "\n| sst | acc" not in text
    assert "- sst: generated by this repository" in text


@pytest.mark.parametrize(
    ("variant", "task", "told"),
    [
        ("staged", None, "sst, para, sts have no encoder in common; name one"),
        ("adapted", "sst", "'adapters' cannot be exported as a standard encoder"),
        ("fused", None, "'fusion' cannot be exported"),
        ("later", "sst", "variant 'later' has no such run yet"),
    ],
)
def test_what_cannot_be_exported_is_refused_and_writes_nothing(
    variant: str, task: str | None, told: str, trained_plan: Plan, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=re.escape(told)):
        export(trained_plan.root, variant, tmp_path / "out", task=task)
    assert not (tmp_path / "out").exists()
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="expected a new or empty folder"):
        export(trained_plan.root, variant, tmp_path, task=task)
