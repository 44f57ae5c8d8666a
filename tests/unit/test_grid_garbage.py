"""What `minbert gc` lists and deletes: all that no variant needs, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from factories import make_plan, put
from planning import planning_folder

from minbert.base.errors import UserError
from minbert.base.locks import results_lock
from minbert.commands import adopt
from minbert.commands.cli import main
from minbert.commands.gc import leftovers, remove, report
from minbert.plan.describe import write
from minbert.plan.plan import Plan
from minbert.store.node import Node
from minbert.store.plans import PUBLISHED, description_path, plan_path, records, write_plan

GRID = """paper: hybrid-bert
title: T
overall: plain
variants:
  a: {tasks: {sst: {loss: cross_entropy}}}
  b: {tasks: {sst: {loss: cross_entropy}}, trainable: heads}
"""
STRAY = "0" * 16


def filled(base: Path, grid: str = GRID, **config: Any) -> tuple[Plan, set[Path], Node]:
    """Return a plan, the folders of its nodes with every file, and the first training."""
    made = make_plan(base, grid, **config)
    write(made)
    folders = set()
    for node in made.nodes.values():
        for seed in made.config.seeds if node.kind == "train" else (None,):
            folders.add(folder := node.folder(made.root, seed))
            for name in node.outputs:
                put(folder / name, "x" * 100)
    return made, folders, made.train(next(iter(made.stages)))


def test_what_an_edit_left_behind_is_listed_and_only_that_goes(tmp_path: Path) -> None:
    before, _, training = filled(tmp_path, seeds=[0, 1])
    work = before.root / "work" / training.key
    put(work / "seed1/lock")
    edited = GRID.replace("cross_entropy}}}", "cross_entropy}}, epochs: 3}")
    after, needed, _ = filled(tmp_path, edited)
    put(after.root / "store/digests.json", "{}")
    found = leftovers(after)
    gone = {each.path for each in found}
    assert not gone & needed and work in gone
    kinds = {path.relative_to(after.root / "store").parts[0] for path in gone - {work}}
    assert kinds == {"train", "scores", "table", "index", "report"}
    assert [each.size for each in found] == sorted((each.size for each in found), reverse=True)
    remove(after, found)
    assert all(folder.exists() for folder in needed)
    assert not any(path.exists() for path in gone) and leftovers(after) == []
    published = before.shown["scores/hybrid-bert"]
    assert not description_path(before.root, "scores", published.key).exists()


def test_the_state_of_a_training_that_never_ended_goes_with_its_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gigabyte of weights and moments, though no folder of the store says so."""
    planning_folder(tmp_path, GRID, config=True)
    made, _, training = filled(tmp_path)
    killed = training.folder(made.root, 0) / ".model.safetensors.77.part"
    put(killed, "what a killed process was writing")
    (killed.parent / "run.json").unlink()
    put(made.root / "store/train" / STRAY / "seed0/run.json")
    about = {"kind": "train", "key": STRAY, "title": "an old row"}
    put(description_path(made.root, "train", STRAY), json.dumps(about))
    states = [made.root / "work" / of / "seed0/state-9.pt" for of in (training.key, STRAY)]
    for path in states:
        put(path, "x" * 500)
    for more in ([], ["--delete"]):
        assert all(path.exists() for path in states)
        main(["gc", "--directory", str(tmp_path), *more])
        *lines, last = capsys.readouterr().out.splitlines()
        assert [line.split()[2] for line in lines] == [f"work/{STRAY}", f"store/train/{STRAY}"]
        assert [line.split()[3:] for line in lines] == [["an", "old", "row"]] * 2
        assert ("; deleted" in last) == bool(more)
    assert [path.exists() for path in states] == [True, False], "it may go on"
    main(["gc", "--directory", str(tmp_path)])
    assert capsys.readouterr().out.startswith("nothing to delete: the configuration needs ")
    assert killed.parent.exists() and not killed.exists()


def test_what_a_training_left_that_was_killed_as_it_ended_goes(tmp_path: Path) -> None:
    made, _, training = filled(tmp_path)
    put((kept := made.root / "work" / training.key / "seed0") / "best-1.safetensors")
    assert [each.path for each in leftovers(made)] == [kept]
    (training.folder(made.root, 0) / "run.json").unlink()
    assert leftovers(made) == [], "it has not ended"
    remove(made, [])
    assert len([*records(made.root)]) == 1, "nothing is published, but jobs read this plan"


def test_nothing_is_deleted_beside_a_workflow(tmp_path: Path) -> None:
    made = filled(tmp_path)[0]
    put(stray := made.root / "store" / "train" / STRAY / "seed0" / "run.json")
    why = "is in use: a workflow or a job is running"
    with results_lock(made.root), pytest.raises(UserError, match=why):
        remove(made, leftovers(made))
    assert stray.exists()


@pytest.mark.parametrize("listed", [report, partial(adopt.report, apply=True)])
def test_a_results_folder_that_is_not_there_is_not_made(
    tmp_path: Path, listed: Callable[[Plan, Any], Iterable[str]]
) -> None:
    plan = make_plan(tmp_path)
    with pytest.raises(UserError, match=f"{plan.root}: there is no such results folder"):
        [*listed(plan, None)]
    assert not plan.root.exists()


def test_results_of_another_configuration_are_not_taken_for_leftovers(tmp_path: Path) -> None:
    made = filled(tmp_path)[0]
    put(stray := made.root / "store" / "train" / STRAY / "seed0" / "run.json")
    for path in plan_path(made.root, "").parent.glob("*.json"):
        path.unlink()  # as after `minbert unbundle`
    with pytest.raises(UserError, match=r"was last planned by no workflow, and this is "):
        list(report(made, delete=True))
    about = {"configured": ["demo.yaml"]}
    write_plan(made.root, about)  # It has not published yet; then it has.
    with pytest.raises(UserError, match=r"was last planned by demo\.yaml, and this is "):
        list(report(made, delete=True))
    put(made.root / PUBLISHED, json.dumps(about))
    with pytest.raises(UserError, match=r"has the results of demo\.yaml, and this is "):
        list(report(made, delete=True))
    assert stray.exists()


def test_what_is_not_the_stores_own_is_neither_listed_nor_deleted(tmp_path: Path) -> None:
    made, _, training = filled(tmp_path)
    store = made.root / "store"
    own = [training.folder(made.root, 0).with_name("seed0.bak"), store / "train/.DS_Store"]
    own += [store / "mine/thesis.tex", tmp_path / "elsewhere/run.json"]
    for path in own:
        put(path, "mine")
    (link := store / "train" / STRAY).symlink_to(tmp_path / "elsewhere")
    found = leftovers(made)
    assert {each.path for each in found} == {link}
    remove(made, found)
    assert all(path.exists() for path in own) and not link.is_symlink()
