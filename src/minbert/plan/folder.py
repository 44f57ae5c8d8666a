"""A Hugging Face folder that transformers would read otherwise: refused before anything runs.

A backbone's tokens come from one file and, for a `vocab.txt`, BERT's settings. What else lies there
must agree with it.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from minbert.base.errors import UserError
from minbert.base.files import read_json
from minbert.data.tokenizer import TOKENIZERS, load_tokenizer
from minbert.spec.architecture import WEIGHTS, Architecture
from minbert.spec.parts import PARTS, load_part

_SETTINGS, _ADDED = "tokenizer_config.json", "added_tokens.json"
_BESIDE = (_SETTINGS, "special_tokens_map.json", _ADDED)
_OF_BERT = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer")
_OF_FAMILY = dict(zip(("bert", "distilbert", "electra"), _OF_BERT, strict=True)) | {
    "roberta": "RobertaTokenizer"
}
_MADE = {"vocab.txt": _OF_BERT, "vocab.json": ("RobertaTokenizer",)}
"""Which classes of transformers, but for "Fast", are made from such a file alone."""
_UNLIKE = ("BertJapaneseTokenizer", "BertweetTokenizer", "PhobertTokenizer", "RoCBertTokenizer")
"""Those whose tokens no `tokenizer.json` gives."""
_NORMALIZER = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
"""BERT's settings, by what they are called in a `tokenizer.json`."""


def check_config(path: Path) -> None:
    """Raise `UserError` for a `config.json` that does not say of which kind the encoder is."""
    if path.is_file() and "model_type" not in read_json(path):
        raise UserError(
            f"{path}: has no model_type; add that of the weights' source, such as "
            f'"model_type": "bert" (known: {", ".join(PARTS["architecture"])})'
        )


def check_names(folder: Path, arch: Architecture) -> None:
    """Raise `UserError` if the weights' names begin with those of a wrapper.

    Those of another kind of encoder are left to the job that reads them, and damaged weights.
    """
    path, first = folder / WEIGHTS, arch.hugging_face("embeddings.word.weight")[0]
    if not path.is_file():
        return
    try:
        with safe_open(path, "numpy") as file:
            names = list(file.keys())
    except (OSError, SafetensorError):
        return
    known = {load_part("architecture", family).prefix for family in PARTS["architecture"]} | {""}
    found = {name.removesuffix(first) for name in names if f".{name}".endswith(f".{first}")}
    if found and not found & known:
        raise UserError(
            f"{path}: the names of its tensors begin with '{min(found)}', which a wrapper gave "
            f"them, expected '{arch.prefix}' or nothing; save the encoder that is in the wrapper, "
            "or take the rest off the names"
        )


def check_tokenizer(folder: Path, arch: Architecture) -> None:
    """Raise `UserError`, naming file and key, if the tokens would not be those of the model.

    A vocabulary that is missing or damaged is left to the job that reads it.
    """
    path = next((path for name in TOKENIZERS if (path := folder / name).is_file()), None)
    if path is None:
        return
    said = {name: read_json(folder / name) for name in _BESIDE if (folder / name).is_file()}
    kind, where = _OF_FAMILY.get(arch.family, ""), f"config.json: model_type is '{arch.family}'"
    for name, values in (("config.json", read_json(folder / "config.json")), *said.items()):
        if named := values.get("tokenizer_class"):
            kind, where = str(named).removesuffix("Fast"), f"{name}: tokenizer_class is {named!r}"
    if kind in _UNLIKE or (kind and kind not in _MADE.get(path.name, (kind,))):
        way = "" if kind in _UNLIKE else "put the tokenizer.json of the weights' source there, or "
        raise UserError(
            f"{folder}/{where}, whose tokens {path.name} alone does not give; {way}choose another "
            "backbone"
        )
    try:
        wrong = _unlike(json.loads(load_tokenizer(path).to_str()), said, kind) if said else ()
    except UserError:
        return
    for name, key, value in wrong:
        raise UserError(
            f"{folder / name}: {key} is {value!r:.80}, which {path.name} does not have. Make them "
            "one where transformers is installed: "
            "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
        )


def _unlike(
    made: Mapping[str, Any], said: Mapping[str, Mapping[str, Any]], kind: str
) -> Iterator[tuple[str, str, Any]]:
    """Yield file, key and value of what is `said` beside a tokenizer and not so in it."""
    settings = said.get(_SETTINGS, {})
    parts = [("add_prefix_space", made["pre_tokenizer"], "add_prefix_space")]
    if kind in _OF_BERT:
        parts += [(key, made["normalizer"], name) for key, name in _NORMALIZER.items()]
    for key, part, name in parts:
        if key in settings and name in (part or ()) and settings[key] != part[name]:
            yield _SETTINGS, key, settings[key]
    tokens = [
        (name, key, token)
        for name, values in said.items()
        for key, value in values.items()
        if name == _ADDED or key.endswith(("_token", "_special_tokens", "added_tokens_decoder"))
        for token in ([key] if name == _ADDED else _listed(value))
    ]
    has = {token["content"] for token in made["added_tokens"]}
    yield from ((name, key, token) for name, key, token in tokens if token not in has)


def _listed(value: Any) -> list[str]:
    """Return the tokens in a setting: texts, or objects with a `content`, or several of them."""
    if isinstance(value, dict) and "content" not in value:
        value = list(value.values())
    found = value if isinstance(value, list) else [value]
    texts = (each.get("content") if isinstance(each, dict) else each for each in found)
    return [text for text in texts if isinstance(text, str)]
