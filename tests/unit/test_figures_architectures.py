"""The drawing of what models share: blocks, and the parameters that it says."""

from __future__ import annotations

from typing import Any

import pytest
from figure_texts import drawn
from matplotlib.text import Text

from minbert.figures import architectures
from minbert.figures.inputs import Inputs
from minbert.spec.architecture import BERT_BASE


@pytest.mark.parametrize(
    ("shared", "expected"),
    [
        ("all", [("embeddings", True), ("layers 1 to 12", True), ("pooler", True)]),
        ("none", [("embeddings", False), ("layers 1 to 12", False), ("pooler", False)]),
        (
            0.5,
            [
                ("embeddings", True),
                ("layers 1 to 6", True),
                ("layers 7 to 12", False),
                ("pooler", False),
            ],
        ),
        (
            11,
            [
                ("embeddings", True),
                ("layers 1 to 11", True),
                ("layer 12", False),
                ("pooler", False),
            ],
        ),
    ],
)
def test_blocks_are_the_whole_encoder(shared: Any, expected: list[tuple[str, bool]]) -> None:
    blocks = architectures.blocks({"shared_layers": shared, "shared_end": "bottom"}, BERT_BASE)
    assert [(block.name, block.shared) for block in blocks] == expected
    parts = BERT_BASE.parameters()
    assert sum(block.parameters for block in blocks) == 109_482_240
    assert blocks[1].parameters == sum(parts.layers[: blocks[1].layers])


def test_blocks_shared_at_the_top_are_drawn_there() -> None:
    blocks = architectures.blocks({"shared_layers": 2, "shared_end": "top"}, BERT_BASE)
    assert [(block.name, block.shared) for block in blocks] == [
        ("embeddings", False),
        ("layers 1 to 10", False),
        ("layers 11 to 12", True),
        ("pooler", True),
    ]


def test_a_models_drawing_says_its_parameters() -> None:
    head = {"name": "mlp", "depth": 3}
    tasks = {
        "sst": {"head": head, "convolution": {"kernel": 3, "residual": True}},
        "sts": {"head": head, "convolution": None},
    }
    counts = ({"total": 109_500_000, "heads": 13_570}, {"total": 219_000_000, "heads": 640})
    stages = {
        name: [
            {
                "spec": {"tasks": tasks, "shared_layers": shared, "shared_end": "bottom"},
                "parameters": of,
            }
        ]
        for name, shared, of in zip("ab", ("all", "none"), counts, strict=True)
    }
    facts = {"architecture": BERT_BASE.model_dump(), "stages": stages}
    figure, notes = drawn("architectures", Inputs(facts=facts), "a b")
    said = [text.get_text() for text in figure.findobj(Text)]
    assert "A\nparameters: 110 M, 50% of the largest" in said and "B\nparameters: 219 M" in said
    assert said.count("layers 1 to 12\n85.1 M") == 1 + 2
    assert said.count("convolution\n+ residual") == 2  # SST's, in both models
    assert {"SST\nmlp, 3", "heads: 13.6 k in total", "heads: 640 in total"} <= set(said)
    assert notes[0].startswith("Backbone: 12 layers of 768 units.")
