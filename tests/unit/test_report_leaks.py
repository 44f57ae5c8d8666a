"""Sentences of a task's dev and test that another task of the paper trains on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from minbert.data.examples import Example, write_examples
from minbert.report.leaks import leaks_between_tasks
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
