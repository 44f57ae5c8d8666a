"""`minbert predict`: the predictions that training wrote, for the same sentences."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from trained_root import run_folder

import minbert
from minbert.base.errors import UserError
from minbert.base.files import read_json, write_json, write_text
from minbert.commands.cli import main
from minbert.model.weights import load_weights, save_weights
from minbert.plan.plan import Plan
from minbert.predict import predict as command
from minbert.predict.predict import predict
from minbert.predict.predictor import Predictor
from minbert.spec.task import TASKS

Printed = pytest.CaptureFixture[str]


def ask(trained_plan: Plan, capsys: Printed, *words: str) -> list[dict[str, Any]]:
    """Return what `minbert predict` prints."""
    capsys.readouterr()
    main(["predict", *words, "--results", str(trained_plan.root), "--device", "cpu"])
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def dev(trained_plan: Plan, variant: str, task: str) -> pd.DataFrame:
    """Return what training predicted of a task's dev examples, the last first."""
    found = minbert.open(trained_plan.root).run(f"one/{variant}").predictions[::-1]
    return found.query("task == @task and split == 'dev'").reset_index()


@pytest.mark.parametrize(
    ("variant", "task"),
    [
        ("three", "sst"),
        ("three", "para"),  # siamese
        ("three", "sts"),  # cross
        ("staged", "sts"),  # not trained, but scored, in the last stage
        ("staged", "para"),
        ("frozen", "para"),
        ("fused", "sts"),
    ],
)
def test_dev_sentences_get_the_predictions_that_training_wrote(
    trained_plan: Plan, capsys: Printed, tmp_path: Path, variant: str, task: str
) -> None:
    known = dev(trained_plan, variant, task)
    texts = ["id", "sentence1", *(["sentence2"] if TASKS[task].pair else [])]
    known[texts].to_json(path := tmp_path / "dev.jsonl", orient="records", lines=True)
    made = pd.DataFrame(
        ask(trained_plan, capsys, f"one/{variant}", "--task", task, "--in", str(path))
    )
    pd.testing.assert_frame_equal(made[texts], known[texts])
    scores = np.stack(known["scores"].tolist())
    assert np.ptp(scores, axis=0).max() > 1e-3, "all alike: another order would not show"
    found = np.stack(made["probabilities"].tolist()) if task == "sst" else made[["score"]]
    np.testing.assert_allclose(found, scores, rtol=0, atol=1e-5)
    np.testing.assert_allclose(made["prediction"], known["prediction"], rtol=0, atol=1e-5)


def test_what_a_line_holds(trained_plan: Plan, capsys: Printed) -> None:
    (sst,) = ask(trained_plan, capsys, "frozen", "--task", "sst", "a warm film")
    assert list(sst) == ["sentence1", "task", "prediction", "label", "probabilities"]
    assert sst["prediction"] == int(np.argmax(sst["probabilities"]))
    assert sum(sst["probabilities"]) == pytest.approx(1)
    assert sst["label"] == TASKS["sst"].names[sst["prediction"]]
    (para,) = ask(trained_plan, capsys, "one/three", "--task", "para", "is it é?", "it is é")
    assert list(para) == ["sentence1", "sentence2", "task", "prediction", "label", "score"]
    assert para["prediction"] == int(para["score"] > 0.5)
    (sts,) = ask(trained_plan, capsys, "one/three", "--task", "sts", "a", "b")
    assert list(sts) == ["sentence1", "sentence2", "task", "prediction", "score"]
    assert sts["prediction"] == sts["score"]


