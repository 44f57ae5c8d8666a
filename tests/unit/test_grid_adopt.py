"""What `minbert adopt` carries over to new keys, what it refuses, and what it leaves behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from planning import TWO_STAGES, planning_folder

import minbert.store.node as node_module
from minbert.base.errors import UserError
from minbert.base.files import read_json
from minbert.base.locks import in_use
from minbert.commands.adopt import Carry, adoptable, carry
from minbert.commands.cli import main
from minbert.commands.gc import delete, leftovers
from minbert.plan.describe import write
from minbert.plan.plan import Plan
from minbert.spec.resolve import StageRef
from minbert.store.code import code_modules
from minbert.store.kinds import KINDS
from minbert.store.plans import description_path
from minbert.store.record import ADOPTED

GRID = (
    TWO_STAGES
    + """\
  adapter: {extends: t, trainable: adapters, adapter: {width: 4}}
  wide: {extends: t, trainable: adapters, adapter: {width: 8}}
  fused: {extends: t, trainable: fusion, fuse: [adapter, wide]}
  frozen: {extends: t, trainable: heads}
"""
)
VARIANTS = ("first", "second", "adapter", "wide", "fused", "frozen")
ENCODER = "minbert.model.encoder"
Editing = Callable[..., None]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return planning_folder(tmp_path, GRID, config=True)


@pytest.fixture
def edit(monkeypatch: pytest.MonkeyPatch) -> Editing:
    """Return a function after which the code of these modules is another."""
    edited: dict[str, str] = {}

    def modules(roots: Iterable[str], outside: Sequence[str]) -> dict[str, str]:
        return {n: edited.get(n, d) for n, d in code_modules(roots, outside).items()}

    monkeypatch.setattr(node_module, "code_modules", modules)
    return lambda *names, to="edited": edited.update(dict.fromkeys(names, to))


def plan(base: Path, **config: Any) -> Plan:
    values = {"grids": "g", "data": "builtin", "backbone": "builtin"}
    return Plan.load({**values, "results": str(base / "results"), **config}, base)


def put(path: Path, text: str) -> None:
    """Write a file without waiting for the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def fill(made: Plan, torch: str = "1.0", kinds: Iterable[str] | None = None) -> None:
    """Make every file that the plan's nodes leave; each says whose it is."""
    write(made)
    for node in made.nodes.values():
        for seed in made.config.seeds if KINDS[node.kind].seeded else (None,):
            if kinds is None or node.kind in kinds:
                for name in node.outputs:
                    text = '{"rows": {}}' if name == "report.json" else f"{node.key} {seed}"
                    put(node.folder(made.root, seed) / name, text)
        if node.kind == "train" and (kinds is None or "train" in kinds):
            record = {"outcome": {"seconds": 1}, "environment": {"packages": {"torch": torch}}}
            for seed in made.config.seeds:
                put(node.folder(made.root, seed) / "run.json", json.dumps(record))


def of(found: list[Carry], kind: str) -> list[Carry]:
    return [each for each in found if each.node.kind == kind]


def folder(made: Plan, variant: str, seed: int = 0) -> Path:
    return made.train(StageRef("hybrid-bert", variant, "main")).folder(made.root, seed)


def test_a_refactoring_carries_a_whole_chain_over(base: Path, edit: Editing) -> None:
    before = plan(base, seeds=[0, 1])
    fill(before)
    edit(ENCODER)
    after = plan(base, seeds=[0, 1])
    assert not set(before.owners) & set(after.owners)
    found, refused = adoptable(after)
    assert refused == []
    assert {kind: len(of(found, kind)) for kind in ("backbone", "tokens", "features", "train")} == {
        **dict.fromkeys(("backbone", "tokens", "features"), 1),
        "train": 12,
    }
    assert of(found, "data") == []  # its key is as it was
    assert {module for each in found for module in each.modules} == {ENCODER}
    assert not folder(after, "first").exists()

    carry(after, found, "split a function")
    for variant in VARIANTS:
        for seed in (0, 1):
            old, new = folder(before, variant, seed), folder(after, variant, seed)
            for path in old.iterdir():
                assert (new / path.name).samefile(path)
            assert {p.name for p in new.iterdir()} == {p.name for p in old.iterdir()} | {ADOPTED}
    assert adoptable(after) == ([], [])
    assert description_path(after.root, "train", folder(after, "second").parent.name).exists()


