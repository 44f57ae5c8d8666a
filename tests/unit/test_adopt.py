"""Which finished runs are accepted for planned ones of other keys, and why others are not."""

from __future__ import annotations

import errno
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trained_root
from planning import REPOSITORY
from trained_root import plan_of, run_folder

import minbert.store.node as node_module
from minbert.base.errors import UserError
from minbert.base.files import read_json, write_json, write_text
from minbert.base.locks import results_lock
from minbert.commands.adopt import ACCEPTED, accepted_code, report
from minbert.commands.gc import leftovers, remove
from minbert.plan.describe import write
from minbert.plan.plan import Plan
from minbert.publish.bundle import bundle, unbundle
from minbert.publish.checks import upgraded
from minbert.spec.config import PUBLISHED
from minbert.store.code import code_modules
from minbert.store.node import digest
from minbert.store.plans import ADOPTED

STEP = "minbert.train.step"
RUNS = 7  # of `trained_root`: one/three (as staged/all), again, frozen, a, b, fused, two/three
Editing = Callable[..., None]


@pytest.fixture
def old(trained_plan: Plan, tmp_path: Path) -> Plan:
    """Return the plan of a copy of finished results, to change."""
    return plan_of(Path(shutil.copytree(trained_plan.base, tmp_path / "base")))


@pytest.fixture
def edit(monkeypatch: pytest.MonkeyPatch) -> Editing:
    """Return a function after which the code of these modules is other code."""
    edited: dict[str, str] = {}

    def modules(roots: Iterable[str], outside: Sequence[str]) -> dict[str, str]:
        return {n: edited.get(n, d) for n, d in code_modules(roots, outside).items()}

    monkeypatch.setattr(node_module, "code_modules", modules)
    return lambda *names, to="edited": edited.update(dict.fromkeys(names, to))


def adopt(plan: Plan, reason: str | None = "moved a function") -> str:
    return "\n".join(report(plan, reason, apply=True))


def waiting(plan: Plan) -> set[str]:
    """Return the variants with a training that is not finished."""
    refs = plan.owners.items()
    found = {ref.variant for key, ref in refs if not plan.nodes["train", key].done(plan.root, 0)}
    return found - {*trained_root.UNTRAINED}


def test_a_refactoring_carries_whole_chains_over(old: Plan, edit: Editing) -> None:
    edit(STEP)
    new = plan_of(old.base)
    assert not {*old.owners} & {*new.owners}
    listed = "\n".join(report(new, None, apply=False))
    assert "not accepted: three . sst+para+sts . s0: `--reason TEXT` declares that other" in listed
    assert " (minbert.train." in listed
    assert adopt(new, None).endswith("0 results carried over"), "a reason is needed"
    write_text(old.base / ACCEPTED, '"moved a function": >-\n  0123456789abcdef\n')  # once before
    write_text(run_folder(new, "three") / "half.txt", "what a job that failed has left")
    bundle(old.root, earlier := old.base / "earlier.zip")
    assert adopt(new).endswith(f"{RUNS} results carried over") and not waiting(new)
    for ref in ("three", "fused"):
        one, other = run_folder(old, ref), run_folder(new, ref)
        assert {p.name for p in other.iterdir()} == {p.name for p in one.iterdir()} | {ADOPTED}
        assert all((other / path.name).samefile(path) for path in one.iterdir())
    with pytest.raises(UserError, match="has no finished run"):
        bundle(old.root, old.base / "more.zip", without=[earlier])
    codes = accepted_code(old.base)
    assert set(codes.values()) == {"moved a function"} and all(len(code) == 16 for code in codes)
    remove(new, leftovers(new))
    assert not waiting(new) and not run_folder(old, "three").exists()


def test_results_are_copied_where_the_disk_knows_no_links(
    old: Plan, edit: Editing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*paths: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    edit(STEP)
    monkeypatch.setattr(os, "link", link)
    new = plan_of(old.base)
    assert adopt(new).endswith(f"{RUNS} results carried over") and not waiting(new)


def test_the_record_says_from_where_under_which_code_and_why(old: Plan, edit: Editing) -> None:
    edit(STEP)
    first = plan_of(old.base)
    adopt(first)
    edit(STEP, to="edited again")
    second = plan_of(old.base)
    for folder in (run_folder(old, "three"), run_folder(old, "staged", "again")):
        shutil.rmtree(folder)  # Then they are carried on from the key between.
    adopt(second, "renamed a variable")
    keys = [run_folder(plan, "three").parent.name for plan in (old, first, second)]
    history = json.loads((run_folder(second, "three") / ADOPTED).read_text("utf-8"))
    assert [(step["from"], step["to"]) for step in history] == [*pairwise(keys)]
    code = digest(old.nodes["train", keys[0]].code)
    assert {step["code"] for step in history} == {code}, "that under which it was made"
    assert {step["reason"] for step in history} == {"moved a function"}


def test_data_are_compared_however_they_are_read_now(old: Plan, edit: Editing) -> None:
    """Their tokens are made anew, and need no entry."""
    edit("minbert.data.tokenise", "minbert.data.dataset")
    new = plan_of(old.base)
    assert adopt(new, None) == f"{RUNS} results carried over" and not waiting(new)
    assert not (old.base / ACCEPTED).exists()


REFUSED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "an edited spec": (lambda r: r["spec"].update(epochs=99), "settings that do not match"),
    "other tokens": (
        lambda r: r["data"]["sst"]["train"].update(tokens="0" * 64),
        "was trained with different tokens.sst",
    ),
    "a backbone": (lambda r: r.update(backbone="0" * 64), "trained with different backbone.model"),
}


