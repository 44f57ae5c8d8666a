"""The model of a stage: an encoder shared as the spec says, and each task's pooling and head."""

from collections.abc import Sequence

from torch import Tensor, nn

from minbert.model.heads import join
from minbert.model.packed import Packed
from minbert.model.pooling import Pooling
from minbert.model.precision import to_fp32
from minbert.model.sharing import SharedEncoder
from minbert.spec.architecture import Architecture, check_pairing, shared_parts
from minbert.spec.parts import load_part
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS


class Heads(nn.Module):
    """The heads of a stage's tasks: from pooled embeddings to logits."""

    def __init__(self, spec: StageSpec) -> None:
        super().__init__()
        self.spec = spec
        self.heads = nn.ModuleDict()

    def add_head(self, name: str, hidden: int) -> None:
        """Add the head of the task `name`, for embeddings that are `hidden` wide."""
        task = self.spec.tasks[name]
        width = len(task.features) * hidden if task.features else hidden
        make = load_part("head", task.head.name)
        self.heads[name] = make(width, TASKS[name].classes, task.head)

    def from_pooled(self, task: str, pooled: Tensor) -> Tensor:
        """Return logits [B, classes] from B embeddings, or B first and B second ones if siamese."""
        features = self.spec.tasks[task].features
        if features:
            u, v = pooled.chunk(2)
            pooled = join(u, v, features)
        return self.heads[task](pooled)


class MultitaskModel(Heads):
    """The encoder, and for each task of `spec`, trained or not, its pooling and its head.

    Its weights are new: they come from torch's default generator.
    """

    def __init__(self, arch: Architecture, spec: StageSpec) -> None:
        super().__init__(spec)
        tasks = spec.ordered_tasks
        shared = shared_parts(spec.shared_layers, spec.shared_end, arch.layers)
        self.encoder = SharedEncoder(arch, tasks, shared, spec.dropout)
        self.convolutions = nn.ModuleDict()
        self._poolings: dict[str, Pooling] = {}
        for name in tasks:
            task = spec.tasks[name]
            check_pairing(f"task '{name}'", task.pairing, arch)
            self.add_head(name, arch.hidden)
            if task.convolution:
                layer = load_part("token_layer", "convolution")
                self.convolutions[name] = layer(arch.hidden, task.convolution)
            self._poolings[name] = load_part("pooling", task.pooling)()

    def pooled(self, task: str, batch: Packed, noise: Tensor | None = None) -> Tensor:
        """Return the embedding of each row for `task`, [rows, H]."""
        hidden = self.encoder(task, batch, noise, self._first_only(task))
        return self._pool(task, batch, hidden)

    def _first_only(self, task: str) -> bool:
        return self._poolings[task].first_only and task not in self.convolutions

    def _pool(self, task: str, batch: Packed, hidden: Tensor) -> Tensor:
        if task in self.convolutions:
            hidden = self.convolutions[task](hidden, batch)
        return self._poolings[task](to_fp32(hidden), batch, self.encoder.pooler(task))

    def forward(self, task: str, batch: Packed, noise: Tensor | None = None) -> Tensor:
        """Return logits [B, classes]; `noise` [T, H] is added to the tokens' embeddings."""
        return self.from_pooled(task, self.pooled(task, batch, noise))

    def joint_forward(self, batches: Sequence[tuple[str, Packed]]) -> list[Tensor]:
        """Return each batch's logits, of several from one pass through the layers they share."""
        if len(batches) == 1:
            return [self(*batches[0])]
        firsts = [self._first_only(task) for task, _ in batches]
        hidden = self.encoder.joint_forward(batches, firsts)
        return [
            self.from_pooled(task, self._pool(task, batch, of_task))
            for (task, batch), of_task in zip(batches, hidden, strict=True)
        ]

    def own_parameters(self, task: str) -> list[nn.Parameter]:
        """Return the parameters that only `task` trains: of encoder, convolution and head."""
        own = self.encoder.own_parameters(task) + list(self.heads[task].parameters())
        if task in self.convolutions:
            own += self.convolutions[task].parameters()
        return own
