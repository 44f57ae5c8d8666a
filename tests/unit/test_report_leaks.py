"""What examples of dev whose text train has, too, add to scores."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from minbert.data.rows import SCHEMA
from minbert.evaluate.reading import Of
from minbert.report.leaks import leaked

RIGHT = {"v": [(7, 6), (1, 0)], "w": [(8, 7), (0, 0)]}
"""By seed: how many of 8 dev examples a variant has right, and of the 7 that are not in train."""
SAID = "p: SST accuracy without 1 of 8 examples: median -0.0357, most -0.0714 (V)"


@pytest.mark.parametrize(("in_train", "said"), [("az", [SAID]), ("", []), ("abcdefgh", [])])
def test_the_report_has_what_leaked_examples_add(
    in_train: str, said: list[str], tmp_path: Path
) -> None:
    rows = [
        {"id": name, "split": "dev", "label": 1.0, "in_train": name in in_train}
        for name in "abcdefghz"  # z is in the half of dev that chose the epochs
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), tmp_path / "rows")
    for variant, seeds in RIGHT.items():
        for seed, (whole, clean) in enumerate(seeds):
            right = [whole > clean, *(n < clean for n in range(7))]
            lines = [
                {"id": name, "task": "sst", "split": "dev", "prediction": float(one)}
                | {"label": 1.0, "scores": [0.0] * 5}
                for name, one in zip("abcdefgh", right, strict=True)
            ]
            pq.write_table(pa.Table.from_pylist(lines), tmp_path / f"{variant}{seed}")
    material: Any = SimpleNamespace(
        job=SimpleNamespace(needs=lambda _: {"sst": tmp_path / "rows"}),
        papers=["p"],
        trained=lambda _: iter([(Of(name, "dev", "sst"), name) for name in RIGHT]),
        labels={("p", name): name.upper() for name in RIGHT},
        predictions=lambda name: [tmp_path / f"{name}{seed}" for seed in (0, 1)],
    )
    assert list(leaked(material)) == said
