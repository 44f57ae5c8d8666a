"""Forward and backward of batches as CUDA graphs: recorded once a shape, then one launch each.

On a GPU small batches wait for Python, which starts some thousand kernels for each. A recording
fixes every size and address, so batches get fixed shapes (`buckets`), gradients are added to
buffers that outlive the recordings, and nothing that a recording itself allocates is kept: all of
them share one pool of memory, in which the next one overwrites what the last one left.

What is relied on in torch (docs "CUDA semantics", section "CUDA graphs", and its sources):

- Backward runs on the streams of forward. Nodes that add to a parameter's gradient remember the
  stream they were made on and live as long as a graph of autograd that uses them. None is alive
  when a recording begins, since a batch's is gone when its gradients are there.
- Dropout and attention draw from the device's default generator, which torch moves on at each
  replay by what the recording took, so that every replay draws anew.
- No kernel in the work waits for the host. Of embeddings' backward this is so from CUDA 11.6 on.
- cuBLAS and lazily loaded kernels are ready: a shape's first batch does the same work unrecorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

import torch
from torch import Tensor
from torch.nn import Parameter

from minbert.train.buckets import Shape, StaticBatch, shape_of
from minbert.train.memory import is_out_of_memory

if TYPE_CHECKING:
    from minbert.train.finetune import Finetuned
    from minbert.train.step import Gradients

MOST = 64
"""Recordings a run makes at most; batches of further shapes are worked on the ordinary way."""

Done = tuple[Tensor, Tensor, list[Tensor | None]]
"""A batch's loss (a scalar), its predictions [B], and with surgery its gradients."""


