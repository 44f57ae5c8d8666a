"""Which layers the tasks share: one encoder for all, one for each, or anything between."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from minbert.model.encoder import Pooler, Stack, allocate, initialise
from minbert.model.packed import Packed, join
from minbert.spec.architecture import Architecture, Parts
from minbert.spec.stage import Dropout


class SharedEncoder(nn.Module):
    """One encoder per task; they share what `shared` says, and each has its own copy of the rest.

    Weights are BERT's random initialisation until `load_backbone`.
    """

    def __init__(
        self, arch: Architecture, tasks: Sequence[str], shared: Parts, dropout: Dropout
    ) -> None:
        super().__init__()
        self.hidden = arch.hidden
        layers = [number for number in range(arch.layers) if number not in shared.layers]
        rest = Parts(layers, not shared.embeddings, not shared.pooler)
        # On the meta device first, so that nn.Linear does not draw weights that are not used.
        with torch.device("meta"):
            self.shared = Stack(arch, dropout, shared)
            self.own: Any = nn.ModuleDict({task: Stack(arch, dropout, rest) for task in tasks})
        allocate(self)
        initialise(self)

    @property
    def can_run_jointly(self) -> bool:
        """Whether all tasks' batches can go through the first layers as one."""
        return self.shared.embeddings is not None and len(self.own) > 1

    def forward(
        self,
        batches: Sequence[tuple[str, Packed]],
        first_only: Sequence[bool],
        noise: Tensor | None = None,
    ) -> list[Tensor]:
        """Return the last layer of each (task, batch), [T, H], or [B, H] for `first_only`.

        The latter has the output of each row's first token alone. It is left whole, [T, H], if the
        last layer is shared and not all of the tasks have it `first_only`. `noise` [T, H] is added
        to the embeddings. There may be several batches if tasks `can_run_jointly`: they go through
        the shared layers as one.
        """
        own = [self.own[task] for task, _ in batches]
        if self.shared.embeddings is None:
            ((_, batch),), (stack,), (first,) = batches, own, first_only
            hidden = stack(batch, noise=noise, first_only=first and not self.shared.layers)
            return [self.shared(batch, hidden, first_only=first)]
        whole = join([batch for _, batch in batches])
        firsts = all(first_only) and not own[0].layers
        sizes = [batch.rows if firsts else len(batch.tokens) for _, batch in batches]
        parts = self.shared(whole, noise=noise, first_only=firsts).split(sizes)
        given = zip(own, batches, parts, first_only, strict=True)
        return [stack(batch, part, first_only=first) for stack, (_, batch), part, first in given]

    def pooler(self, task: str) -> Pooler:
        pooler: Pooler = self.shared.pooler or self.own[task].pooler
        return pooler

    def shared_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that several tasks train; none when there is one task only."""
        return list(self.shared.parameters()) if len(self.own) > 1 else []

    def own_parameters(self, task: str) -> list[nn.Parameter]:
        """Return the parameters that only `task` trains."""
        below = list(self.shared.parameters()) if len(self.own) == 1 else []
        return below + list(self.own[task].parameters())

    def load_backbone(self, state: Mapping[str, Tensor]) -> None:
        """Start every copy from the same backbone: `state` has the names of `whole_encoder`."""
        for stack in (self.shared, *self.own.values()):
            stack.load_state_dict({name: state[name] for name in stack.state_dict()})
