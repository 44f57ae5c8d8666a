"""What is recorded is fit for it: no waiting, fixed shapes, nothing kept; seen on a CPU.

A CPU's operations stand for a GPU's: where one has kernels of its own, they are not seen here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from recording import Again, make_loop, train
from stepping import STEP
from torch.autograd.graph import get_gradient_edge
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from minbert.grid.spec import StageSpec
from minbert.model import packed as packing
from minbert.model.padding import padded_view
from minbert.train.graphs import CudaRecorder

SIAMESE = {"pairing": "siamese", "features": ["u", "v", "|u-v|"]}

HOST = {"_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "bincount"}


class Watch(TorchDispatchMode):
    """Notes every operation with the shapes that it is given and gives back.

    `broken` has those that an accelerator's host would have to wait for, `made` all memory that
    they took.
    """

    def __init__(self) -> None:
        super().__init__()
        self.done: list[tuple[Any, ...]] = []
        self.broken: list[str] = []
        self.made: list[StorageWeakRef] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        masked = name.startswith(("index", "_index", "_unsafe_index")) and any(
            tensor.dtype in (torch.bool, torch.uint8) for tensor in tensors(args[1:2])
        )
        sized = name != "repeat_interleave" or kwargs.get("output_size") is not None
        if name in HOST or "unique" in name or masked or not sized:
            self.broken.append(str(func))
        found = func(*args, **kwargs)
        shapes = [tuple(tensor.shape) for tensor in tensors((args, kwargs, found))]
        self.done.append((str(func), *shapes))
        given = {tensor.untyped_storage().data_ptr() for tensor in tensors((args, kwargs))}
        for tensor in tensors(found):
            if tensor.untyped_storage().data_ptr() not in given:
                self.made.append(StorageWeakRef(tensor.untyped_storage()))
        return found


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested tuples, lists and mappings."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


class Watched(Again):
    """Watches the work each time that it is played."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[int, list[Watch]] = {}

    def record(self, work: Any) -> Any:
        play = super().record(work)
        seen = self.seen.setdefault(len(self.seen), [])

        def watched() -> None:
            with Watch() as watch:
                play()
            assert all(made.expired() for made in watch.made), "nothing recorded is kept"
            seen.append(watch)

        return watched


def watch(spec: StageSpec, sources: Any) -> Watched:
    recorder = Watched()
    train(make_loop(spec, sources, recorder), 24)
    return recorder


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"surgery": "pcgrad", "shared_layers": 1},
        {"everywhere": {"pooling": "mean", "convolution": {"kernel": 3}}},
        {"tasks": {"para": {**SIAMESE, "pooling": "max"}, "sst": {}}},
        {"trainable": "adapters", "adapter": {"width": 4}},
    ],
)
def test_the_work_never_waits_and_is_the_same_for_all_batches_of_a_shape(
    settings: dict[str, Any], make_spec: Any, sources: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ungrouped = lambda *given, grouped: padded_view(*given, grouped=False)  # noqa: E731
    monkeypatch.setattr(packing, "padded_view", ungrouped)
    recorder = watch(make_spec(**settings), sources)
    compared = 0
    for seen in recorder.seen.values():
        for one in seen:
            assert not one.broken
            assert one.done == seen[0].done
        compared += len(seen) - 1
    assert compared > 5


def test_the_watch_sees_what_waits(make_spec: Any, sources: Any) -> None:
    """A CPU's view in groups asks the lengths how many rows there are."""
    recorder = watch(make_spec(), sources)
    broken = {name for seen in recorder.seen.values() for one in seen for name in one.broken}
    assert "aten.nonzero.default" in broken
    with Watch() as alone:
        numbers = torch.arange(4)
        numbers[numbers > 1]
        numbers.sum().item()
        torch.repeat_interleave(numbers)
        torch.repeat_interleave(numbers, output_size=6)
    assert len(alone.broken) == 3, alone.broken


@pytest.mark.parametrize("surgery", [None, "pcgrad"])
@pytest.mark.parametrize("recorder", [None, Again()], ids=["ordinary", "recorded"])
def test_no_node_of_autograd_outlives_its_batch(
    recorder: Again | None, surgery: str | None, make_spec: Any, sources: Any
) -> None:
    """One that does would take its stream, which is not captured, into the next recording."""
    loop = make_loop(make_spec(surgery=surgery), sources, recorder)
    module = loop.learner.module
    parameters = [p for p in module.parameters() if p.requires_grad]
    marked = []

    def mark(*_: Any) -> None:
        nodes = [get_gradient_edge(p).node for p in parameters]
        marked.extend(node.metadata.setdefault("seen", True) for node in nodes)

    def none_is_left(*_: Any) -> None:
        assert not any("seen" in get_gradient_edge(p).node.metadata for p in parameters)

    for head in module.heads.values():
        head.register_forward_hook(mark)
    module.encoder.register_forward_pre_hook(none_is_left)
    loop.train_step(STEP)
    assert len(marked) == 3 * len(parameters)
    none_is_left()


@pytest.mark.parametrize("fails", [False, True])
def test_a_capture_leaves_stream_and_generator_as_they_were(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With stand-ins for CUDA: what is called, and in which order."""
    called: list[Any] = []

    @contextmanager
    def inside(*given: Any, **named: Any) -> Iterator[None]:
        called.append(("in", *given, *named.values()))
        yield
        called.append("out")

    side = SimpleNamespace(device="cuda:1", device_index=1)
    generator = SimpleNamespace(clone_state=lambda: "draws", graphsafe_set_state=called.append)
    graph = SimpleNamespace(replay="replay")
    for name, stand_in in {
        "graph_pool_handle": lambda: "pool",
        "Stream": lambda device: side,
        "default_generators": (None, generator),
        "CUDAGraph": lambda: graph,
        "current_stream": lambda device: f"current of {device}",
        "stream": inside,
        "graph": inside,
    }.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    recorder = CudaRecorder(torch.device("cuda:1"))

    def work() -> None:
        called.append("work")
        if fails:
            raise RuntimeError("no")

    begun = [("in", "current of cuda:1"), ("in", graph, "pool", side), "work"]
    if fails:
        with pytest.raises(RuntimeError, match="no"):
            recorder.record(work)
        assert called == [*begun, "draws"]
    else:
        assert recorder.record(work) == "replay"
        assert called == [*begun, "out", "out"]