class Recorder(Protocol):
    """What makes recordings."""

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return what does `work`, on the same tensors each time. Nothing is done yet."""
        ...


class CudaRecorder:
    """Records CUDA graphs on one device, all on one stream and in one pool of memory."""

    def __init__(self, device: torch.device) -> None:
        self.pool = torch.cuda.graph_pool_handle()
        self.stream = torch.cuda.Stream(device)
        self.generator = torch.cuda.default_generators[self.stream.device_index]

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        """Capture `work`; raises what `work` or CUDA does, with stream and generator as before."""
        graph = torch.cuda.CUDAGraph()
        before = self.generator.clone_state()
        try:
            # The outer one: a capture that fails may not leave its stream.
            with (
                torch.cuda.stream(torch.cuda.current_stream(self.stream.device)),
                torch.cuda.graph(graph, pool=self.pool, stream=self.stream),
            ):
                work()
        except BaseException:
            # Else the generator waits for the capture's end, and refuses to draw.
            self.generator.graphsafe_set_state(before)
            raise
        return graph.replay


@dataclass
class Bucket:
    """All batches of one task, size and shape: their inputs, what comes out, and the recording.

    `gradients` has, for each parameter that the task may train, the buffer of its gradient, or
    None where the task does not use it. `loss` is a scalar, `predictions` [B].
    """

    task: str
    weight: float
    batch: StaticBatch
    loss: Tensor
    predictions: Tensor
    gradients: list[Tensor | None] = field(default_factory=list)
    replay: Callable[[], None] | None = None


class Graphs:
    """Works on whole batches by recordings, for the steps of `owner`.

    Without surgery a parameter has one buffer, which all tasks of a step are added up in; it is
    the parameter's gradient from then on, so that batches that are not recorded add to it too.
    With surgery each task has its own. A shape's first batch is not recorded; its work is the same.
    """

    def __init__(self, owner: Gradients, recorder: Recorder, say: Callable[[str], None]) -> None:
        self.losses, self.autocast = owner.losses, owner.autocast
        self.learner = cast("Finetuned", owner.learner)
        self.parameters: dict[str, list[Parameter]] = {
            task: [*owner.shared, *own] for task, own in owner.own.items()
        }
        self.surgery = owner.method is not None
        self.recorder: Recorder | None = recorder
        self.say = say
        self.count = 0
        """Recordings so far."""
        self._buckets: dict[tuple[str, float, int, Shape], Bucket] = {}
        self._buffers: dict[tuple[str, int], Tensor] = {}

    def batch(self, task: str, rows: Tensor, weight: float) -> Done | None:
        """Go forward and backward through the examples `rows` (int64 [B], CPU) of `task`.

        Returns what `step.Gradients` makes of a batch, or None if this one is not for recordings.
        Running out of memory is raised as such.
        """
        if self.recorder is None:
            return None
        examples = self.learner.examples[task]["train"]
        lengths = examples.sequences.lengths[examples.sequence_rows(rows.numpy())]
        shape = shape_of(lengths, self.learner.module.spec.max_length)
        key = task, weight, len(rows), shape
        bucket = self._buckets.get(key)
        if self.count == MOST and (bucket is None or bucket.replay is None):
            return None
        if bucket is None:
            loss = torch.empty((), device=examples.labels.device)
            static = StaticBatch(examples, len(rows), shape)
            bucket = Bucket(task, weight, static, loss, loss.new_empty(len(rows)))
            self._buckets[key] = bucket
            bucket.batch.put(rows.numpy())
            found = self._work(bucket)
            bucket.gradients = [
                None if gradient is None else self._buffer(task, parameter)
                for parameter, gradient in zip(self.parameters[task], found, strict=True)
            ]
            self._begin(bucket)
            self._keep(bucket, found)
        else:
            bucket.batch.put(rows.numpy())
            if bucket.replay is None and not self._record(bucket):
                return None
            assert bucket.replay is not None
            self._begin(bucket)
            bucket.replay()
        self.learner.tokens_seen += int(lengths.sum())
        if not self.surgery:
            for parameter, buffer in self._used(bucket):
                parameter.grad = buffer
        gradients = bucket.gradients if self.surgery else []
        return bucket.loss.clone(), bucket.predictions.clone(), gradients

    def _work(self, bucket: Bucket) -> tuple[Tensor | None, ...]:
        """Return the gradients of the task's parameters; loss and predictions go to the bucket."""
        task, batch = bucket.task, bucket.batch
        module, loss = self.learner.module, self.losses[task]
        with self._without_cache():
            pooled = module.pooled(task, batch.packed())
            output = module.from_pooled(task, pooled[: batch.sequences])
        found = loss.loss(output, batch.labels())
        bucket.loss.copy_(found.detach())
        bucket.predictions.copy_(loss.prediction(output.detach().float()))
        return torch.autograd.grad(bucket.weight * found, self.parameters[task], allow_unused=True)

    @contextmanager
    def _without_cache(self) -> Iterator[None]:
        """Compute in the run's precision; no weight in another one outlives a recording."""
        with self.autocast():
            cached = torch.is_autocast_cache_enabled()
            torch.set_autocast_cache_enabled(False)
            try:
                yield
            finally:
                torch.set_autocast_cache_enabled(cached)

    def _keep(self, bucket: Bucket, found: tuple[Tensor | None, ...]) -> None:
        """Take the gradients that were found into the buffers."""
        buffers = [buffer for _, buffer in self._used(bucket)]
        gradients = [gradient for gradient in found if gradient is not None]
        if self.surgery:
            torch._foreach_copy_(buffers, gradients)
        else:
            torch._foreach_add_(buffers, gradients)

    def _begin(self, bucket: Bucket) -> None:
        """Let the buffers that are added to hold what the step has found so far, if anything."""
        if self.surgery:
            return
        empty = []
        for parameter, buffer in self._used(bucket):
            if parameter.grad is None:
                empty.append(buffer)
            elif parameter.grad is not buffer:
                buffer.copy_(parameter.grad)
        if empty:
            torch._foreach_zero_(empty)

    def _used(self, bucket: Bucket) -> list[tuple[Parameter, Tensor]]:
        """Return the parameters that the bucket's task uses, with their buffers."""
        pairs = zip(self.parameters[bucket.task], bucket.gradients, strict=True)
        return [(parameter, buffer) for parameter, buffer in pairs if buffer is not None]

    def _buffer(self, task: str, parameter: Parameter) -> Tensor:
        """Return the buffer for the gradient of `parameter`, made when first asked for."""
        key = task if self.surgery else "", id(parameter)
        if key not in self._buffers:
            self._buffers[key] = torch.zeros_like(parameter)
        return self._buffers[key]

    def _record(self, bucket: Bucket) -> bool:
        """Record the bucket's work; return whether that worked. If not, none is recorded again."""
        assert self.recorder is not None
        try:
            bucket.replay = self.recorder.record(partial(self._again, bucket))
        except RuntimeError as error:
            if lacking := _lack_of_memory(error):
                raise torch.OutOfMemoryError(str(lacking)) from error
            why = str(error).strip().partition("\n")[0]
        else:
            self.count += 1
            return True
        self.recorder = None
        self._buckets.clear()
        self._buffers.clear()
        self.say(
            f"CUDA graphs: recording a batch of {bucket.task} failed; all steps from here on "
            f"are made the ordinary way. {why}"
        )
        return False

    def _again(self, bucket: Bucket) -> None:
        """Do all of the bucket's work. Nothing here may wait for the device or read from it."""
        self._keep(bucket, self._work(bucket))


def _lack_of_memory(error: BaseException | None) -> BaseException | None:
    """Return what says in `error`, or before it, that memory ran out: a capture ends badly then."""
    while error is not None and not is_out_of_memory(error):
        error = error.__context__
    return error


def record_graphs(gradients: Gradients, device: torch.device, say: Callable[[str], None]) -> bool:
    """Let `gradients` work by CUDA graphs, if they can; return whether they do.

    They cannot off CUDA, where heads alone are trained, with SMART (it goes through the model
    several times), or in several processes.
    """
    # What is trained on cached features has no tokens, and reads nothing by rows of examples.
    tokens = hasattr(gradients.learner, "examples")
    alone = gradients.penalty is None and gradients.peers.count == 1
    if device.type != "cuda" or not tokens or not alone:
        return False
    gradients.graphs = Graphs(gradients, CudaRecorder(device), say)
    return True
