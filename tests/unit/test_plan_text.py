"""What `minbert plan` says: what would run and why, how long, and what is odd."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from factories import finish, make_plan, put, training
from planning import TWO_STAGES

from minbert.base.errors import UserError
from minbert.commands.plan import plan_text
from minbert.plan.cost import Costs
from minbert.plan.plan import Plan
from minbert.store.plans import PUBLISHED as PAGE
from minbert.store.plans import description_path

GRID = TWO_STAGES + "  longer: {extends: t, epochs: 20}\n  frozen: {extends: t, trainable: heads}\n"

HALF = {"selection_split": "half"}


def plan(base: Path, old: str = "", new: str = "", **config: Any) -> Plan:
    """Return the plan after an edit of the grid."""
    return make_plan(base, GRID.replace(old, new), **config)


def line(told: str, start: str) -> str:
    """Return the one line that begins so."""
    (found,) = [each for each in told.splitlines() if each.startswith(start)]
    return found


def test_every_job_is_listed_with_what_differs_from_the_nearest(tmp_path: Path) -> None:
    fresh = plan_text(plan(tmp_path))
    for kind in ("data", "backbone", "tokens", "features", "scores", "table", "longer", "publish"):
        assert line(fresh, f"{kind} ").endswith("has never run")
    finish(plan(tmp_path))
    done = plan_text(plan(tmp_path))
    assert "Other jobs" not in done and "On n devices" not in done
    assert " done " in line(done, "longer ")

    told = plan_text(plan(tmp_path, "epochs: 20", "epochs: 25, max_length: 96"))
    assert line(told, "longer ").endswith("epochs: 20 -> 25, max_length: 512 -> 96")
    assert line(told, "scores ").split()[1] == "hybrid-bert"
    assert line(told, "table ").endswith("input scores.hybrid-bert changed")
    assert "out of date" in line(told, "publish ")
    assert "4 training jobs, 1 to run" in told
    assert "the rate of finished runs" in told

    finish(plan(tmp_path, "epochs: 20", "epochs: 30, reduction: mean"))
    told = plan_text(plan(tmp_path, "epochs: 20", "epochs: 21"))
    assert line(told, "longer ").endswith("epochs: 20 -> 21"), "of two, the nearer"
    more = plan(tmp_path, seeds=[0, 1])
    assert line(plan_text(more), "longer ").endswith("not run: seed 1")


@pytest.mark.parametrize(("override", "margins"), [({}, [0.02]), (HALF, [0.02, 0.045])])
def test_claims_that_no_result_of_this_size_can_confirm_are_named_before_training(
    override: dict[str, Any], margins: list[float], tmp_path: Path
) -> None:
    claim = "  - {text: T, section: '1', task: sst, variant: first, against: longer, "
    claim += "direction: same, margin: %s}\n"
    new = "claims:\n" + "".join(claim % margin for margin in (0.02, 0.045, 0.5)) + "variants:\n"
    told = plan_text(plan(tmp_path, "variants:\n", new, seeds=[0, 1, 2], override=override))
    assert [each for each in told.splitlines() if "not testable" in each] == [
        f"hybrid-bert: first the same as longer within {margin} (sst): "
        "not testable with 3 seeds and this dev set"
        for margin in margins
    ]


def test_time_is_bounded_by_work_and_chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Costs, "seconds", lambda self, node: 600.0)
    bound = line(plan_text(plan(tmp_path, seeds=[0, 1])), "On n devices")
    # Four stages, two seeds; the second stage starts from the first.
    assert "at least 1 h 20 min / n" in bound
    assert "longest chain of trainings, 20 min;" in bound


def test_damaged_records_and_descriptions_stop_nothing(tmp_path: Path) -> None:
    old = plan(tmp_path, seeds=[0, 1])
    finish(old, seconds=40)
    put(training(old, "first").folder(old.root, 1) / "run.json", "{}")
    made = plan(tmp_path, "epochs: 20", "epochs: 30", seeds=[0, 1])
    put(description_path(made.root, "train", training(old, "longer").key), "{}")
    gone = training(made, "first").describe() | {"kind": "pretrained", "title": "backbone"}
    put(description_path(made.root, "pretrained", gone["key"]), json.dumps(gone))
    told = plan_text(made)
    assert "8 training jobs, 2 to run" in told and "has never run" in line(told, "longer ")
    assert Costs(made).rate[1], "of other runs"


def test_what_chose_the_epochs_is_said_of_all_stages(tmp_path: Path) -> None:
    found = [plan(tmp_path, "epochs: 20", f"selection_split: {of}") for of in ("dev", "half")]
    assert [made.selection_split() for made in found] == ["dev", "both"]


def test_published_names_that_are_not_whole_are_published_again(tmp_path: Path) -> None:
    made = plan(tmp_path)
    finish(made)
    assert plan(tmp_path).mark.exists()
    described = description_path(made.root, "train", training(made, "first").key)
    for path in (made.root / PAGE, made.root / "variants.tsv", described):
        whole = path.read_text("utf-8")
        path.unlink()
        assert not plan(tmp_path).mark.exists()
        put(path, whole)
    assert plan(tmp_path).mark.exists()


@pytest.mark.parametrize(
    ("before", "now", "refused"),
    [("a.yaml", "/else/a.yaml", False), ("", "a.yaml", True), ("a.yaml b.yaml", "a.yaml", True)],
)
def test_a_folder_is_of_one_config(tmp_path: Path, before: str, now: str, refused: bool) -> None:
    """Other words on the command line are an edit of the same one."""
    made, other = (
        replace(plan(tmp_path), files=tuple(map(Path, files.split())), words=words)
        for files, words in ((now, ("seeds=1",)), (before, ()))
    )
    made.check_names()  # nothing is published yet
    put(made.names / PAGE, json.dumps({"configured": other.configured}))
    with (
        pytest.raises(UserError, match=r"a\.yaml.* different `results`, or delete .*published\.j")
        if refused
        else nullcontext()
    ):
        made.check_names()
    assert ("Snakemake would refuse to start: " in plan_text(made)) == refused
