"""The best epoch's weights in a file: what is kept when, and what reading it back costs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from stepping import CPU, learner

from minbert.base.progress import Progress
from minbert.engine import device
from minbert.engine.checkpoints import Best, Checkpoints, read_tensors
from minbert.model.weights import load_weights, save_weights
from minbert.spec.stage import StageSpec
from minbert.train import loop as loop_module
from minbert.train.history import History
from minbert.train.loop import Loop, Settings
from minbert.train.run import train_stage

STATUS = Path("/proc/self/status")


def weights(value: float) -> Callable[[Path], object]:
    """Return what writes a file of weights that are all `value`."""
    return partial(save_weights, state={"w": torch.full((3, 2), value)})


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_latest_is_kept_and_the_one_that_a_state_names(tmp_path: Path) -> None:
    best = Best(tmp_path)
    for epoch in (1, 2):
        best.keep(epoch, weights(float(epoch)))
    assert kept(tmp_path) == ["best-2.safetensors"], "no state names the first"
    best.saved()
    best.keep(5, weights(5.0))
    best.keep(7, weights(7.0))
    assert kept(tmp_path) == ["best-2.safetensors", "best-7.safetensors"]
    best.saved()
    assert kept(tmp_path) == ["best-7.safetensors"]
    assert load_weights(best.path)["w"].unique().tolist() == [7.0]
    best.copy(tmp_path / "out" / "model.safetensors")
    best.clear()
    assert kept(tmp_path) == ["out"]


def test_what_a_state_names_stays_after_going_on(tmp_path: Path) -> None:
    first = Best(tmp_path)
    first.keep(3, weights(3.0))
    second = Best(tmp_path)
    assert second.resume(**first.state()) == ""
    assert second.state() == first.state(), "the next state may name it again"
    second.keep(4, weights(4.0))
    assert kept(tmp_path) == ["best-3.safetensors", "best-4.safetensors"]


def test_another_file_of_that_name_is_refused(tmp_path: Path) -> None:
    best = Best(tmp_path)
    best.keep(3, weights(3.0))
    named = best.state()["crc32"]
    best.keep(3, weights(3.5))
    assert "best-3.safetensors is damaged" in best.resume(3, named)
    assert "best-4.safetensors is missing" in best.resume(4, named)
    assert best.resume(0, 0) == "", "a state of the first epoch names none"


def make_loop(sources: Any, make_spec: Any, best: Best) -> Loop:
    spec = make_spec(("sst",))
    settings = Settings(CPU, "fp32", Progress("test"), best)
    return Loop(spec, learner(spec, sources), 0, settings, History())


def test_gradients_and_what_was_freed_go_before_dev_and_before_reading(
    sources: Any, make_spec: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = make_loop(sources, make_spec, Best(tmp_path / "kept"))
    told: list[str] = []

    def note(where: Any, name: str, what: str) -> None:
        function = getattr(where, name)

        def noted(*given: Any) -> Any:
            graded = [p for p in loop.learner.module.parameters() if p.grad is not None]
            told.append(f"{what}, {'some' if graded else 'no'} gradients")
            return function(*given)

        monkeypatch.setattr(where, name, noted)

    note(loop.optimiser, "settle", "steps done")
    note(loop.learner, "outputs", "dev")
    note(loop_module, "give_back", "given back")
    note(loop_module, "load_weights", "read")
    loop.run()
    loop.restore()
    kinds = ["steps done, some", *["given back, no", "dev, no"], *["given back, no", "read, no"]]
    assert told == [f"{kind} gradients" for kind in kinds]


@pytest.fixture
def train(sources: Any, tmp_path: Path) -> Callable[..., bytes]:
    """Return a function that trains a spec, with checkpoints; its weights' file."""

    def run(spec: StageSpec, kind: type[Checkpoints] = Checkpoints) -> bytes:
        state = kind(tmp_path / "work", "run", every=1e9)
        given = {"title": "run", "device": "cpu", "checkpoints": state}
        train_stage(spec, 4, sources(*spec.tasks), tmp_path / "out", **given)
        assert not kept(tmp_path / "work"), "a finished run leaves no state"
        return (tmp_path / "out" / "model.safetensors").read_bytes()

    return run


def test_an_epoch_that_no_state_names_yet_takes_nothing_from_the_one_before(
    train: Callable[..., bytes], make_spec: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that dies after a better epoch's weights are written, before its state is."""

    class Killed(Checkpoints):
        def save(self, step: int) -> None:
            if self.best.epoch == 2:
                raise KeyboardInterrupt
            super().save(step)

    def score(*values: float) -> None:
        waiting = iter(values)
        monkeypatch.setattr("minbert.train.loop.selection_score", lambda *_: next(waiting))

    spec = make_spec(("sst",), epochs=3)
    score(0.1, 0.2, 0.15)
    expected = train(spec)
    score(0.1, 0.2)
    with pytest.raises(KeyboardInterrupt):
        train(spec, Killed)
    left = [name for name in kept(tmp_path / "work") if name.startswith("best")]
    assert left == ["best-1.safetensors", "best-2.safetensors"]
    score(0.2, 0.15)
    assert train(spec) == expected


def test_a_run_that_dies_before_its_record_is_whole_goes_on(
    train: Callable[..., bytes],
    make_spec: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = make_spec(("sst",), epochs=2)
    expected = train(spec)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "out" / "model.safetensors").unlink()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("minbert.train.run.write_json", die)
        train(spec)
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == expected
    capsys.readouterr()
    assert train(spec) == expected
    assert "resuming after step 3 of 6" in capsys.readouterr().err


def resident(kind: str) -> int:
    """Return this process's memory of a kind, bytes."""
    (line,) = (t for t in STATUS.read_text().splitlines() if t.startswith(f"{kind}:"))
    return int(line.split()[1]) * 1024


@pytest.mark.skipif(not STATUS.exists(), reason="the kernel does not tell")
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="no glibc")
def test_freed_memory_is_given_back() -> None:
    """Small blocks below one that is held stay with the process until it is asked."""
    raised = np.ones(31 * 2**17)  # From now on, blocks of up to 31 MiB are from the heap.
    del raised
    blocks = [np.ones(2**17) for _ in range(100)]
    last = blocks.pop()
    blocks.clear()
    before = resident("RssAnon")
    device.give_back()
    assert before - resident("RssAnon") > 50 * 2**20
    assert last.all()


@pytest.mark.skipif(not STATUS.exists(), reason="the kernel does not tell")
def test_a_part_of_a_state_leaves_memory_before_the_next_is_read(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    size = 2**26
    save_file({f"{part}.w": torch.ones(size // 4) for part in ("model", "optimiser")}, path)
    before = resident("RssFile")
    for part in ("model", "optimiser"):
        found = read_tensors(path, part)
        assert list(found) == ["w"] and found["w"].sum() == size // 4
        assert resident("RssFile") - before < 1.5 * size
        del found
    assert resident("RssFile") - before < 0.5 * size
