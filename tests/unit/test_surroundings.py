"""Where nobody can write, and with a clock that is set back."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_disk import read_only

from minbert.base.errors import explain_os_error
from minbert.commands.cli import main
from minbert.commands.plan import read_plan
from minbert.plan.describe import write
from minbert.plan.plan import Plan
from minbert.predict.predict import predict

REPOSITORY = Path(__file__).parents[2]
BUILTIN = ("data=builtin", "backbone=builtin", "grids=[hybrid-bert]")


def test_results_that_cannot_be_written_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results").write_text("no folder")
    place, words = tmp_path / "results" / "minilm", ["plan", "--directory", str(REPOSITORY)]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--config", *BUILTIN, f"results={place}"])
    told = capsys.readouterr().err
    assert ended.value.code == 2 and f"{place}" in told and "Not a directory" in told
    (tmp_path / "source").mkdir()
    with read_only(tmp_path / "shown", tmp_path / "source") as folder:
        made = read_plan(
            [REPOSITORY / "config.yaml"], [*BUILTIN, f"results={folder / 'results'}"], REPOSITORY
        )
        with pytest.raises(OSError) as raised:
            write(made)
    told = str(explain_os_error(raised.value))
    assert told.startswith(f"cannot read or write {tmp_path / 'shown'}")
    assert "Read-only file system; make it readable and its folder writable, or choose" in told


def test_reading_needs_no_right_to_write(
    trained_plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with read_only(tmp_path / "shown", trained_plan.root) as root:
        predict(root, "one/frozen", task="sst", sentences=["a film"], device="cpu")
        words = ["one/three", "--results", str(root)]
        main(["submit", *words, "--out", str(tmp_path / "out")])
        assert (tmp_path / "out" / "sst-dev-output.csv").exists()
        with pytest.raises(SystemExit):
            main(["submit", *words])
    assert "choose another --out" in capsys.readouterr().err
