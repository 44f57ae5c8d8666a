"""How two variants differ, and one before and after an edit."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import trained_root

from minbert.base.errors import UserError
from minbert.commands.cli import main
from minbert.evaluate.bootstrap import System, difference, resampled
from minbert.explore.results import compare
from minbert.plan.describe import write
from minbert.plan.plan import Plan
from minbert.spec.resolve import StageRef


def folder(root: Path, plan: Plan, variant: str, seed: int = 0) -> Path:
    key = plan.train(StageRef("one", variant, "main")).key
    return root / "store" / "train" / key / f"seed{seed}"


def rewrite(path: Path, task: str, change: dict[int, float]) -> None:
    """Set what is predicted of some dev examples of a task, by their place in the file."""
    table = pq.read_table(path)
    rows = table.to_pylist()
    dev = [row for row in rows if (row["task"], row["split"]) == (task, "dev")]
    for place, value in change.items():
        dev[place]["prediction"] = value
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)


def dev(path: Path, task: str) -> pd.DataFrame:
    frame = pq.read_table(path).to_pandas()
    return frame.query("task == @task and split == 'dev'").sort_values("id")


def test_what_differs_is_listed_stage_by_stage(root: Path) -> None:
    found = compare(root, "one/three", "frozen")
    settings = found.spec.set_index("name")
    assert settings.loc["trainable", ["A", "B"]].tolist() == ["all", "heads"]
    assert "main trainable all heads" in " ".join(str(found).split())
    # What else differs follows from these.
    assert not any(name.startswith(("code of", "input")) for name in settings.index)
    assert "normalised" not in set(found.scores["task"])
    found = compare(root, "one/three", "staged")
    assert found.spec.iloc[-1][["stage", "name", "A"]].tolist() == ["None / again", "stage", None]
    scores = found.scores.set_index("task")
    for side in ("A", "B"):
        sst, para, sts = scores.loc[["sst", "para", "sts"], side]
        assert scores.loc["normalised", side] == pytest.approx((sst + para + (sts + 1) / 2) / 3)
    found = compare(root, "one/three", "one/three")
    assert "the same training" in str(found)
    assert not found.scores["difference"].any()


def test_differences_have_intervals(root: Path, trained_plan: Plan) -> None:
    rewrite(folder(root, trained_plan, "three") / "predictions.parquet", "para", {4: 1, 5: 0})
    first, second = (folder(root, trained_plan, "frozen", seed) for seed in (0, 1))
    shutil.copytree(first, second)
    rewrite(second / "predictions.parquet", "para", {0: 1, 1: 1, 2: 0, 3: 0})
    runs = (folder(root, trained_plan, "three"), first, second)
    pairs = [dev(path / "predictions.parquet", "para") for path in runs]
    label = pairs[0]["label"].to_numpy()
    scores = resampled("para", np.stack([of["prediction"] for of in pairs]), label)
    one, other = System(scores[:, :1]), System(scores[:, 1:])
    (row,) = compare(root, "one/three", "frozen").scores.query("task == 'para'").itertuples()
    assert pytest.approx((one.scores[0].mean(), other.scores[0].mean())) == (row.A, row.B)
    expected = difference(other, one, 1 / len(label))
    assert (row.low, row.high) == pytest.approx(expected.interval())
    assert (row.difference, row.seeds_B, row.n) == (pytest.approx(expected.value), 2, len(label))


def test_examples_that_changed_are_listed(root: Path, trained_plan: Plan) -> None:
    paths = [folder(root, trained_plan, v) / "predictions.parquet" for v in ("three", "frozen")]
    label = dev(paths[0], "sst")["label"].tolist()
    right = dict(enumerate(label))
    rewrite(paths[0], "sst", right | {0: (label[0] + 1) % 5})
    rewrite(paths[1], "sst", right | {n: (label[n] + 2) % 5 for n in (1, 2)})
    found = compare(root, "one/three", "frozen")
    changed = found.examples.query("task == 'sst'").set_index("id")
    ids = [f"sst-dev-{n:05d}" for n in (0, 25, 50)]
    ways = ["wrong to right", *["right to wrong"] * 2]
    assert changed["change"].to_dict() == dict(zip(ids, ways, strict=True))
    said = str(found)
    numbers = f"{label[0]:g} {(label[0] + 1) % 5:g} {label[0]:g}"
    words = " ".join(said.split())
    assert f"sst wrong to right {ids[0]} {numbers}" in words and "sst right to wrong 2" in words
    assert changed.loc[ids[0], "sentence1"][:40] in said
    shutil.rmtree(root / "store" / "data")  # as in results from a bundle
    assert compare(root, "one/three", "frozen").examples["sentence1"].isna().all()
    # Of one side's examples alone, nothing is said.
    for path, left_out in zip(paths, ("sst-dev-00075", "sst-dev-00000"), strict=True):
        table = pq.read_table(path)
        pq.write_table(table.filter(pc.field("id") != left_out), path)
    found = compare(root, "one/three", "frozen")
    assert found.scores["task"].tolist() == ["para"]


@pytest.fixture
def edited(root: Path, trained_plan: Plan) -> Plan:
    """The plan after an edit of `frozen`, which was trained again; nothing is published yet."""
    base = root.parent
    shutil.copytree(trained_plan.root.parent / "workflow", base / "workflow")
    edit = ("frozen: {extends: common, ", "frozen: {extends: common, optimiser: {lr: 2e-2}, ")
    (base / "one.yaml").write_text(trained_root.ONE.replace(*edit), encoding="utf-8")
    (base / "two.yaml").write_text(trained_root.TWO, encoding="utf-8")
    plan = trained_root.plan_of(base)
    write(plan)
    trained_root._make(plan, "train", plan.train(StageRef("one", "frozen", "main")).key)
    return plan


def test_before_and_after_an_edit(edited: Plan, trained_plan: Plan) -> None:
    frozen = StageRef("one", "frozen", "main")
    old, new = (plan.train(frozen) for plan in (trained_plan, edited))
    found = compare(edited.root, "frozen")
    assert old.key in found.about[0] and new.key in found.about[1]
    assert found.spec[["name", "A", "B"]].to_numpy().tolist() == [["optimiser.lr", 1e-3, 2e-2]]
    assert set(found.scores["task"]) == {"sst", "para"}
    assert str(compare(edited.root, f"one/frozen@{new.key[:8]}")) == str(found)
    turned = compare(edited.root, f"frozen@{new.key}", "frozen")
    assert turned.spec["A"].tolist() == [2e-2]
    path = edited.root / "store" / "spec" / f"train-{new.key}.json"
    text, module = path.read_text(encoding="utf-8"), "model.pooling.cls"
    path.write_text(text.replace(new.code[f"minbert.{module}"], "f" * 64), encoding="utf-8")
    assert f"code of {module} " in str(compare(edited.root, "frozen"))
    path.write_text(text.replace('"accuracy"', '"macro_f1"'), encoding="utf-8")
    assert " task sst " in str(compare(edited.root, "frozen"))
    trained_root.publish(edited)  # as after a failure, whose partial results are published
    shutil.rmtree(new.folder(edited.root, 0))
    assert "not trained" in compare(edited.root, "frozen").about[1]
    assert "\n\nno scores: one is not trained, or" in str(compare(edited.root, "frozen"))


def test_the_command_prints_it(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["compare", "one/three", "staged", "--results", str(root)])
    assert capsys.readouterr().out == f"{compare(root, 'one/three', 'staged')}\n"
    with pytest.raises(SystemExit):
        main(["compare", "thre", "staged", "--results", str(root)])
    assert "Did you mean 'three'?" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"'frozen' has no earlier result .*name a second variant"):
        compare(root, "frozen")
    with pytest.raises(UserError, match="''"):
        compare(root, "frozen", "")
