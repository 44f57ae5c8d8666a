"""Which layers the tasks share: one encoder for all, one for each, and everything between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from minbert.common.errors import UserError
from minbert.grid.architecture import Architecture
from minbert.grid.spec import Dropout
from minbert.model.encoder import Pooler, Stack, allocate, initialise
from minbert.model.packed import Packed


class SharedEncoder(nn.Module):
    """One encoder a task, with the embeddings and the first `shared` layers in common.

    `shared` is as `shared_depth` returns it. With all layers shared the pooler is shared too;
    with fewer, the layers above and the pooler are one copy a task; with None everything is.
    Weights start at BERT's random initialisation until `load_backbone`.
    """

    def __init__(
        self, arch: Architecture, tasks: Sequence[str], shared: int | None, dropout: Dropout
    ) -> None:
        super().__init__()
        self.hidden = arch.hidden
        apart = shared is None
        depth = 0 if shared is None else shared
        whole = depth == arch.layers and not apart
        # On the meta device first: the initial weights of nn.Linear would be drawn for nothing.
        with torch.device("meta"):
            self.shared = Stack(
                arch, dropout, layers=range(depth), embeddings=not apart, pooler=whole
            )
            self.own = nn.ModuleDict(
                {
                    task: Stack(
                        arch,
                        dropout,
                        layers=range(depth, arch.layers),
                        embeddings=apart,
                        pooler=not whole,
                    )
                    for task in tasks
                }
            )
        allocate(self)
        initialise(self)

    def _own(self, task: str) -> Stack:
        return cast(Stack, self.own[task])

    def forward(
        self, task: str, batch: Packed, noise: Tensor | None = None, first_only: bool = False
    ) -> Tensor:
        """Return the last layer's output for `task`, [T, H]; `noise` [T, H] is added to its input.

        That input is the embeddings, normalised, before dropout. With `first_only` the output is
        that of each row's first token, [B, H].
        """
        own = self._own(task)
        if self.shared.embeddings is None:
            return cast(Tensor, own(batch, noise=noise, first_only=first_only))
        if not own.layers:
            return cast(Tensor, self.shared(batch, noise=noise, first_only=first_only))
        return cast(Tensor, own(batch, self.shared(batch, noise=noise), first_only=first_only))

    def pooler(self, task: str) -> Pooler:
        """Return the pooler of `task`, a module from [B, H] to [B, H]."""
        shared = self.shared.pooler
        pooler = self._own(task).pooler if shared is None else shared
        assert pooler is not None
        return pooler

    def shared_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that several tasks train; none when there is one task only."""
        return list(self.shared.parameters()) if len(self.own) > 1 else []

    def own_parameters(self, task: str) -> list[nn.Parameter]:
        """Return the parameters that only `task` trains."""
        below = list(self.shared.parameters()) if len(self.own) == 1 else []
        return below + list(self.own[task].parameters())

    def load_backbone(self, state: Mapping[str, Tensor]) -> None:
        """Start every copy from the same backbone: `state` has the names of `whole_encoder`.

        Raises `UserError` naming the tensor if one is missing, unexpected, or has another shape.
        """
        stacks = [self.shared, *(self._own(task) for task in self.own)]
        check_state(state, {n: tuple(p.shape) for s in stacks for n, p in s.named_parameters()})
        with torch.no_grad():
            for stack in stacks:
                for name, parameter in stack.named_parameters():
                    parameter.copy_(state[name])


def check_state(state: Mapping[str, Tensor], expected: Mapping[str, tuple[int, ...]]) -> None:
    """Hold the tensors of a backbone to the `expected` shapes, else raise `UserError`."""
    for name, shape in expected.items():
        if name not in state:
            raise UserError(
                f"the backbone has no tensor '{name}', expected of shape {list(shape)}; does its "
                "config.json belong to its weights?"
            )
        if tuple(state[name].shape) != shape:
            raise UserError(
                f"the backbone's tensor '{name}' has shape {list(state[name].shape)}, expected "
                f"{list(shape)}; does its config.json belong to its weights?"
            )
    for name in state:
        if name not in expected:
            raise UserError(
                f"the backbone has an unexpected tensor '{name}' of shape "
                f"{list(state[name].shape)}; does its config.json belong to its weights?"
            )
