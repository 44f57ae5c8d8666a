"""The course's prediction files, byte by byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from planned_root import Planned

from minbert.base.errors import UserError
from minbert.commands.cli import main
from minbert.predict.submit import submit


@pytest.fixture
def planned(tmp_path: Path) -> Planned:
    """A variant whose SST comes from another stage than para and STS; CFIMDB beside them."""
    made = Planned(tmp_path / "results")
    made.stage("a1", "sst para sts", "three")
    made.stage("a2", "sst cfimdb", "three")
    made.stage("b1", "cfimdb", "reviews")
    values = {"x9": 2.345678, "x1": -0.1, "x5": 1e-5, "x0": 5.0}
    sts = [(name, "sts", "dev", float(np.float32(v))) for name, v in values.items()]
    para = [("q2", "para", "dev", 1.0), ("q1", "para", "dev", 0.0), ("q3", "para", "test", 1.0)]
    wrong = [("s1", "sst", "dev", 0.0)]
    made.predictions("a1", [*wrong, *para, *sts, ("x7", "sts", "test", 3.25)])
    sst = [("s2", "sst", "dev", 4.0), ("s1", "sst", "dev", 3.0)]
    made.predictions("a2", [*sst, ("c1", "cfimdb", "dev", 1.0)])
    made.predictions("b1", [("c1", "cfimdb", "dev", 1.0)])
    return made


GOLDEN = {
    "sst-dev": b"id \t Predicted_Sentiment \ns2 , 4 \ns1 , 3 \n",
    "para-dev": b"id \t Predicted_Is_Paraphrase \nq2 , 1.0 \nq1 , 0.0 \n",
    "para-test": b"id \t Predicted_Is_Paraphrase \nq3 , 1.0 \n",
    "sts-dev": b"id \t Predicted_Similiary \n"
    b"x9 , 2.3456780910491943 \nx1 , -0.10000000149011612 \nx5 , 9.999999747378752e-06 \n"
    b"x0 , 5.0 \n",
    "sts-test": b"id \t Predicted_Similiary \nx7 , 3.25 \n",
}


def test_the_files_bytes(planned: Planned, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # its own earlier files are no hindrance
        main(["submit", "three", "--results", str(planned.root)])
        told = capsys.readouterr()
        folder = planned.root / "submissions" / "p" / "three" / "seed0"
        found = {path.name: path.read_bytes() for path in folder.iterdir()}
        assert found == {f"{name}-output.csv": content for name, content in GOLDEN.items()}
        assert f"{folder / 'sts-dev-output.csv'}: 4 rows\n" in told.out
        assert len(told.out.splitlines()) == 5
        assert "left out cfimdb" in told.err and "sst has no test examples" in told.err


def test_the_half_of_dev_that_chose_the_epoch_is_in_the_file_too(planned: Planned) -> None:
    splits = ("dev", "selection", "selection", "dev", "test")
    rows = [(f"s{n}", "sst", split, float(n)) for n, split in enumerate(splits)]
    planned.predictions("a2", rows)
    made = submit(planned.root, "three", out=planned.root / "out")
    assert made[planned.root / "out" / "sst-dev-output.csv"] == 4
    lines = (planned.root / "out" / "sst-dev-output.csv").read_text().splitlines()
    assert lines[1:] == [f"s{n} , {n} " for n in range(4)], "in the order of the data"


def test_the_best_of_others_takes_each_task_from_its_run(planned: Planned) -> None:
    planned.scores([("best", 0, "sst", "a2"), ("best", 0, "para", "a1")])
    made = submit(planned.root, "best", out=planned.root / "out")
    assert {path.name: rows for path, rows in made.items()} == {
        "sst-dev-output.csv": 2,
        "para-dev-output.csv": 2,
        "para-test-output.csv": 1,
    }


def test_nothing_is_written_of_what_is_no_number_or_no_task_of_the_course(planned: Planned) -> None:
    planned.predictions("a2", [("s1", "sst", "dev", 1.0)])
    planned.predictions("a1", [("q1", "para", "dev", 1.0), ("x1", "sts", "dev", float("nan"))])
    with pytest.raises(
        UserError, match=r"a1/seed0/predictions.parquet: .*'x1' \(sts, dev\) is nan"
    ):
        submit(planned.root, "three", out=planned.root / "out")
    assert not (planned.root / "out").exists()
    with pytest.raises(UserError, match="has cfimdb, but the course asks only for"):
        submit(planned.root, "reviews")
