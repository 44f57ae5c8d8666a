"""What is measured of a run's curves, on curves written by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from run_files import history

from minbert.evaluate.curves import by_epoch, measured

RISING = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]


@pytest.mark.parametrize(
    ("measure", "train", "dev", "expected"),
    [
        ("gap", [0.5, 0.9], [0.6, 0.5], 0.4),
        ("gap", [0.9, 0.5], [0.4, 0.6], -0.1),
        ("spread", [], [0.0, 0.5, 0.52, 0.51, 0.49, 0.5], 0.03),
        ("spread", [], [0.5] * 5, 0.0),
        ("spread", [], RISING, 0.4),
        ("epoch", [], RISING, 1.0),
        ("epoch", [], [0.3, 0.4, 0.5, 0.499, 0.501], 0.6),
        ("epoch", [], [0.3, 0.496, 0.4, 0.5, 0.5], 0.4),
        ("epoch", [], [0.3, 0.494, 0.4, 0.5, 0.5], 0.8),
        ("epoch", [], [-0.5, -0.4, -0.2, -0.3], 0.75),
        ("epoch", [], [0.0] * 5, 0.2),
        ("loss", [2.0, 0.5, 0.5], [], 1.0),
    ],
)
def test_measures(measure: str, train: list[float], dev: list[float], expected: float) -> None:
    found = measured(measure, np.array(train), np.array(dev))
    assert found == pytest.approx(expected)


def test_a_curve_has_the_mean_of_each_epoch(tmp_path: Path) -> None:
    rows = [(2, "sst", "loss", 0.5), (1, "sst", "loss", 2.0), (1, "sst", "loss", 1.0)]
    others = [(1, "para", "loss", 9.0), (1, "sst", "accuracy", 0.7)]
    path = history(tmp_path / "history.parquet", *rows, *others, split="train")
    assert by_epoch(path, "train", "sst", "loss").tolist() == [1.5, 0.5]
    assert by_epoch(path, "dev", "sst", "loss").tolist() == []
