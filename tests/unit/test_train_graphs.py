"""Steps by recordings train what ordinary steps do; on a CPU a recording is the work done again."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from recording import Again, Failing, make_loop, train
from stepping import STEP, learner, losses

from minbert.common.errors import UserError
from minbert.train import graphs as recordings
from minbert.train import loop as loops
from minbert.train import run as runs
from minbert.train.distributed import Alone
from minbert.train.graphs import Graphs, record_graphs
from minbert.train.run import train_stage
from minbert.train.step import Gradients

OPTIMISER = {"lr": 1e-3, "eps": 1e-2, "weight_decay": 0.1}
"""So large an eps keeps what is zero but for rounding from moving at the full rate."""

SIAMESE = {"pairing": "siamese", "features": ["u", "v", "|u-v|"]}
STAGES: dict[str, dict[str, Any]] = {
    "unified": {},
    "mean": {"reduction": "mean", "everywhere": {"pooling": "mean"}},
    "sequential": {"sampler": {"name": "sequential", "order": ["sst", "para", "sts"]}},
    "surgery": {"surgery": "pcgrad"},
    "hybrid": {"shared_layers": 1},
    "hybrid surgery": {"shared_layers": 1, "surgery": "pcgrad"},
    "siamese": {"tasks": {"sst": {}, "para": SIAMESE, "sts": {}}},
    "adapters": {"trainable": "adapters", "adapter": {"width": 4}},
}


def assert_same_training(a: Any, b: Any) -> None:
    for (name, ours), expected in zip(
        a.learner.module.named_parameters(), b.learner.module.parameters(), strict=True
    ):
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5, msg=name)


@pytest.mark.parametrize("stage", STAGES)
def test_thirty_steps_are_those_without_recordings(
    stage: str, make_spec: Any, sources: Any
) -> None:
    spec = make_spec(still=True, optimiser=OPTIMISER, **STAGES[stage])
    recorder = Again()
    recorded, plain = make_loop(spec, sources, recorder), make_loop(spec, sources)
    start = [p.detach().clone() for p in plain.learner.module.parameters()]
    assert train(recorded, 30) == pytest.approx(train(plain, 30), rel=1e-4, abs=1e-5)
    assert recorder.played > 15
    assert recorded.learner.tokens_seen == plain.learner.tokens_seen
    assert_same_training(recorded, plain)
    moved = [
        not torch.equal(p, q) for p, q in zip(start, plain.learner.module.parameters(), strict=True)
    ]
    assert any(moved)


@pytest.mark.parametrize("surgery", [None, "pcgrad"])
def test_what_no_task_uses_is_neither_moved_nor_decayed(
    surgery: str | None, make_spec: Any, sources: Any
) -> None:
    how = {"pooling": "mean"}
    spec = make_spec(everywhere=how, still=True, optimiser=OPTIMISER, surgery=surgery)
    loop = make_loop(spec, sources, Again())
    pooler = loop.learner.module.get_parameter("encoder.shared.pooler.dense.weight")
    before = pooler.detach().clone()
    train(loop, 12)
    assert pooler.grad is None
    assert torch.equal(pooler, before)


def test_recorded_and_ordinary_batches_mix_in_a_step(
    make_spec: Any, sources: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = make_spec(still=True, optimiser=OPTIMISER, sampler={"name": "unified"})
    for left_out in ({"sst"}, {"para"}, {"sts"}, {"sst", "sts"}):
        recorder = Again()
        mixed, plain = make_loop(spec, sources, recorder), make_loop(spec, sources)
        graphs = mixed.gradients.graphs
        assert graphs is not None

        def some(task: str, *given: Any, ours: Any = graphs.batch, out: Any = left_out) -> Any:
            return None if task in out else ours(task, *given)

        monkeypatch.setattr(graphs, "batch", some)
        train(mixed, 15)
        train(plain, 15)
        assert recorder.played > 5
        assert_same_training(mixed, plain)


def test_a_task_may_come_twice_in_a_step(make_spec: Any, sources: Any) -> None:
    spec = make_spec(still=True, optimiser=OPTIMISER)
    recorder = Again()
    recorded, plain = make_loop(spec, sources, recorder), make_loop(spec, sources)
    step = [STEP[0], ("sst", torch.tensor([2, 4, 1])), STEP[1]]
    for loop in (recorded, plain):
        for _ in range(4):
            loop.train_step(step)
    assert recorder.played > 5
    assert_same_training(recorded, plain)


def test_the_number_of_recordings_is_bounded(
    make_spec: Any, sources: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordings, "MOST", 2)
    spec = make_spec(still=True, optimiser=OPTIMISER)
    recorded, plain = make_loop(spec, sources, Again()), make_loop(spec, sources)
    train(recorded, 20)
    train(plain, 20)
    assert recorded.gradients.graphs is not None
    assert recorded.gradients.graphs.count == 2
    assert_same_training(recorded, plain)


def test_a_first_batch_is_not_recorded(make_spec: Any, sources: Any) -> None:
    recorder = Again()
    loop = make_loop(make_spec(still=True), sources, recorder)
    graphs = loop.gradients.graphs
    assert graphs is not None
    for played, count in ((0, 0), (3, 3), (6, 3)):
        loop.train_step(STEP)
        assert (recorder.played, graphs.count) == (played, count)


@pytest.mark.parametrize("surgery", [None, "pcgrad"])
@pytest.mark.parametrize("good", [0, 2])
def test_where_recording_fails_steps_go_on_and_one_line_says_so(
    good: int, surgery: str | None, make_spec: Any, sources: Any
) -> None:
    spec = make_spec(still=True, optimiser=OPTIMISER, surgery=surgery)
    told: list[str] = []
    error = torch.AcceleratorError("CUDA error: operation not permitted\nmore")
    failing = make_loop(spec, sources, Failing(good, error), told.append)
    plain = make_loop(spec, sources)
    assert train(failing, 15) == pytest.approx(train(plain, 15), rel=1e-4, abs=1e-5)
    assert_same_training(failing, plain)
    graphs = failing.gradients.graphs
    assert graphs is not None and not graphs._buckets, "recordings give their memory back"
    (line,) = told
    assert "recording a batch of" in line and line.endswith("CUDA error: operation not permitted")


@pytest.mark.parametrize("hidden", [False, True])
def test_a_recording_without_memory_is_for_the_loop_to_handle(
    hidden: bool, make_spec: Any, sources: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """A capture that memory ended may raise another error on its way out."""
    error: RuntimeError = torch.OutOfMemoryError("CUDA out of memory")
    if hidden:
        memory, error = error, RuntimeError("capture invalidated")
        error.__context__ = memory
    spec = make_spec(still=True, optimiser=OPTIMISER)
    failing, plain = make_loop(spec, sources, Failing(1, error)), make_loop(spec, sources)
    for loop in (failing, plain):
        for _ in range(3):
            loop.train_step(STEP)
    assert capsys.readouterr().err.count("out of memory at step") == 1
    assert failing.gradients.graphs is None, "recordings give their memory back"
    assert_same_training(failing, plain)


def test_other_errors_of_the_work_are_raised(make_spec: Any, sources: Any) -> None:
    loop = make_loop(make_spec(), sources, Failing(0, UserError("no")))
    loop.train_step(STEP)
    with pytest.raises(UserError, match="no"):
        loop.train_step(STEP)


def test_batches_in_parts_are_not_recorded(make_spec: Any, sources: Any) -> None:
    recorder = Again()
    loop = make_loop(make_spec(still=True), sources, recorder)
    loop.gradients.room = 1.0
    for _ in range(3):
        loop.train_step(STEP)
    assert loop.gradients.parts == 4
    assert recorder.played == 0


def test_bf16_goes_through_autocast_without_its_cache(make_spec: Any, sources: Any) -> None:
    spec = make_spec(still=True)
    made = learner(spec, sources)
    autocast = partial(torch.autocast, "cpu", torch.bfloat16)
    gradients = Gradients(spec, made, losses(spec), autocast, torch.Generator())
    gradients.graphs = Graphs(gradients, Again(), print)
    seen = []
    made.module.heads["sst"].register_forward_hook(
        lambda *given: seen.append((given[2].dtype, torch.is_autocast_cache_enabled()))
    )
    cached = torch.is_autocast_cache_enabled()
    gradients(STEP, lambda *_: None)
    assert seen == [(torch.bfloat16, False)]
    assert torch.is_autocast_cache_enabled() == cached


@pytest.mark.parametrize("lacking", ["GPU", "one model pass", "tokens", "one process"])
def test_what_cannot_be_recorded_is_not(lacking: str, make_spec: Any, sources: Any) -> None:
    smart = {"smart": {"weight": 1.0}} if lacking == "one model pass" else {}
    gradients = make_loop(make_spec(**smart), sources).gradients
    if lacking == "tokens":
        gradients.learner = object()  # type: ignore[assignment]
    if lacking == "one process":
        gradients.peers = Alone()
        gradients.peers.count = 2
    device = torch.device("cpu" if lacking == "GPU" else "cuda")
    assert not record_graphs(gradients, device, print)
    assert gradients.graphs is None


def test_what_can_be_recorded_is(
    make_spec: Any, sources: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordings, "CudaRecorder", lambda device: Again())
    gradients = make_loop(make_spec(), sources).gradients
    assert record_graphs(gradients, torch.device("cuda"), print)
    assert gradients.graphs is not None


@pytest.mark.parametrize("wished", [False, True])
def test_a_run_says_and_records_whether_it_was_recorded(
    wished: bool,
    make_spec: Any,
    sources: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def record(gradients: Gradients, device: torch.device, say: Any) -> bool:
        gradients.graphs = Graphs(gradients, Again(), say)
        return True

    monkeypatch.setattr(runs, "record_graphs", record)
    monkeypatch.setattr(loops, "embeddings", lambda module: ())
    spec = make_spec(epochs=2)
    made = train_stage(
        spec, 0, sources(*spec.tasks), tmp_path, title="t", device="cpu", cuda_graphs=wished
    )
    assert (made["cuda_graphs"] > 0) == wished
    first = capsys.readouterr().err.splitlines()[0]
    assert ("threads, CUDA graphs" in first) == wished
