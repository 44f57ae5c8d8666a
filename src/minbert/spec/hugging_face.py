"""A Hugging Face folder: which of its files make a backbone, and the shapes in its config.json."""

from pathlib import Path

from minbert.base.errors import UserError
from minbert.base.files import read_json
from minbert.spec.architecture import WEIGHTS, Architecture
from minbert.spec.parts import load_part
from minbert.spec.yaml import inside, validated

SHARDS = "model.safetensors.index.json"
"""Says which of several files has which tensor; counts if there is no `WEIGHTS`."""
FILES = ("config.json", WEIGHTS, "tokenizer.json", "vocab.txt", "tokenizer_config.json")
"""The files of a Hugging Face folder that a backbone is made from, as far as present."""

ACTIVATIONS = {
    **dict.fromkeys(("gelu", "gelu_python"), "gelu"),
    **dict.fromkeys(("gelu_pytorch_tanh", "gelu_new", "gelu_fast"), "gelu_tanh"),
}
"""GELU (Hendrycks and Gimpel, 2016), exact or by tanh, by its names there, the usual one first."""


def from_hugging_face(path: Path) -> Architecture:
    """Read the architecture in a Hugging Face `config.json`.

    Raises `UserError` naming `path` and the setting for an unknown `model_type`, a missing or unfit
    size, an activation other than GELU, or another kind of model.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file; a backbone is a folder in Hugging Face's layout")
    config = read_json(path)
    with inside(f"{path}: model_type"):
        kind: type[Architecture] = load_part("architecture", str(config.get("model_type")))
    with inside(str(path)):
        for name, only in kind.only.items():
            if (found := config.get(name)) not in (None, only):
                raise UserError(f"{name} is {found!r:.80}; only {only!r} is known here")
        values = {ours: config[name] for ours, name in kind.settings.items() if name in config}
        known = {"layer_norm_eps", "activation", *values}  # the first two have a usual value
        if missing := [name for ours, name in kind.settings.items() if ours not in known]:
            raise UserError(f"has no {', '.join(missing)}; is it a Hugging Face config.json?")
        given = values.get("activation", "gelu")
        values["activation"] = ACTIVATIONS.get(given, given)
        if values.get("embedding") == values["hidden"]:
            del values["embedding"]
        arch = validated(kind, values)
    if not kind.after_padding:
        return arch
    first = config.get("pad_token_id", 1) + 1
    return arch.model_copy(update={"first_position": first, "positions": arch.positions - first})


def backbone_files(folder: Path) -> list[Path]:
    """Return the files of a Hugging Face folder that a backbone is made from: `FILES`, shards."""
    found = [folder / name for name in FILES]
    if not (folder / WEIGHTS).is_file() and (folder / SHARDS).is_file():
        shards = read_json(folder / SHARDS)["weight_map"].values()
        found += [folder / SHARDS, *sorted({folder / name for name in shards})]
    return [path for path in found if path.is_file()]