def test_chunks_of_standard_input_go_to_a_file_in_order(
    trained_plan: Plan, capsys: Printed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = dev(trained_plan, "fused", "sts")
    monkeypatch.setattr("minbert.predict.predictor.CHUNK", len(rows) - 1)
    text = "".join(f"{row.sentence1}\t{row.sentence2}\n" for row in rows.itertuples())
    write_text(tmp_path / "in.txt", text)
    monkeypatch.setattr("minbert.predict.predict.STANDARD_INPUT", tmp_path / "in.txt")
    assert ask(trained_plan, capsys, "fused", "--out", str(tmp_path / "out")) == []
    lines = [json.loads(line) for line in (tmp_path / "out").read_text("utf-8").splitlines()]
    assert [line["sentence2"] for line in lines] == rows["sentence2"].tolist()
    assert [line["score"] for line in lines] == pytest.approx(rows["prediction"], abs=1e-5)


def test_a_file_is_written_whole_or_stays_and_a_pipe_is_written_into(
    trained_plan: Plan, capsys: Printed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, pipe = tmp_path / "folder" / "out", tmp_path / "pipe"
    expected = ask(trained_plan, capsys, "frozen", "a", "b", "--task", "sst")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for out in (path, pipe):
        ask(trained_plan, capsys, "frozen", "a", "b", "--task", "sst", "--out", str(out))
    written = path.read_bytes()
    assert [json.loads(line) for line in written.splitlines()] == expected
    assert os.read(reader, 1 << 16) == written and pipe.is_fifo()
    os.close(reader)
    monkeypatch.setattr(Predictor, "rows", lambda *_: ({"score": 1 / n} for n in (1, 0)))
    with pytest.raises(ZeroDivisionError):
        ask(trained_plan, capsys, "frozen", "c", "d", "--task", "sst", "--out", str(path))
    assert path.read_bytes() == written and os.listdir(path.parent) == ["out"]


def test_the_best_of_others_names_the_run(trained_plan: Plan, capsys: Printed) -> None:
    words = ("--task", "para", "is it far ?", "how far is it ?")
    chosen = ask(trained_plan, capsys, "one/three", *words)
    main(["predict", "best", *words, "--results", str(trained_plan.root), "--device", "cpu"])
    told = capsys.readouterr()
    assert [json.loads(line) for line in told.out.splitlines()] == chosen
    key = run_folder(trained_plan, "three").parent.name
    said = "minbert: 'best' is the best of several: para from 'three/main', seed 0"
    assert told.err == f"{said} ({key})\n"
    with pytest.raises(UserError, match="give sentences in one way: after"):
        predict(trained_plan.root, "frozen", task="sst", sentences=["a"], source=Path("a.txt"))


def test_what_has_changed_since_is_told(trained_plan: Plan, root: Path, capsys: Printed) -> None:
    """The precision of training is the run's, and a setting or weights may be of other code."""
    run = root / run_folder(trained_plan, "frozen").relative_to(trained_plan.root)
    described = root / "store" / "spec" / f"train-{run.parent.name}.json"
    record = read_json(run / "run.json")
    record["environment"]["precision"] = "bf16"
    write_json(run / "run.json", record)
    found = []
    for each in (trained_plan.root, root):
        predict(each, "frozen", task="para", sentences=["a man .", "a woman ."], device="cpu")
        found.append(json.loads(capsys.readouterr().out)["score"])
    assert found[0] != found[1]
    assert found[0] == pytest.approx(found[1], abs=0.2)
    broken = {n: of * float("nan") for n, of in load_weights(run / "model.safetensors").items()}
    save_weights(run / "model.safetensors", broken)
    with pytest.raises(UserError, match="the model predicts no finite number"):
        predict(root, "frozen", task="sst", sentences=["a"], device="cpu")
    page = read_json(described)
    page["spec"]["stage"]["momentum"] = 0.9
    write_json(described, page)
    with pytest.raises(UserError, match=r"train .*unknown key 'momentum'"):
        predict(root, "frozen", task="sst", sentences=["a"], device="cpu")
    assert capsys.readouterr().out == ""


def test_sentences_may_stand_before_and_after_options(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(command, "predict", lambda root, **given: asked.append(given))
    main(["predict", "v", "a b", "--task", "sst", "- c"])
    main(["predict", "--task", "sst", "v", "--", "a b", "- c"])
    for given in asked:
        assert (given["variant"], given["task"]) == ("v", "sst")
        assert given["sentences"] == ["a b", "- c"]
