"""The course's prediction files, byte by byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from planned_root import Planned

from minbert.base.errors import UserError
from minbert.commands.cli import main
from minbert.predict.predict import submit


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
    # A half of dev chose the epoch.
    sst = [("s2", "sst", "selection", 4.0), ("s1", "sst", "dev", 3.0)]
    made.predictions("a2", [*sst, ("c1", "cfimdb", "dev", 1.0)])
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
        folder = planned.root / "submissions" / "p" / "three" / "seed0"
        found = {path.name: path.read_bytes() for path in folder.iterdir()}
        assert found == {f"{name}-output.csv": content for name, content in GOLDEN.items()}
        told = capsys.readouterr().out.splitlines()
        assert f"{folder / 'sts-dev-output.csv'}: 4 rows" in told and len(told) == 5


def test_a_variant_without_the_courses_tasks_is_refused(planned: Planned) -> None:
    with pytest.raises(UserError, match="has cfimdb; the course asks only for"):
        submit(planned.root, "reviews")
