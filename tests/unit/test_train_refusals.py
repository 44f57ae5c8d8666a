"""What a training job refuses: losses and labels that are no numbers, splits without examples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from minbert.base.errors import UserError

Run = Callable[..., Path]


def test_a_loss_that_explodes_stops_with_step_task_and_ids(make_spec: Any, run: Run) -> None:
    spec = make_spec(("sst", "sts"), optimiser={"lr": 1e30})
    with pytest.raises(
        UserError, match=r"loss of task '\w+' is (nan|inf) at step 2; .*: s\w+-train-"
    ):
        run(spec)


def test_a_label_that_is_not_finite_stops_naming_its_example(
    make_spec: Any, run: Run, tokens: dict[str, Path], write_tokens: Any, tmp_path: Path
) -> None:
    rows = pq.read_table(tokens["sts"]).to_pylist()
    rows[5]["label"] = float("nan")
    path = write_tokens(tmp_path / "tokens.parquet", rows)
    with pytest.raises(UserError, match=r"task 'sts' is nan at step [123]; .*\bsts-train-5\b"):
        run(make_spec(("sts",)), instead={"sts": path})
    assert not (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.parametrize(("lacking", "said"), [("train", "training"), ("dev", "dev")])
def test_a_split_without_examples_is_refused_before_any_step(
    lacking: str,
    said: str,
    make_spec: Any,
    run: Run,
    without: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = without("sst", lacking)
    monkeypatch.setattr("minbert.train.loop.Loop.run", lambda _: pytest.fail("it began"))
    with pytest.raises(UserError, match=f"task 'sst' has no {said} examples"):
        run(make_spec(("sst",)), instead={"sst": path})
