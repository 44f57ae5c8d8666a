"""From a Hugging Face folder to a backbone folder of ours."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from minbert.base.errors import UserError, no_file
from minbert.base.files import read_json, write_json
from minbert.data.tokenizer import framing, read_tokenizer, save_tokenizer
from minbert.model.encoder import whole_encoder
from minbert.model.weights import load_weights, save_weights
from minbert.spec.architecture import WEIGHTS, Architecture
from minbert.spec.hugging_face import SHARDS, from_hugging_face, shards
from minbert.spec.parts import PARTS, load_part
from minbert.spec.stage import Dropout

log = logging.getLogger(__name__)

_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.ckpt")
_OLD_NAMES = {"gamma": "weight", "beta": "bias"}  # TensorFlow's, of a norm


def convert_hugging_face(folder: Path, out: Path) -> Architecture:
    """Convert a Hugging Face `folder` to a backbone folder `out`; return its architecture.

    Reads `config.json`, `model.safetensors` or its shards, and the tokenizer's files; writes
    `model.safetensors` (float32, names of `whole_encoder`), `config.json` and `tokenizer.json`. An
    encoder without a pooler gets a new one. Raises `UserError`, naming file and tensor, if
    something is missing, unfit, or a pickle.
    """
    arch = from_hugging_face(folder / "config.json")
    tokenizer, source = read_tokenizer(folder, arch.vocab_size)
    _check_ids(tokenizer, source, arch, folder / "config.json")
    tensors, path = _read_weights(folder)
    state = _convert(tensors, arch, path)
    save_weights(out / WEIGHTS, state)
    write_json(out / "config.json", arch.model_dump())
    save_tokenizer(tokenizer, out / "tokenizer.json")
    return arch


def _check_ids(tokenizer: Tokenizer, source: Path, arch: Architecture, config: Path) -> None:
    """Refuse a tokenizer that begins or ends a sequence otherwise than `config` says."""
    around = framing(tokenizer, source)
    ends = {0: around.before[0], -1: around.after[-1]}
    settings = read_json(config)
    for name, place in arch.token_ids.items():
        if settings.get(name) not in (None, ends[place]):
            where = "begins" if place == 0 else "ends"
            raise UserError(
                f"{source}: a sequence {where} with token {ends[place]}, but {config}: {name} is "
                f"{repr(settings[name])[:80]}; the tokenizer belongs to other weights"
            )


def _read_weights(folder: Path) -> tuple[dict[str, Tensor], Path]:
    """Return the tensors of one file or of all shards, and the file to name in errors."""
    path = folder / WEIGHTS
    if wrong := no_file(path):
        raise UserError(f"{path}: {wrong}; put the weights themselves there")
    if path.is_file():
        return load_weights(path), path
    if (folder / SHARDS).is_file():
        return _read_shards(folder), folder / SHARDS
    for name in _PICKLES:
        if (folder / name).is_file():
            raise UserError(
                f"{folder / name}: weights in a pickle, which can run code when read, are "
                f"refused. Use a revision of the model that has {WEIGHTS}, or convert it where "
                "you trust it: transformers' from_pretrained, then "
                "save_pretrained(..., safe_serialization=True)"
            )
    raise UserError(
        f"{path}: no such file; the folder has "
        f"{', '.join(sorted(p.name for p in folder.iterdir())) or 'nothing'}"
    )


def _read_shards(folder: Path) -> dict[str, Tensor]:
    files = shards(folder)
    state: dict[str, Tensor] = {}
    for name in sorted(set(files.values())):
        tensors = load_weights(folder / name)
        wanted = [tensor for tensor, file in files.items() if file == name]
        if absent := [tensor for tensor in wanted if tensor not in tensors]:
            raise UserError(
                f"{folder / name}: has no tensor '{absent[0]}', which {SHARDS} says is there"
            )
        state |= {tensor: tensors[tensor] for tensor in wanted}
    return state


def _convert(tensors: Mapping[str, Tensor], arch: Architecture, path: Path) -> dict[str, Tensor]:
    with torch.device("meta"):
        expected = {
            name: t.shape for name, t in whole_encoder(arch, Dropout()).state_dict().items()
        }
    pooler = {name for name in expected if name.startswith("pooler.")}
    has_pooler = "pooler.dense" in arch.tensors
    sources = {n: arch.hugging_face(n) for n in expected if has_pooler or n not in pooler}
    found = _plain_names(tensors, arch, sources, path)
    state = {}
    if not any(name in found for n in pooler & sources.keys() for name in sources[n]):
        log.warning(
            "%s: has no pooler. 'pooling: cls' starts from a new one, which gives tanh of the "
            "first token's state; 'mean' and 'max' need none",
            path,
        )
        sources = {ours: theirs for ours, theirs in sources.items() if ours not in pooler}
        # Not drawn: a frozen one would be a random map, and cached features know no seed.
        state = {
            "pooler.dense.weight": torch.eye(arch.hidden),
            "pooler.dense.bias": torch.zeros(arch.hidden),
        }
    for ours, theirs in sources.items():
        rows, *columns = expected[ours]
        shape = (rows // len(theirs), *columns)
        state[ours] = torch.cat([_take(found, name, shape, path) for name in theirs])
    if found:
        raise UserError(
            f"{path}: unexpected tensor '{min(found)}' of shape {list(found[min(found)].shape)}; "
            f"config.json says {arch.family} with {arch.layers} layers. Does it belong to the "
            "weights?"
        )
    return state


def _plain_names(
    tensors: Mapping[str, Tensor],
    arch: Architecture,
    sources: Mapping[str, Sequence[str]],
    path: Path,
) -> dict[str, Tensor]:
    """Keep the encoder's tensors, under today's names: no heads, no constant `position_ids`.

    The encoder's begin with the same words as those in `sources`.
    """
    prefix = arch.prefix if any(name.startswith(arch.prefix) for name in tensors) else ""
    if not prefix:
        _check_family(tensors, arch, path)
    parts = {name.partition(".")[0] for names in sources.values() for name in names}
    plain_names: dict[str, str] = {}
    for name in tensors:
        stem, _, last = name.removeprefix(prefix).rpartition(".")
        if last == "position_ids" or stem.partition(".")[0] not in parts:
            continue
        plain = f"{stem}.{_OLD_NAMES.get(last, last)}"
        if plain in plain_names:
            raise UserError(
                f"{path}: has tensor '{plain}' twice, as '{plain_names[plain]}' and as '{name}'; "
                "take one of them out"
            )
        plain_names[plain] = name
    return {plain: tensors[name] for plain, name in plain_names.items() if name.startswith(prefix)}


def _check_family(tensors: Mapping[str, Tensor], arch: Architecture, path: Path) -> None:
    """Refuse weights whose names are those of another kind of encoder."""
    for family in PARTS["architecture"]:
        prefix = load_part("architecture", family).prefix
        if name := next((name for name in tensors if name.startswith(prefix)), None):
            raise UserError(
                f"{path}: has tensor '{name}', as a model of model_type '{family}' has, but "
                f"config.json's model_type is '{arch.family}'; take both files from one model"
            )


def _take(found: dict[str, Tensor], name: str, shape: tuple[int, ...], path: Path) -> Tensor:
    if name not in found:
        expected = f"expected of shape {list(shape)} by config.json"
        raise UserError(f"{path}: has no tensor '{name}', {expected}")
    if (has := tuple(found[name].shape)) != shape:
        expected = f"expected {list(shape)} by config.json"
        raise UserError(f"{path}: tensor '{name}' has shape {list(has)}, {expected}")
    if not found[name].is_floating_point():
        raise UserError(
            f"{path}: tensor '{name}' is {str(found[name].dtype).removeprefix('torch.')}, expected "
            "floating-point numbers; choose weights that are not quantised"
        )
    tensor = found.pop(name).to(torch.float32)
    if not tensor.isfinite().all():
        raise UserError(
            f"{path}: tensor '{name}' holds NaN or infinity, expected finite numbers (float32); "
            "download the weights again, or choose others"
        )
    return tensor
