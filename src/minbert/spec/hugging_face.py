"""A Hugging Face folder: which of its files make a backbone, and the shapes in its config.json."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError
from minbert.base.files import read_json
from minbert.spec.architecture import WEIGHTS, Architecture
from minbert.spec.parts import PARTS, load_part
from minbert.spec.yaml import inside, validated

SHARDS = "model.safetensors.index.json"
"""Says which of several files has which tensor; counts if there is no `WEIGHTS`."""
VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt", "tokenizer_config.json")
FILES = ("config.json", WEIGHTS, *VOCABULARIES)
"""The files of a Hugging Face folder that a backbone is made from, as far as present."""

ACTIVATIONS = {
    "gelu": ("gelu", "gelu_python"),
    "gelu_tanh": ("gelu_pytorch_tanh", "gelu_new", "gelu_fast"),
}
"""GELU (Hendrycks and Gimpel, 2016), exact or by tanh: its names there, the usual one first."""


def from_hugging_face(path: Path) -> Architecture:
    """Read the architecture in a Hugging Face `config.json`.

    Raises `UserError` naming `path` and the setting for an unknown `model_type`, a missing or unfit
    size, an activation other than GELU, or another kind of model.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file; a backbone is a folder in Hugging Face's layout")
    config = read_json(path)
    with inside(str(path)):
        return _architecture(config)


def _architecture(config: Mapping[str, Any]) -> Architecture:
    if "model_type" not in config:
        known = ", ".join(PARTS["architecture"])
        raise UserError(f"has no model_type; add that of the weights' source (known: {known})")
    with inside("model_type"):
        kind: type[Architecture] = load_part("architecture", str(config["model_type"]))
    for name, only in kind.only.items():
        if (found := config.get(name)) not in (None, only):
            raise UserError(f"{name} is {found!r:.80}; only {only!r} is known")
    names = kind.settings
    values = {**kind.defaults, **{o: config[t] for o, t in names.items() if t in config}}
    if missing := [theirs for ours, theirs in names.items() if ours not in values]:
        raise UserError(f"has no {', '.join(missing)}; is it a Hugging Face config.json?")
    ours_of = {name: ours for ours, theirs in ACTIVATIONS.items() for name in theirs}
    if (given := str(values["activation"])) not in ours_of:
        raise UserError(
            f"{names['activation']} is {given!r:.80}; only GELU is known: {', '.join(ours_of)}"
        )
    values["activation"] = ours_of[given]
    shapes = validated(kind, values, names=names).finalize(config)
    if shapes.hidden % shapes.heads:
        raise UserError(
            f"{names['hidden']} {shapes.hidden} is no multiple of {names['heads']} {shapes.heads}"
        )
    # Once more, as what follows from the settings may be no architecture either.
    return validated(kind, shapes.model_dump(), names=names)


def backbone_files(folder: Path) -> list[Path]:
    """Return the files of a Hugging Face folder that a backbone is made from: `FILES`, shards."""
    found = [folder / name for name in FILES]
    if not (folder / WEIGHTS).is_file() and (folder / SHARDS).is_file():
        found += [folder / SHARDS, *sorted({folder / name for name in shards(folder).values()})]
    return [path for path in found if path.is_file()]


def shards(folder: Path) -> dict[str, str]:
    """Return {tensor: file name} of sharded weights; `UserError` for a damaged index."""
    files = read_json(folder / SHARDS).get("weight_map")
    if not isinstance(files, dict):
        raise UserError(
            f"{folder / SHARDS}: has no weight_map; is it the index of safetensors files?"
        )
    return files
