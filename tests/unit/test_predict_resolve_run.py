"""Which run a variant's task comes from, and what is said when there is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from planned_root import Planned

from minbert.base.errors import UserError
from minbert.predict.resolve_run import earlier, find, plan_of


@pytest.fixture
def planned(tmp_path: Path) -> Planned:
    return Planned(tmp_path / "results")


def keys(planned: Planned, variant: str, seed: int | None = None) -> dict[str, str]:
    found = find(planned.root, variant)
    return {task: run.key for task, run in found.runs(found.tasks, seed).items()}


def test_the_last_stage_that_has_a_task_counts_though_it_does_not_train_it(
    planned: Planned,
) -> None:
    planned.stage("a1", "sts para sst", "staged")
    planned.stage("a2", "sst sts", "staged")
    planned.stage("b1", "sst", "other")
    assert keys(planned, "staged") == {"sst": "a2", "para": "a1", "sts": "a2"}
    assert find(planned.root, "staged").tasks == ("sst", "para", "sts")


def test_the_smallest_seed_that_all_tasks_have(planned: Planned) -> None:
    planned.stage("a1", "sst para", "staged", seeds=(10, 2, 1))
    planned.stage("a2", "sst", "staged", seeds=(10, 2))
    found = find(planned.root, "staged")
    assert {run.seed for run in found.runs(found.tasks).values()} == {2}
    assert found.runs(["para"])["para"].seed == 1
    run = found.runs(["sst"], 10)["sst"]
    assert run.file("run.json") == planned.folder("a2", 10) / "run.json"
    with pytest.raises(UserError, match="not trained yet on sst with seed 3, but with 2, 10"):
        found.runs(["sst"], 3)


def test_the_best_of_others_is_found_in_the_score_table(planned: Planned) -> None:
    planned.stage("a1", "sst para", "one")
    planned.stage("b1", "sst para", "two")
    planned.stage("b1", "sst para", "two, again")
    rows = [("best", 0, "sst", "a1"), ("best", 0, "para", "b1"), ("best", 0, "overall", "")]
    planned.scores([*rows, ("best", 1, "sst", "b1"), ("one", 0, "sst", "stale")])
    assert keys(planned, "best", seed=0) == {"sst": "a1", "para": "b1"}
    found = find(planned.root, "best")
    assert found.runs(["sst"], 1)["sst"].key == "b1"
    assert found.wanted is None and found.stages == {"one/a1": "a1", "two/b1": "b1"}
    assert found.runs(found.tasks)["para"].seed == 0
    with pytest.raises(UserError, match=r"no training of key 'a1'; .* that it is the best"):
        find(planned.root, "best@a1")
    # What the table says of a variant with stages of its own may be of an earlier plan.
    assert keys(planned, "one") == {"sst": "a1", "para": "a1"}


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("hybird", r"no variant 'hybird'; there are p/hybrid, .*Did you mean 'hybrid'\?"),
        ("pp/later", r"no variant 'pp/later'.*Did you mean 'p/later'\?"),
        ("twice", "'twice' is a variant of several papers; choose one: p/twice or q/twice"),
        (
            "later",
            r"not trained yet on sst with one .*, but with none; .*`snakemake --cores 2 all`",
        ),
        ("halves", "not trained yet on sst, para with one seed for all"),
    ],
)
def test_what_cannot_be_had_says_the_way_out(planned: Planned, variant: str, message: str) -> None:
    planned.stage("a1", "sst", "hybrid")
    planned.stage("c1", "sst", "later", seeds=())
    planned.stage("d1", "sst", "halves", seeds=(0,))
    planned.stage("d2", "para", "halves", seeds=(1,))
    for paper in "pq":
        planned.stage(f"{paper}1", "sst", "twice", paper=paper)
    assert keys(planned, "q/twice") == {"sst": "q1"}
    with pytest.raises(UserError, match=message):
        keys(planned, variant)


def test_the_task_is_named_unless_there_is_one(planned: Planned) -> None:
    planned.stage("a1", "sst para", "both")
    planned.stage("b1", "sts", "one")
    both, one = find(planned.root, "both"), find(planned.root, "one")
    assert one.choose_task(None) == "sts"
    assert both.choose_task("para") == "para"
    with pytest.raises(UserError, match=r"several tasks: sst, para; name one \(`--task sst`"):
        both.choose_task(None)
    with pytest.raises(UserError, match=r"no task 'pare'; it has sst, para. Did you mean 'para'"):
        both.choose_task("pare")


def test_a_folder_without_results_names_those_below(planned: Planned) -> None:
    planned.stage("a1", "sst", "one")
    outside = planned.root.parent
    planned.root.rename(outside / "my results")
    mine = outside / "my results"
    with pytest.raises(UserError, match=re.escape(f" Did you mean --results '{mine}'?")):
        find(outside, "any")


def test_deleted_weights_and_descriptions(planned: Planned) -> None:
    planned.stage("a1", "sst", "light")
    run = find(planned.root, "light").runs(["sst"])["sst"]
    with pytest.raises(UserError, match=r"of variant 'light': it was deleted \(`keep_weights"):
        run.file("model.safetensors")
    (planned.root / "store/spec/train-a1.json").unlink()
    with pytest.raises(UserError, match=r"'light' is not there any more, as after `minbert gc"):
        find(planned.root, "light")


def version(planned: Planned, *stages: tuple[str, str]) -> None:
    """Publish a plan in which variant `one` has these stages, (name, key)."""
    rows = [["p", "one", name, "sst", key, "backbone", "one", ""] for name, key in stages]
    planned.plan(rows, papers={"p": {"seeds": [0]}})


def test_a_key_is_that_of_an_earlier_result(planned: Planned) -> None:
    trained = {"a1a1": (0,), "b1b1": (0,), "c1c1": ()}
    for key, seeds in trained.items():
        planned.stage(key, "sst", "one", seeds=seeds)
    for key in trained:
        version(planned, ("main", key))
    found = find(planned.root, "one")
    assert found.stages == {"main": "c1c1"} and not found.chosen
    assert keys(planned, "one@a1") == {"sst": "a1a1"}
    assert keys(planned, "p/one@b1b1") == {"sst": "b1b1"}
    assert [each.stages["main"] for each in earlier(found)][:2] == ["b1b1", "a1a1"]
    with pytest.raises(UserError, match=r"no training of key 'b1b2'; those with results are c1c1"):
        find(planned.root, "one@b1b2")
    (planned.root / "store/spec/train-b1b1.json").unlink()  # as `minbert gc --delete` does
    assert next(earlier(found)).stages["main"] == "a1a1"


def test_before_the_first_publication_the_newest_plan_names_the_variants(planned: Planned) -> None:
    for key in ("a1", "b1"):
        planned.stage(key, "sst", "one")
    for key in ("a1", "b1"):
        version(planned, ("main", key))
    (planned.root / "published.json").unlink()
    (planned.root / "store/plans/x.json").symlink_to("nowhere")  # which stops nothing
    assert keys(planned, "one") == {"sst": "b1"}
    assert plan_of(planned.root, "p")["papers"] == {"p": {"seeds": [0]}}
    assert plan_of(planned.root, "q") == {}
