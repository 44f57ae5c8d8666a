"""What `minbert gc` lists and deletes: all that no variant needs, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from planning import planning_folder

from minbert.base.errors import UserError
from minbert.base.files import write_text
from minbert.base.locks import results_lock
from minbert.commands.cli import main
from minbert.commands.gc import delete, leftovers
from minbert.plan.describe import write
from minbert.plan.plan import Plan
from minbert.store.plans import description_path

GRID = """paper: hybrid-bert
title: T
overall: plain
variants:
  a: {tasks: {sst: {loss: cross_entropy}}}
  b: {tasks: {sst: {loss: cross_entropy}}, trainable: heads}
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return planning_folder(tmp_path, GRID, config=True)


def plan(base: Path, **config: Any) -> Plan:
    values = {"grids": "g", "data": "builtin", "backbone": "builtin"}
    return Plan.load({**values, "results": str(base / "results"), **config}, base)


def fill(made: Plan, seeds: tuple[int, ...] = (0,)) -> set[Path]:
    """Make every file that the plan's nodes leave; return their folders."""
    write(made)
    folders = set()
    for node in made.nodes.values():
        for seed in seeds if node.kind == "train" else (None,):
            folder = node.folder(made.root, seed)
            folders.add(folder)
            for name in node.outputs:
                write_text(folder / name, "x" * 100)
    return folders


def test_what_an_edit_left_behind_is_listed_and_only_that_goes(base: Path) -> None:
    before = plan(base, seeds=[0, 1])
    fill(before, (0, 1))
    work = before.root / "work" / before.train(next(iter(before.stages))).key / "seed1"
    write_text(work / "lock", "")
    grid = base / "workflow/grids/g.yaml"
    grid.write_text(GRID.replace("cross_entropy}}}", "cross_entropy}}, epochs: 3}"))
    after = plan(base)
    needed = fill(after)
    write_text(after.root / "store/digests.json", "{}")
    found = leftovers(after)
    gone = {each.path for each in found}
    assert gone and not gone & needed and work.parent in gone
    kinds = {path.relative_to(after.root / "store").parts[0] for path in gone - {work.parent}}
    assert kinds == {"train", "scores", "table", "index", "report"}
    assert [each.size for each in found] == sorted((each.size for each in found), reverse=True)
    delete(after, found)
    assert all(folder.exists() for folder in needed)
    assert not any(path.exists() for path in gone) and not work.exists()
    assert leftovers(after) == []
    published = before.shown["scores/hybrid-bert"]
    assert not description_path(before.root, "scores", published.key).exists()


def test_the_state_of_a_training_that_never_ended_goes_with_its_size(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gigabyte of weights and moments, though no folder of the store says so."""
    made = plan(base)
    fill(made)
    key, other = made.train(next(iter(made.stages))).key, "0" * 16
    killed = made.nodes["train", key].folder(made.root, 0) / ".model.safetensors.77.part"
    write_text(killed, "what a killed process was writing")
    (killed.parent / "run.json").unlink()
    (made.root / "store/train" / other / "seed0").mkdir(parents=True)
    states = [made.root / "work" / of / "seed0/state-9.pt" for of in (key, other, "1" * 16)]
    for path in states:
        write_text(path, "x" * 500)
    for more in ([], ["--delete"]):
        assert all(path.exists() for path in states)
        main(["gc", "--directory", str(base), *more])
        *lines, last = capsys.readouterr().out.splitlines()
        works = [f"work/{other}", f"work/{'1' * 16}"]
        assert [line.split()[2] for line in lines] == [*works, f"store/train/{other}"]
        assert ("deleted" in last) == bool(more)
    assert [path.exists() for path in states] == [True, False, False], "it may go on"
    assert killed.parent.exists() and not killed.exists()


def test_what_a_training_left_that_was_killed_as_it_ended_goes(base: Path) -> None:
    made = plan(base)
    fill(made)
    key = made.train(next(iter(made.stages))).key
    write_text((kept := made.root / "work" / key / "seed0") / "best-1.safetensors", "x")
    assert [each.path for each in leftovers(made)] == [kept]
    (made.train(next(iter(made.stages))).folder(made.root, 0) / "run.json").unlink()
    assert leftovers(made) == [], "it has not ended"


def test_nothing_is_deleted_beside_a_workflow(base: Path) -> None:
    made = plan(base)
    stray = made.root / "store" / "train" / ("0" * 16) / "seed0"
    write_text(stray / "run.json", "x")
    why = "is in use: a workflow or a job, perhaps of another"
    with results_lock(made.root), pytest.raises(UserError, match=why):
        delete(made, leftovers(made))
    assert stray.exists()


def test_what_is_not_the_stores_own_is_neither_listed_nor_deleted(
    base: Path, tmp_path: Path
) -> None:
    made = plan(base)
    fill(made)
    store, node = made.root / "store", made.nodes["train", next(iter(made.owners))]
    own = [node.folder(made.root, 0).with_name("seed0.bak"), store / "train/.DS_Store"]
    own += [store / "mine/thesis.tex", tmp_path / "elsewhere/run.json"]
    for path in own:
        write_text(path, "mine")
    link = store / "train" / ("0" * 16)
    link.symlink_to(tmp_path / "elsewhere")
    found = leftovers(made)
    assert {each.path for each in found} == {link}
    delete(made, found)
    assert all(path.exists() for path in own) and not link.is_symlink()
