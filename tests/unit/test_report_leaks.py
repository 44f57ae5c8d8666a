"""Sentences of a task's dev and test that another task of the paper trains on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from minbert.data.examples import Example, write_examples
from minbert.data.rows import SCHEMA
from minbert.evaluate.reading import Of
from minbert.evaluate.statistics import interval
from minbert.report.leaks import leaked, leaks_between_tasks
from minbert.report.material import Material

TABLES = {
    "sst": [
        Example("1", "train", "Good fun.", None, 3.0),
        Example("2", "dev", "A  fine FILM.", None, 3.0),
        Example("3", "dev", "Dull.", None, 0.0),
        Example("4", "dev", "a fine film.", None, 4.0),
        Example("5", "test", "Endless.", None, None),
    ],
    "sts": [
        Example("6", "train", "Endless.", "a fine film.", 1.0),
        Example("7", "dev", "A dog runs.", "good fun.", 2.0),
        Example("8", "test", "Nothing of others.", "Nor this.", None),
    ],
    "cfimdb": [
        Example("9", "train", "Dull.", None, 0.0),
        Example("10", "dev", "A long review.", None, 1.0),
    ],
}


def told(folder: Path, **papers: list[str]) -> list[str]:
    """Return the leaks between the tasks of `papers` whose tables are in the folder."""
    job: Any = SimpleNamespace(
        spec={"stages": [{"paper": paper, "tasks": tasks} for paper, tasks in papers.items()]},
        described={"needs": {f"examples/{task}": None for task in TABLES}},
        need=lambda name: folder / name,
    )
    return list(leaks_between_tasks(Material(cast(Any, job))))


def test_sentences_of_a_task_in_train_of_another_are_counted(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    for task, examples in TABLES.items():
        write_examples(examples, tmp_path / "examples" / task)
    between = [
        "1 of 2 dev sentences of SST occur in train of STS",
        "1 of 1 test sentences of SST occur in train of STS",
        "1 of 2 dev sentences of STS occur in train of SST",
    ]
    cfimdb = "1 of 2 dev sentences of SST occur in train of CFIMDB"
    assert told(tmp_path, one=["sst", "sts", "cfimdb"]) == [*between[:2], cfimdb, between[2]]
    assert told(tmp_path, one=["sst", "sts"], other=["cfimdb"]) == between, "not in one paper"
    (tmp_path / "examples" / "sst").unlink()
    assert told(tmp_path, one=["sst", "sts", "cfimdb"]) == [], "texts are not here"


RIGHT = {"v": [(7, 6), (1, 0)], "w": [(8, 7), (0, 0)]}
"""By seed: how many of 8 dev examples a variant has right, and of the 7 that are not in train."""


def of_paper(folder: Path, in_train: str) -> Material:
    """Return the material of two variants' predictions of SST; `in_train` are ids of dev."""
    rows = [
        {"id": name, "split": "dev", "label": 1.0, "in_train": name in in_train}
        for name in "abcdefghz"  # z is in the half of dev that chose the epochs
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), folder / "rows")
    for variant, seeds in RIGHT.items():
        for seed, (whole, clean) in enumerate(seeds):
            right = [whole > clean, *(n < clean for n in range(7))]
            said = [
                {"id": name, "task": "sst", "split": "dev", "prediction": float(one)}
                | {"label": 1.0, "scores": [0.0] * 5}
                for name, one in zip("abcdefgh", right, strict=True)
            ]
            pq.write_table(pa.Table.from_pylist(said), folder / f"{variant}{seed}")
    found = [(Of(name, "dev", "sst"), name) for name in RIGHT]
    material: Any = SimpleNamespace(
        job=SimpleNamespace(need=lambda _: folder / "rows"),
        names=lambda _: ["sst"],
        trained=lambda _: iter(found),
        labels={("p", name): name.upper() for name in RIGHT},
        predictions=lambda name: [folder / f"{name}{seed}" for seed in (0, 1)],
    )
    return cast(Material, material)


def test_the_report_has_what_leaked_examples_add(tmp_path: Path) -> None:
    """Differences are paired by seed: the intervals of the scores would be far longer."""
    found = leaked(of_paper(tmp_path, "az"), "p")
    assert found is not None and found.heads == ["SST accuracy (1 of 8)"]
    for (label, (one,)), (name, of) in zip(found.lines, RIGHT.items(), strict=True):
        expected = interval([whole / 8 - clean / 7 for whole, clean in of])
        assert label == name.upper() and one is not None
        assert (one.mean, one.low) == pytest.approx((expected.mean, expected.low))
    assert leaked(of_paper(tmp_path, ""), "p") is None
    everything = leaked(of_paper(tmp_path, "abcdefgh"), "p")
    assert everything is not None and everything.heads == ["SST accuracy (8 of 8)"]
    assert [cells for _, cells in everything.lines] == [[None], [None]]