@pytest.mark.parametrize("how", REFUSED)
def test_a_run_that_does_not_agree_is_refused(how: str, old: Plan, edit: Editing) -> None:
    change, message = REFUSED[how]
    path = run_folder(old, "frozen") / "run.json"
    record = read_json(path)
    change(record)
    write_json(path, record)
    edit(STEP)
    new = plan_of(old.base)
    said = adopt(new)
    assert "not accepted: frozen . sst+para . s0: " in said and message in said
    assert f"{RUNS - 1} results carried over" in said and waiting(new) == {"frozen"}


def test_a_run_is_refused_whose_start_was_trained_again(old: Plan, edit: Editing) -> None:
    edit(STEP)
    new = plan_of(old.base)
    shutil.copytree(run_folder(old, "staged", "all"), run_folder(new, "staged", "all"))
    said = adopt(new)
    assert "not accepted: staged/again . sst . s0: starts from train " in said
    assert "(start), which is not accepted for" in said and waiting(new) == {"staged"}


def test_nothing_is_carried_over_beside_a_workflow(old: Plan) -> None:
    with results_lock(old.root), pytest.raises(UserError, match="is in use: a workflow or a job"):
        adopt(old)


GRID = """\
paper: mine
title: Mine
overall: plain
variants:
  news: {epochs: 1, max_length: 24, tasks: {news: {loss: cross_entropy, head: {width: 8}}}}
"""


def own_plan(base: Path, results: str = "results", **config: Any) -> Plan:
    """Return a plan of a task whose files lie in `base`/news."""
    news = {"files": str(base / "news"), "kind": "classification", "classes": 2}
    own = {"tasks": {"news": news | {"sentence1": "a", "label": "b"}}}
    return plan_of(base, grids=["mine.yaml"], results=str(base / results), **own, **config)


def test_bundled_results_stand_for_data_that_are_not_there(tmp_path: Path, edit: Editing) -> None:
    """Though code that reads data and code that trains have other digests; other data do not."""
    write_text(tmp_path / "mine.yaml", GRID)
    write_text(tmp_path / PUBLISHED, (REPOSITORY / PUBLISHED).read_text("utf-8"))
    for split in ("train", "dev", "test"):
        rows = "".join(f"{split} text {at},{at % 2}\n" for at in range(8))
        write_text(tmp_path / "news" / f"{split}.csv", f"a,b\n{rows}")
    plan = own_plan(tmp_path)
    write(plan)
    trained_root._make(plan, "train", *plan.owners)
    bundle(plan.root, tmp_path / "runs.zip")
    (tmp_path / "news").rename(tmp_path / "away")
    assert "1 run imported, 0 already" in unbundle(tmp_path / "other", tmp_path / "runs.zip")
    edit(STEP, "minbert.data.examples", "minbert.data.tokenise", "minbert.data.dataset")
    with zipfile.ZipFile(tmp_path / "runs.zip") as archive:
        checksums = json.loads(archive.read("config.json"))["checksums"]
    part = own_plan(tmp_path, "other", checksums=checksums, limit=6)
    assert adopt(part).endswith("0 results carried over")
    new = own_plan(tmp_path, "other", checksums=checksums)
    write_text(tmp_path / ACCEPTED, '"renamed": >-\n  0123456789abcdef')  # as an editor leaves it
    assert adopt(new) == "2 results carried over", "the run, and the report on its data"
    assert {*accepted_code(tmp_path).values()} == {"renamed", "moved a function"}
    assert not waiting(new) and new.sources.data("news").done(new.root)

    (tmp_path / "away").rename(tmp_path / "news")
    write_text(tmp_path / "news" / "dev.csv", "a,b\nother text,1\nmore,0\n")
    shutil.rmtree(new.root)
    unbundle(tmp_path / "other", tmp_path / "runs.zip")
    assert "was trained with different tokens.news" in adopt(own_plan(tmp_path, "other"))


def test_a_setting_that_is_unknown_is_refused() -> None:
    with pytest.raises(UserError, match="a stage: unknown key 'rounds'"):
        upgraded({"rounds": 3, "tasks": {"sst": {"loss": "cross_entropy"}}})