def test_the_record_says_from_where_and_why(base: Path, edit: Editing) -> None:
    before = plan(base)
    fill(before)
    edit(ENCODER)
    first = plan(base)
    carry(first, adoptable(first)[0], "split a function")
    edit("minbert.train.step")
    second = plan(base)
    carry(second, adoptable(second)[0], "rename a variable")
    keys = [folder(made, "second").parent.name for made in (before, first, second)]
    # The closest code is the one that was carried over before: its record goes on.
    history = json.loads((folder(second, "second") / ADOPTED).read_text("utf-8"))
    assert [(step["from"], step["to"]) for step in history] == [*pairwise(keys)]
    assert [step["reason"] for step in history] == ["split a function", "rename a variable"]
    assert list(history[0]["code"]) == [ENCODER] and history[0]["code"][ENCODER][1] == "edited"
    starts = [folder(made, "first").parent.name for made in (before, first)]
    assert history[0]["needs"]["start"] == starts
    assert history[0]["seed"] == 0 and history[0]["date"].endswith("+00:00")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("lr: 1e-4", "lr: 3e-4", "optimiser.lr: 0.0001 -> 0.0003"),
        ("width: 4", "width: 6", "adapter.width: 4 -> 6"),
    ],
)
def test_other_settings_are_another_experiment(
    base: Path, edit: Editing, old: str, new: str, said: str
) -> None:
    fill(plan(base))
    edit(ENCODER)
    grid = base / "workflow/grids/g.yaml"
    grid.write_text(GRID.replace(old, new), encoding="utf-8")
    after = plan(base)
    found, refused = adoptable(after)
    changed, follower = ("first", "second") if "lr" in old else ("adapter", "fused")
    carried = {each.node.key for each in of(found, "train")}
    kept = set(VARIANTS) - {changed, follower}
    assert carried == {folder(after, variant).parent.name for variant in kept}
    assert refused == [f"{changed} . sst . s0: {said}: another experiment, which must be trained"]


def test_other_data_are_never_carried_over(base: Path, edit: Editing) -> None:
    fill(plan(base))
    edit(ENCODER)
    found, _ = adoptable(plan(base, corpus={"sizes": {"sst": {"train": 9, "dev": 9, "test": 9}}}))
    assert {each.node.kind for each in found} == {"backbone"}


def test_a_setting_that_is_new_and_at_its_default_is_the_same(base: Path, edit: Editing) -> None:
    before = plan(base)
    fill(before)
    for path in (before.root / "store" / "spec").glob("train-*.json"):
        described = read_json(path)
        del described["spec"]["stage"]["reduction"]  # as an older package wrote it
        put(path, json.dumps(described))
    edit(ENCODER)
    assert len(of(adoptable(plan(base))[0], "train")) == 6


def test_nothing_is_overwritten(base: Path, edit: Editing) -> None:
    before = plan(base)
    fill(before)
    edit(ENCODER)
    after = plan(base)
    put(folder(after, "first") / "history.parquet", "mine")
    folder(after, "frozen").mkdir(parents=True)
    found, refused = adoptable(after)
    assert any(line.startswith("first . sst . s0: ") and "not empty" in line for line in refused)
    carry(after, found, "b")
    assert (folder(after, "first") / "history.parquet").read_text() == "mine"
    assert (folder(after, "frozen") / "run.json").exists()
    fill(after, kinds=["train"])
    assert adoptable(after) == ([], [])


def test_only_declared_modules_count(base: Path, edit: Editing) -> None:
    fill(plan(base))
    edit("minbert.train.frozen_probe", "minbert.train.step")
    found, refused = adoptable(plan(base), ["minbert.train.step"])
    assert len(of(found, "train")) == 5
    assert refused == ["frozen . sst . s0: its code differs in minbert.train.frozen_probe too"]
    # What a stage starts from counts too.
    edit("minbert.train.step", "minbert.train.adapters")
    found, refused = adoptable(plan(base), ["minbert.train.step", "minbert.train.frozen_probe"])
    told = " ".join(refused)
    assert len(of(found, "train")) == 3 and "wide . sst" in told and "fused . sst" in told


def test_code_that_made_the_same_bytes_does_not_count(base: Path, edit: Editing) -> None:
    before = plan(base)
    fill(before)
    edit("minbert.data.report", "minbert.train.step")
    after = plan(base)
    declared = ["minbert.train.step"]
    assert of(adoptable(after, declared)[0], "train") == []
    for old, new in zip(before.nodes.values(), after.nodes.values(), strict=True):
        if new.kind in ("data", "tokens", "features"):
            for name in new.outputs:
                put(new.folder(after.root) / name, (old.folder(after.root) / name).read_text())
    assert len(of(adoptable(after, declared)[0], "train")) == 6
    (tokens,) = [node for node in after.nodes.values() if node.kind == "tokens"]
    put(tokens.folder(after.root) / "tokens.parquet", "others")
    found, refused = adoptable(after)
    assert of(found, "train") == []
    why = "what it was made from came out differently when made again: tokens.sst"
    assert f"first . sst . s0: {why}" in refused


