"""Which run a variant's task comes from, and what is said when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from planned_root import Planned

from minbert.base.errors import UserError
from minbert.predict.resolve_run import find, versions


@pytest.fixture
def planned(tmp_path: Path) -> Planned:
    return Planned(tmp_path / "results")


def keys(planned: Planned, variant: str, seed: int | None = None) -> dict[str, str]:
    found = find(planned.root, variant)
    return {task: run.key for task, run in found.runs(found.chosen, seed).items()}


def test_the_last_stage_that_has_a_task_counts_and_the_smallest_seed_that_all_tasks_have(
    planned: Planned,
) -> None:
    planned.stage("a1", "sts para sst", "staged", seeds=(10, 2, 1))
    planned.stage("a2", "sst sts", "staged", seeds=(10, 2))
    planned.stage("b1", "sst", "other")
    assert keys(planned, "staged") == {"sst": "a2", "para": "a1", "sts": "a2"}
    found = find(planned.root, "staged")
    assert list(found.chosen) == ["sst", "para", "sts"]
    assert {run.seed for run in found.runs(found.chosen).values()} == {2}
    assert found.run("para").seed == 1
    assert found.run("sst", 10).file("run.json") == planned.folder("a2", 10) / "run.json"


def test_the_best_of_others_is_found_in_the_score_table(planned: Planned) -> None:
    planned.stage("a1", "sst para", "one")
    planned.stage("b1", "sst para", "two")
    planned.stage("b1", "sst para", "two, again")
    rows = [("best", 0, "sst", "a1"), ("best", 0, "para", "b1"), ("best", 0, "overall", "")]
    planned.scores([*rows, ("best", 1, "sst", "b1"), ("one", 0, "sst", "stale")])
    assert keys(planned, "best") == {"sst": "a1", "para": "b1"}
    assert find(planned.root, "best").run("sst", 1).key == "b1"
    assert find(planned.root, "best").stages == {"one/a1": "a1", "two/b1": "b1"}
    # What the table says of a variant with stages of its own is not asked for.
    assert keys(planned, "one") == {"sst": "a1", "para": "a1"}


@pytest.mark.parametrize(
    ("variant", "task", "seed", "told"),
    [
        ("hybird", None, None, r"no variant 'hybird', but p/hybrid, .*Did you mean 'hybrid'\?"),
        ("pp/later", None, None, r"no variant 'pp/later'.*Did you mean 'p/later'\?"),
        ("twice", None, None, "several papers have the variant 'twice', but p/twice, q/twice"),
        ("hybrid@b1", None, None, "'hybrid': has no training of key 'b1'"),
        ("later", None, None, r"no such run yet \(seeds on .*: none\); `snakemake --cores 2 all`"),
        ("halves", "sst", 3, r"no such run yet \(seeds on sst: \[0, 2\]\)"),
        ("halves", "pare", None, r"no task 'pare'; it has sst, para. Did you mean 'para'"),
        ("halves", None, None, r"several tasks: sst, para; name one \(`--task sst`"),
        ("hybrid", "sst", None, "a1/seed0/weights: there is no such file, which v"),
        ("gone", None, None, r"variant 'gone': .*gone.json is missing: .* by `minbert gc"),
    ],
)
def test_what_cannot_be_had_says_the_way_out(
    planned: Planned, variant: str, task: str | None, seed: int | None, told: str
) -> None:
    planned.stage("a1", "sst", "hybrid")
    planned.stage("c1", "sst", "later", seeds=())
    planned.stage("d1", "sst", "halves", seeds=(0, 2))
    planned.stage("d2", "para", "halves", seeds=(1,))
    planned.stage("gone", "sst", "gone")
    (planned.root / "store/spec/train-gone.json").unlink()
    for paper in "pq":
        planned.stage(f"{paper}1", "sst", "twice", paper=paper)
    assert keys(planned, "q/twice") == {"sst": "q1"}
    with pytest.raises(UserError, match=told):
        find(planned.root, variant).run(task, seed).file("weights")
    found = find(planned.root, "halves")
    with pytest.raises(UserError, match=r"seeds on sst, para: none"):
        found.runs(found.chosen)


def test_of_whole_grids_and_a_part_the_one_that_ran_last_counts(planned: Planned) -> None:
    planned.stage("a1", "sst", "one")
    planned.stage("b1", "sst", "two")
    planned.plan([["p", "one", "main", "sst", "b1", "backbone", "one", ""]], below="only")
    assert (keys(planned, "one"), keys(planned, "two")) == ({"sst": "b1"}, {"sst": "b1"})
    planned.plan(planned.rows)
    assert keys(planned, "one") == {"sst": "a1"}


def test_a_folder_without_results_is_told(planned: Planned) -> None:
    with pytest.raises(UserError, match="the folder has no results; name one"):
        find(planned.root, "any")


def test_a_key_is_that_of_an_earlier_result(planned: Planned) -> None:
    trained = {"a1a1": (0,), "b1b1": (0,), "c1c1": ()}
    for key, seeds in trained.items():
        planned.stage(key, "sst", "one", seeds=seeds)
    for key in trained:
        planned.plan([["p", "one", "main", "sst", key, "backbone", "one", ""]])
    found = find(planned.root, "one")
    assert found.stages == {"main": "c1c1"} and found.chosen == {"sst": {}}
    assert keys(planned, "one@a1") == {"sst": "a1a1"}
    assert keys(planned, "p/one@b1b1") == {"sst": "b1b1"}
    (planned.root / "store/spec/train-b1b1.json").unlink()  # as `minbert gc --delete` does
    had = [each.stages["main"] for each in versions(planned.root, "one") if "main" in each.stages]
    assert had == ["c1c1", "a1a1"]
    # Before the first publication the newest plan counts; one that is damaged stops nothing.
    (planned.root / "published.json").unlink()
    (planned.root / "store/plans/x.json").symlink_to("nowhere")
    assert find(planned.root, "one").stages == {"main": "c1c1"}
