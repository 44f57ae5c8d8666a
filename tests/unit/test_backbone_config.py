"""What is wrong with the `config.json` of a backbone's folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from minbert.base.errors import UserError
from minbert.plan.sources import Sources
from minbert.spec.config import load_config

BERT = {
    **{"model_type": "bert", "vocab_size": 100, "hidden_size": 32, "hidden_act": "gelu"},
    **{"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64},
    **{"max_position_embeddings": 64, "type_vocab_size": 2},
}


def backbone(tmp_path: Path, config: str | bytes) -> Sources:
    folder = tmp_path / "bert"
    folder.mkdir()
    (folder / "config.json").write_bytes(config.encode() if isinstance(config, str) else config)
    values = {"grids": "g", "data": "builtin", "backbone": str(folder)}
    return Sources(load_config(values), tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"model_type": "gpt2"},
            r"config\.json: model_type: unknown architecture 'gpt2'; known: bert, distilb",
        ),
        ({"model_type": "albert"}, r"Did you mean 'bert'\? All are in docs/adding\.md"),
        ({"model_type": None}, "model_type: unknown architecture 'None'"),
        ({"hidden_act": "relu"}, "hidden_act is 'relu'; only GELU is known: gelu, gelu_python, ge"),
        (
            {"hidden_size": "wide"},
            r"config\.json: 'hidden_size' is 'wide'; expected a whole number",
        ),
        ({"num_attention_heads": 5}, "hidden_size 32 is no multiple of num_attention_heads 5"),
        ({"num_hidden_layers": 0}, "num_hidden_layers' is 0; expected greater than"),
        ({"is_decoder": True}, r"config\.json: is_decoder is True; only False is known"),
        ({"position_embedding_type": "relative_key"}, "is 'relative_key'; only 'absolute' is kno"),
        ({"hidden_act": ["gelu"] * 99}, r"hidden_act is \"\['gelu'[^N]{,80}; only GELU is known"),
        ({"layer_norm_eps": -1e-12}, "layer_norm_eps' is -1e-12; expected greater than 0"),
        ({"hidden_size": 32.0}, r"hidden_size' is 32\.0; expected a whole number"),
        ({"hidden_size": True}, "hidden_size': expected a number, not true"),
        (
            {"max_position_embeddings": 1},
            "embeddings' is 1; expected greater than or equal to 8",
        ),
    ],
)
def test_a_backbone_of_another_kind(tmp_path: Path, config: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        backbone(tmp_path, json.dumps(BERT | config))


def test_all_that_is_wrong_with_a_backbone_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        backbone(tmp_path, json.dumps(BERT | {"hidden_size": 0, "vocab_size": "many"}))
    assert [line.split(";")[0].split(": ")[1] for line in str(refused.value).splitlines()] == [
        "'vocab_size' is 'many'",
        "'hidden_size' is 0",
    ]


def test_a_backbone_without_sizes(tmp_path: Path) -> None:
    sizes = {name: value for name, value in BERT.items() if name != "hidden_size"}
    with pytest.raises(UserError, match="has no hidden_size; is it a Hugging Face"):
        backbone(tmp_path, json.dumps(sizes))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{", "config.json: not valid JSON"),
        ("[" * 100_000, "config.json: not valid JSON"),
        ("[]", "expected a JSON object, found list"),
        (b"\xff{}", "config.json: not valid JSON"),
    ],
)
def test_a_backbone_whose_config_is_none(tmp_path: Path, config: str | bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        backbone(tmp_path, config)