def test_versions_that_are_asked_for_must_be_those_of_the_run(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = plan(base)
    fill(before, torch="2.0+cpu")
    other = {"environment": {"packages": {"torch": "1.9"}}, "outcome": {"seconds": 1}}
    put(folder(before, "first") / "run.json", json.dumps(other))
    monkeypatch.setattr(
        "minbert.plan.experiment.versions", lambda names: dict.fromkeys(names, "2.0")
    )
    after = plan(base, dependencies=["torch"])
    found, refused = adoptable(after)
    kept = {folder(after, variant).parent.name for variant in VARIANTS[2:]}
    assert {each.node.key for each in found} == kept
    why = "made with torch 1.9, where `dependencies` asks for 2.0"
    assert refused == [f"{variant} . sst . s0: {why}" for variant in ("first", "second")]


def test_a_damaged_record_is_not_carried_over(base: Path, edit: Editing) -> None:
    before = plan(base)
    fill(before)
    damaged = folder(before, "adapter") / "run.json"
    put(damaged, "")
    edit(ENCODER)
    found, refused = adoptable(plan(base))
    assert f"adapter . sst . s0: {damaged} is damaged" in refused
    assert damaged.parent not in {each.source for each in found} and len(found) == 8


def test_a_damaged_history_or_a_foreign_folder_is_not_carried_over(
    base: Path, edit: Editing
) -> None:
    before = plan(base)
    fill(before)
    histories = [folder(before, name) / ADOPTED for name in ("adapter", "wide")]
    for path, text in zip(histories, ("{", '{"a": 1}'), strict=True):
        put(path, text)
    foreign = folder(before, "frozen") / "mine"
    foreign.mkdir()
    edit(ENCODER)
    after = plan(base)
    found, refused = adoptable(after)
    for path in histories:
        wrong = f"{path} is damaged, expected a list of objects in JSON; delete it"
        assert any(line.endswith(wrong) for line in refused)
    wrong = f"{foreign} is no file, expected files alone; move it away"
    assert any(line.endswith(wrong) for line in refused)
    carry(after, found, "a refactoring")
    assert len(found) == 6


def test_nothing_is_carried_beside_a_workflow(base: Path, edit: Editing) -> None:
    fill(plan(base))
    edit(ENCODER)
    after = plan(base)
    with in_use(after.root), pytest.raises(UserError, match="is in use: a workflow or a job"):
        carry(after, adoptable(after)[0], "b")
    assert not folder(after, "first").exists()


def test_the_old_names_may_go_and_the_results_stay(base: Path, edit: Editing) -> None:
    before = plan(base)
    fill(before)
    edit(ENCODER)
    after = plan(base)
    carry(after, adoptable(after)[0], "b")
    delete(after, leftovers(after))
    assert not folder(before, "first").exists()
    assert (
        (folder(after, "first") / "predictions.parquet")
        .read_text()
        .startswith(folder(before, "first").parent.name)
    )


def test_the_command_shows_first_and_wants_a_reason(
    base: Path, edit: Editing, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["adopt", ENCODER, "--directory", str(base)]
    fill(plan(base))
    edit(ENCODER)
    after = plan(base)
    main(words)
    told = capsys.readouterr().out
    assert f"-> train/{folder(after, 'first').parent.name}/seed0  first . sst . s0" in told
    assert f"({ENCODER})" in told and "9 results can be carried over" in told
    assert not folder(after, "first").exists()
    with pytest.raises(SystemExit):
        main([*words, "--apply"])
    assert "say by --reason why" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["adopt", "minbert.model.encodr", "--directory", str(base)])
    assert "Did you mean 'minbert.model.encoder'?" in capsys.readouterr().err
    main([*words, "--apply", "--reason", "split a function"])
    assert "9 results carried over" in capsys.readouterr().out
    main([*words, "--apply", "--reason", "split a function"])  # as a script does
    assert capsys.readouterr().out.startswith("nothing under")
    assert (folder(after, "first") / ADOPTED).exists()
    main(["adopt", "--directory", str(base)])
    assert "nothing under" in capsys.readouterr().out
