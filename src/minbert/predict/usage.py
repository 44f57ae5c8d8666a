"""The code in an exported model's card: plain torch and `transformers`, nothing of this package."""

from collections.abc import Sequence

from minbert.spec.task import TASKS

HEADS = ("mlp", "cosine")
POOLINGS = ("cls", "mean", "max")
"""The parts that the code knows."""

_CODE = '''\
import json

import torch
from safetensors.torch import load_file
from torch.nn import functional as F
from transformers import AutoModel, AutoTokenizer

FOLDER = "."  # this folder
encoder = AutoModel.from_pretrained(FOLDER).eval()
tokenizer = AutoTokenizer.from_pretrained(FOLDER)
heads = load_file(f"{FOLDER}/heads.safetensors")
with open(f"{FOLDER}/heads.json", encoding="utf-8") as file:
    tasks = json.load(file)["tasks"]


def embed(task, *sentences):
    """One embedding for each sentence, or for each pair that is encoded as one sequence."""
    batch = tokenizer(*sentences, padding=True, truncation=True, return_tensors="pt")
    hidden, mask = encoder(**batch).last_hidden_state, batch["attention_mask"][:, :, None]
    if convolution := tasks[task]["convolution"]:
        weight, bias = (heads[f"{task}.convolution.{name}"] for name in ("weight", "bias"))
        changed = F.conv1d((hidden * mask).mT, weight, bias, padding="same").mT.relu()
        hidden = hidden + changed if convolution["residual"] else changed
    if tasks[task]["pooling"] == "cls":
        return F.linear(hidden[:, 0], heads["pooler.weight"], heads["pooler.bias"]).tanh()
    if tasks[task]["pooling"] == "mean":
        return (hidden * mask).sum(1) / mask.sum(1)
    return hidden.masked_fill(mask == 0, -torch.inf).amax(1)


def layers(task, x):
    """The head's linear layers; ReLU follows each, but not the last one of an `mlp`."""
    head = tasks[task]["head"]
    for n in range(head["depth"]):
        x = F.linear(x, heads[f"{task}.linears.{n}.weight"], heads[f"{task}.linears.{n}.bias"])
        x = x.relu() if n + 1 < head["depth"] or head["name"] == "cosine" else x
    return x


@torch.no_grad()
def outputs(task, *sentences):
    """Logits, values or cosines [examples, outputs]; a task of pairs takes two lists."""
    if tasks[task]["pairing"] != "siamese":
        return layers(task, embed(task, *sentences))
    u, v = (embed(task, side) for side in sentences)
    if tasks[task]["head"]["name"] == "cosine":
        return F.cosine_similarity(layers(task, u), layers(task, v))[:, None]
    features = {"u": u, "v": v, "u*v": u * v, "|u-v|": (u - v).abs()}
    return layers(task, torch.cat([features[name] for name in tasks[task]["features"]], 1))

'''


def example(tasks: Sequence[str]) -> str:
    """Return the code, with a call for each of `tasks` at its end."""
    calls = ""
    for task in tasks:
        sides = ['["A warm film."]', '["It drags."]'][: 1 + TASKS[task].pair]
        calls += f'\nprint("{task}", outputs("{task}", {", ".join(sides)}))'
    return f"{_CODE}{calls}\n"
