"""`minbert predict`: the predictions that training wrote, for the same sentences."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from trained_root import run_folder

from minbert.base.errors import UserError
from minbert.base.files import read_json, write_json, write_text
from minbert.commands.cli import main
from minbert.plan.plan import Plan
from minbert.predict import predict as command
from minbert.predict.predict import predict
from minbert.spec.resolve import StageRef
from minbert.spec.task import TASKS

Row = dict[str, Any]
Printed = pytest.CaptureFixture[str]


@pytest.fixture
def plan(trained_plan: Plan) -> Plan:
    """Return the trained variants; predictions are compared to the bit, on one thread."""
    return trained_plan


def ask(plan: Plan, capsys: Printed, *words: str) -> list[Row]:
    """Return what `minbert predict` prints."""
    capsys.readouterr()
    main(["predict", *words, "--results", str(plan.root), "--device", "cpu"])
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def examples(plan: Plan, variant: str, task: str, stage: str = "main") -> list[Row]:
    """Return the dev examples of a task, the last first, as a person would write them."""
    need = plan.train(StageRef("one", variant, stage)).needs[f"tokens.{task}"]
    table = pq.read_table(need.node.needs["examples"].path(plan.root, None))
    rows = table.filter(pc.equal(table["split"], "dev")).to_pylist()
    return [{name: row[name] for name in ("id", "sentence1", "sentence2")} for row in rows[::-1]]


def write_jsonl(path: Path, rows: list[Row]) -> str:
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.mark.parametrize(
    ("variant", "stage", "task"),
    [
        ("three", "main", "sst"),
        ("three", "main", "para"),  # siamese
        ("three", "main", "sts"),  # cross
        ("staged", "again", "sts"),  # not trained, but scored, in the last stage
        ("staged", "all", "para"),
        ("frozen", "main", "sst"),
        ("frozen", "main", "para"),
        ("adapted", "b", "sts"),
        ("fused", "main", "sts"),
    ],
)
def test_dev_sentences_get_the_predictions_that_training_wrote(
    plan: Plan, capsys: Printed, tmp_path: Path, variant: str, stage: str, task: str
) -> None:
    rows = examples(plan, variant, task, stage)
    source = write_jsonl(tmp_path / "dev.jsonl", rows)
    made = ask(plan, capsys, f"one/{variant}", "--task", task, "--in", source)
    given = [{k: v for k, v in row.items() if v is not None} for row in rows]
    assert [{name: row[name] for name in g} for row, g in zip(made, given, strict=True)] == given
    filters = [("task", "=", task), ("split", "=", "dev")]
    path = run_folder(plan, variant, stage) / "predictions.parquet"
    written = {row["id"]: row for row in pq.read_table(path, filters=filters).to_pylist()}
    expected = [written[row["id"]] for row in made]
    scores = np.array([row["scores"] for row in expected])
    assert np.ptp(scores, axis=0).max() > 1e-3, "all alike: another order would not show"
    found = [row["probabilities"] if task == "sst" else [row["score"]] for row in made]
    np.testing.assert_allclose(found, scores, rtol=0, atol=1e-5)
    predictions = [row["prediction"] for row in expected]
    np.testing.assert_allclose([row["prediction"] for row in made], predictions, rtol=0, atol=1e-5)


def test_what_a_line_holds(plan: Plan, capsys: Printed) -> None:
    (sst,) = ask(plan, capsys, "frozen", "--task", "sst", "a warm film")
    assert list(sst) == ["sentence1", "task", "prediction", "label", "probabilities"]
    assert isinstance(sst["prediction"], int)
    assert sst["prediction"] == int(np.argmax(sst["probabilities"]))
    assert sum(sst["probabilities"]) == pytest.approx(1)
    words = ("negative", "somewhat negative", "neutral", "somewhat positive", "positive")
    assert sst["label"] == words[sst["prediction"]]
    (para,) = ask(plan, capsys, "one/three", "--task", "para", "is it é?", "it is é")
    assert list(para) == ["sentence1", "sentence2", "task", "prediction", "label", "score"]
    assert para["prediction"] == int(para["score"] > 0.5)
    assert para["label"] == ("different", "paraphrase")[para["prediction"]]
    (sts,) = ask(plan, capsys, "one/three", "--task", "sts", "a", "b")
    assert list(sts) == ["sentence1", "sentence2", "task", "prediction", "score"]
    assert sts["prediction"] == sts["score"] == float(str(np.float32(sts["score"])))


def test_a_task_with_class_names_names_every_class() -> None:
    named = {name: len(task.names) for name, task in TASKS.items() if task.kind != "regression"}
    assert named == {name: max(2, TASKS[name].classes) for name in named}


def test_chunks_and_files_give_the_same_lines(
    plan: Plan, capsys: Printed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = examples(plan, "fused", "sts")
    whole = ask(plan, capsys, "fused", "--in", write_jsonl(tmp_path / "in.jsonl", rows))
    monkeypatch.setattr(command, "CHUNK", 5)
    out = tmp_path / "new" / "out.jsonl"
    text = "".join(f"{row['sentence1']}\t{row['sentence2']}\n" for row in rows).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    link = tmp_path / "link"
    link.symlink_to(out)
    assert ask(plan, capsys, "fused", "--out", str(link)) == []
    assert link.is_symlink()
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    for line, row in zip(lines, whole, strict=True):
        assert line["score"] == pytest.approx(row["score"], abs=1e-5)
        assert {**line, "id": row["id"], "score": 0, "prediction": 0} == {
            **row,
            "score": 0,
            "prediction": 0,
        }


def test_long_inputs_tell_how_far_they_are(
    plan: Plan, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["predict", "frozen", "--task", "sst", "a", "b", "c"]
    words += ["--results", str(plan.root), "--device", "cpu"]
    main(words)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(command, "CHUNK", 1)
    main(words)
    assert "3/3" in capsys.readouterr().err


def test_the_best_of_others_names_the_run(plan: Plan, capsys: Printed) -> None:
    words = ("--task", "para", "is it far ?", "how far is it ?")
    chosen = ask(plan, capsys, "one/three", *words)
    main(["predict", "best", *words, "--results", str(plan.root), "--device", "cpu"])
    told = capsys.readouterr()
    assert [json.loads(line) for line in told.out.splitlines()] == chosen
    key = run_folder(plan, "three").parent.name
    said = "minbert: 'best' is the best of others: para from 'three/main', seed 0"
    assert told.err == f"{said} ({key})\n"


def test_a_bad_row_stops_all_before_any_output(plan: Plan, tmp_path: Path, capsys: Printed) -> None:
    (tmp_path / "in.txt").write_text("fine\nfine\t2\n")
    out = tmp_path / "out.jsonl"
    words = {"task": "sst", "source": str(tmp_path / "in.txt"), "device": "cpu"}
    for where in (None, out):
        with pytest.raises(UserError, match=r"in.txt, line 2: found 2 fields"):
            predict(plan.root, "frozen", out=where, **words)
    assert capsys.readouterr().out == "" and not out.exists()


def test_how_not_to_ask(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"task": "sst", "device": "cpu"}
    with pytest.raises(UserError, match=r"on the command line and --in a.txt; give only one"):
        predict(plan.root, "frozen", sentences=["a"], source="a.txt", **asked)
    with pytest.raises(UserError, match=r"cannot read .*none.txt: No such file"):
        predict(plan.root, "frozen", source=str(tmp_path / "none.txt"), **asked)
    with pytest.raises(UserError, match=r"cannot read .*: Is a directory"):
        predict(plan.root, "frozen", source=str(tmp_path), form="text", **asked)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(UserError, match="standard input: found no sentences"):
        predict(plan.root, "frozen", **asked)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    with pytest.raises(UserError, match="no sentences: give them after the variant"):
        predict(plan.root, "frozen", **asked)
    with pytest.raises(UserError, match="'later' is not trained yet"):
        predict(plan.root, "later", sentences=["a"], **asked)


@pytest.fixture
def copied(plan: Plan, tmp_path: Path) -> Path:
    """A copy of the results, to be changed."""
    return Path(shutil.copytree(plan.root, tmp_path / "copied"))


def test_changed_code_is_told(plan: Plan, copied: Path, capsys: Printed) -> None:
    path = copied / "store" / "spec" / f"train-{run_folder(plan, 'frozen').parent.name}.json"
    described = read_json(path)
    described["code"] |= {"minbert.model.packed": "older", "minbert.train.loop": "older"}
    write_json(path, described)
    predict(copied, "frozen", task="sst", sentences=["a"], device="cpu")
    told = capsys.readouterr().err
    assert "the code of minbert.model.packed has changed since frozen was planned" in told


def test_a_run_of_an_older_version_is_predicted_with_a_warning(
    plan: Plan, copied: Path, capsys: Printed
) -> None:
    path = copied / "store" / "spec" / f"train-{run_folder(plan, 'frozen').parent.name}.json"
    described = read_json(path)
    del described["maker"]
    write_json(path, described)
    predict(copied, "frozen", task="sst", sentences=["a"], device="cpu")
    printed = capsys.readouterr()
    assert "has changed since frozen was planned" in printed.err and '"task": "sst"' in printed.out


def test_the_precision_is_that_of_training(plan: Plan, copied: Path, capsys: Printed) -> None:
    path = copied / run_folder(plan, "fused").relative_to(plan.root) / "run.json"
    record = read_json(path)
    assert record["environment"]["precision"] == "fp32"
    record["environment"]["precision"] = "bf16"
    write_json(path, record)
    found = []
    for root in (plan.root, copied):
        predict(root, "fused", sentences=["a man .", "a woman ."], device="cpu")
        found.append(json.loads(capsys.readouterr().out)["score"])
    assert found[0] != found[1]
    assert found[0] == pytest.approx(found[1], abs=0.2)


def test_a_spec_of_another_version_is_told(plan: Plan, copied: Path) -> None:
    path = copied / "store" / "spec" / f"train-{run_folder(plan, 'frozen').parent.name}.json"
    described = read_json(path)
    described["spec"]["stage"]["momentum"] = 0.9
    write_json(path, described)
    with pytest.raises(UserError, match="planned by another version of minbert"):
        predict(copied, "frozen", task="sst", sentences=["a"], device="cpu")


def test_outputs_that_are_no_numbers_are_refused(plan: Plan, copied: Path, capsys: Printed) -> None:
    from minbert.model.weights import load_weights, save_weights

    path = copied / run_folder(plan, "frozen").relative_to(plan.root) / "model.safetensors"
    broken = {name: tensor * float("nan") for name, tensor in load_weights(path).items()}
    save_weights(path, broken)
    with pytest.raises(UserError, match="example 1: variant 'frozen' predicts no finite number"):
        predict(copied, "frozen", task="sst", sentences=["a"], device="cpu")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "words",
    [
        ["v", "--task", "sst", "a b", "- c"],
        ["v", "a b", "--task", "sst", "- c"],
        ["--task", "sst", "v", "--", "a b", "- c"],
    ],
)
def test_sentences_may_stand_before_and_after_options(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(command, "predict", lambda root, **given: asked.append(given))
    main(["predict", *words])
    (given,) = asked
    assert (given["variant"], given["task"], given["sentences"]) == ("v", "sst", ["a b", "- c"])


def test_help_has_two_examples(capsys: Printed) -> None:
    with pytest.raises(SystemExit):
        main(["predict", "--help"])
    assert capsys.readouterr().out.count("\n  minbert predict ") == 2
