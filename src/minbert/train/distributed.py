"""One run on several processes: each works on its slice of every batch, all hold the same weights.

A slice's loss is weighted by its share of the batch, so that the sum over processes is the whole
batch's, and so are the gradients. They are added up once a step, after the last backward pass,
with plain all-reduces. torch's DistributedDataParallel would not do: it averages one gradient a
parameter from hooks of `backward`, but surgery combines the whole gradients of each task, which
`torch.autograd.grad` returns without running hooks, and our AdamW takes gradients by rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor

from minbert.common.errors import UserError
from minbert.train.device import choose_device

BUCKET = 1 << 23
"""Numbers that are added up in one go: large enough to fill a link, small beside the model."""

PATIENCE = timedelta(hours=24)
"""How long a process waits for the others. A death is seen at once, by the one that started it."""


class Alone:
    """The only process of its run: all of this is free."""

    rank = 0
    count = 1

    @property
    def first(self) -> bool:
        """Whether this process writes what the run leaves."""
        return self.rank == 0

    def place(self, rows: int) -> slice:
        """Return where this process's part of a batch of `rows` lies."""
        return slice(rows * self.rank // self.count, rows * (self.rank + 1) // self.count)

    def sum(self, tensors: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Add up the processes' tensors, dense or by rows; dense ones change in place.

        Which of them are None has to be the same in all processes; they stay None.
        """
        return list(tensors)

    def most(self, *numbers: int) -> tuple[int, ...]:
        """Return the largest of the processes' numbers, place by place."""
        return numbers

    def total(self, number: int) -> int:
        """Return the sum of the processes' numbers."""
        return number

    def name(self, state: str) -> str:
        """Return what this process's part of a saved state is called."""
        return named(state, self.rank)

    def gather(self, states: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the processes' tensors, alike in shape, under the names of each."""
        return states

    def wait(self) -> None:
        """Wait until all processes are here."""

    def leave(self) -> None:
        """End the run together."""


ALONE = Alone()


class Peers(Alone):
    """This process among those that the environment names, as torchrun sets it.

    Numbers on an accelerator are added up there (NCCL), all else on the host (gloo). Every
    process calls the same in the same order. Raises `UserError` when another one is gone.
    """

    def __init__(self, device: torch.device) -> None:
        import torch.distributed as dist

        self.rank = int(os.environ["RANK"])
        self.count = int(os.environ["WORLD_SIZE"])
        self._dist = dist
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        self._try(dist.init_process_group, backend, timeout=PATIENCE)

    def _try(self, call: Callable[..., Any], *given: Any, **named: Any) -> Any:
        try:
            return call(*given, **named)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise UserError(
                f"process {self.rank} of {self.count} (from 0) lost the others: one has ended, "
                f"and says above why, or was killed. {error}"
            ) from error

    def sum(self, tensors: Sequence[Tensor | None]) -> list[Tensor | None]:
        dense = [tensor for tensor in tensors if tensor is not None and not tensor.is_sparse]
        for bucket in buckets(dense):
            self._try(self._sum_bucket, bucket)
        return [self._rows(t) if t is not None and t.is_sparse else t for t in tensors]

    def _sum_bucket(self, bucket: Sequence[Tensor]) -> None:
        flat = torch.cat([tensor.reshape(-1) for tensor in bucket])
        self._dist.all_reduce(flat)
        parts = flat.split([tensor.numel() for tensor in bucket])
        for tensor, part in zip(bucket, parts, strict=True):
            tensor.copy_(part.view_as(tensor))

    def _rows(self, gradient: Tensor) -> Tensor:
        """Add up gradients by rows [V, H]: all get all rows and values, in the processes' order."""
        gradient = gradient.coalesce()
        rows, values = gradient.indices()[0], gradient.values()
        longest = self.most(len(rows))[0]
        padded = rows.new_full((longest,), -1)
        padded[: len(rows)] = rows
        wide = values.new_zeros(longest, values.shape[1])
        wide[: len(values)] = values
        all_rows, all_values = self._gathered(padded), self._gathered(wide)
        real = all_rows >= 0
        return torch.sparse_coo_tensor(
            all_rows[real][None], all_values[real], gradient.shape, check_invariants=False
        ).coalesce()

    def _gathered(self, tensor: Tensor) -> Tensor:
        found = [torch.empty_like(tensor) for _ in range(self.count)]
        self._try(self._dist.all_gather, found, tensor)
        return torch.cat(found)

    def most(self, *numbers: int) -> tuple[int, ...]:
        told = torch.tensor(numbers)
        self._try(self._dist.all_reduce, told, self._dist.ReduceOp.MAX)
        return tuple(told.tolist())

    def total(self, number: int) -> int:
        told = torch.tensor([number])
        self._try(self._dist.all_reduce, told)
        return int(told.item())

    def gather(self, states: dict[str, Tensor]) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        for state, tensor in states.items():
            parts = self._gathered(tensor.cpu()).chunk(self.count)
            found |= {named(state, rank): part for rank, part in enumerate(parts)}
        return found

    def wait(self) -> None:
        self.most(0)

    def leave(self) -> None:
        self.wait()
        self._dist.destroy_process_group()


def named(state: str, rank: int) -> str:
    """Return what the part of process `rank` of a saved state is called."""
    return f"{state}.{rank}" if rank else state


def buckets(tensors: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """Yield runs of tensors of one type, of at most `BUCKET` numbers or of one tensor."""
    bucket: list[Tensor] = []
    size = 0
    for tensor in tensors:
        if bucket and (size + tensor.numel() > BUCKET or tensor.dtype != bucket[0].dtype):
            yield bucket
            bucket, size = [], 0
        bucket.append(tensor)
        size += tensor.numel()
    if bucket:
        yield bucket


def join(processes: int, wish: str) -> tuple[Alone, torch.device]:
    """Return this process among those of its run, and its device; `processes` is 1 for one alone.

    On GPUs each process has one of its own. Raises `UserError` if there are too few of them.
    """
    device = choose_device(wish)
    if processes == 1:
        return ALONE, device
    if device.type == "cuda":
        seen, here = torch.cuda.device_count(), int(os.environ["LOCAL_WORLD_SIZE"])
        if seen < here:
            raise UserError(
                f"processes: {here}, but this job sees {seen} GPU(s); each process needs one of "
                "its own. Lower 'processes', or give the job more GPUs (CUDA_VISIBLE_DEVICES)."
            )
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    return Peers(device), device
