"""AdamW (Loshchilov and Hutter, 2019) that updates rows of embeddings only when they are used."""

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor
from torch.nn import Embedding, Module, Parameter

from minbert.spec.stage import Optimiser
from minbert.train.checkpoints import Part
from minbert.train.schedules import Schedule

LEAST = 1e-6
"""The smallest decay that weights are multiplied by: some 10 of fp32's units in the last place."""


class AdamW(Part):
    """AdamW on `parameters`: rate, betas, eps and weight decay are `chosen`, as in algorithm 2.

    The rate is multiplied by what `schedule` returns for the number of the step.
    A parameter without a gradient is neither moved nor decayed, and its own step count stays. The
    `embeddings` among the parameters are updated by `DeferredRows`, `rows` by number: call `flush`
    before weights are used for anything but training.

    Decay is gathered by parameter until fp32 can hold it. A step's factor 1 - lr * weight_decay is
    1 in fp32 if lr * weight_decay is below 3e-8: applied at each step, a decay of 1e-3 at a rate of
    1e-5 does nothing, however many the steps.
    """

    kept = ("steps", "due", "moments", "rows")

    def __init__(
        self,
        parameters: Iterable[Parameter],
        chosen: Optimiser,
        schedule: Schedule,
        embeddings: Iterable[Embedding] = (),
    ) -> None:
        self.chosen, self.schedule, self.steps = chosen, schedule, 0
        self.parameters = list(parameters)
        self.due = [1.0] * len(self.parameters)  # by what decay weights are still to be multiplied
        of_weight = {id(each.weight): each for each in embeddings}
        self.rows: dict[int, DeferredRows] = {}
        # Of the others, by number: first and second moment, and the count of steps.
        self.moments: dict[int, list[Tensor]] = {}
        for number, of in enumerate(self.parameters):
            if id(of) in of_weight:
                self.rows[number] = DeferredRows(of_weight[id(of)], chosen)
            else:
                first, second = torch.zeros_like(of), torch.zeros_like(of)
                self.moments[number] = [first, second, of.new_zeros(())]

    def zero_grad(self) -> None:
        """Let no parameter have a gradient."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Move each parameter by its `grad`, which is sparse for an embedding's rows."""
        factor, beta1 = self.schedule(self.steps)
        lr = self.chosen.lr * factor
        beta1 = beta1 or self.chosen.betas[0]
        self.steps += 1
        dense = []
        for number, parameter in enumerate(self.parameters):
            if parameter.grad is None:
                continue
            due = self.due[number] * (1 - lr * self.chosen.weight_decay)
            kept = 1.0 if due > 1 - LEAST else float(np.float32(due))
            self.due[number] = due / kept
            if number in self.rows:
                self.rows[number].step(parameter.grad, lr, beta1, kept)
                continue
            if kept < 1:
                parameter.mul_(kept)
            # The kernel reads memory in order, whatever a tensor's strides say.
            dense.append((parameter, parameter.grad.contiguous(), *self.moments[number]))
        if not dense:
            return
        parameters, gradients, first, second, counts = map(list, zip(*dense, strict=True))
        torch._foreach_add_(counts, 1.0)
        # `torch.optim` takes a second to import, and would write whole vocabularies.
        torch._fused_adamw_(
            *(parameters, gradients, first, second, [], counts),
            lr=lr,
            beta1=beta1,
            beta2=self.chosen.betas[1],
            weight_decay=0.0,
            eps=self.chosen.eps,
            amsgrad=False,
            maximize=False,
        )
        # The fused kernel does not; copies in bf16 are made anew when a weight's version is.
        torch.autograd.graph.increment_version(parameters)

    def flush(self) -> None:
        """Update all rows of embeddings that have missed steps."""
        for rows in self.rows.values():
            rows.flush()


WINDOW = 512
"""Steps after which a moment without new gradients counts as zero: 0.95 ** 512 is 4e-12."""


class DeferredRows(Part):
    """AdamW on an embedding with sparse gradients: a row is updated when it is looked up again.

    One update, just before a forward pass in training reads the row, makes up for all steps that it
    has missed. `first`, `second` [V, H] are a row's moments at the last step that it has been
    updated for, `updated` [V], int64; 0 for initial weights.

    In AdamW a row without a gradient still moves, by its decaying first moment. With m and v the
    row's moments at step s, its last one, and k_j what decay leaves of a weight at step j, the
    steps s+1..t move it by

        sum_j  lr_j / (1 - b1^j) * (b1^(j-s) m) / (sqrt(b2^(j-s) v / (1 - b2^j)) + eps)

    (each term times k_{j+1} ... k_t) and decay it. With u_j = sqrt((1 - b2^j) / b2^(j-s)),
    a_j = lr_j b1^(j-s) / (1 - b1^j) and the sums A = sum_j a_j u_j, B = sum_j a_j u_j^2, this is

        A m / (sqrt(v) + eps B / A)

    up to terms in the square of eps u_j / sqrt(v), times the spread of the u_j. So four numbers for
    each s are enough, however many steps a row has missed: the columns of `missed` [4, t + 1] are

        b1^(t-s), or the product of the b1 over the steps since s if they differ;
        A and B, each term divided by what decay left of a weight from the start to its step;
        what decay left of a weight from the start to s.
    """

    kept = ("first", "second", "updated", "missed")

    def __init__(self, embedding: Embedding, chosen: Optimiser) -> None:
        embedding.sparse = True
        embedding.register_forward_pre_hook(self._before_lookup)
        self.weight, self.chosen = embedding.weight, chosen
        self.first = torch.zeros_like(self.weight)
        self.second = torch.zeros_like(self.weight)
        self.updated = torch.zeros(len(self.weight), dtype=torch.int64)
        self.missed = torch.tensor([[1.0], [0.0], [0.0], [1.0]], dtype=torch.float64)

    @property
    def time(self) -> int:
        """The number t of steps so far."""
        return self.missed.shape[1] - 1

    def step(self, gradient: Tensor, lr: float, beta1: float, kept: float) -> None:
        """Update rows by a sparse `gradient` [V, H]; `kept` is what decay leaves of all rows."""
        gradient = gradient.coalesce()
        rows, values = gradient.indices()[0], gradient.values()
        time, beta2 = self.time + 1, self.chosen.betas[1]
        rate, correction2 = lr / (1 - beta1**time), 1 - beta2**time
        first = self.first[rows].lerp_(values, 1 - beta1)
        second = self.second[rows].mul_(beta2).addcmul_(values, values, value=1 - beta2)
        self.first[rows], self.second[rows], self.updated[rows] = first, second, time
        divisor = second.div_(correction2).sqrt_().add_(self.chosen.eps)
        self.weight[rows] = self.weight[rows].mul_(kept).addcdiv_(first, divisor, value=-rate)
        # The other rows have missed this step.
        left = self.missed[3, -1].item() * kept
        fade, a, b, _ = self.missed[:, -WINDOW:].numpy()
        fade *= beta1
        change = rate * fade / left
        squared = correction2 / beta2 ** np.arange(len(fade), 0, -1)  # u_j^2
        a += change * np.sqrt(squared)
        b += change * squared
        now = torch.tensor([[1.0], [0.0], [0.0], [left]], dtype=torch.float64)
        self.missed = torch.cat([self.missed, now], 1)

    @torch.no_grad()
    def _before_lookup(self, embedding: Module, given: tuple[Tensor]) -> None:
        if embedding.training:
            self._catch_up(given[0].unique())

    @torch.no_grad()
    def flush(self) -> None:
        """Update all rows but those that never moved and do not decay."""
        first = 0 if self.chosen.weight_decay else 1
        self._catch_up((self.updated >= first).nonzero()[:, 0])

    def _catch_up(self, rows: Tensor) -> None:
        """Make up for the steps that `rows` [n], all different, have missed."""
        rows = rows[self.updated[rows] < self.time]
        if not len(rows):
            return
        since = self.updated[rows]
        (fade, a, b, before), left = self.missed[:, since, None], self.missed[3, -1]
        fade2 = self.chosen.betas[1] ** (self.time - since[:, None]).double()
        # With a rate of 0 nothing has moved: A = B = 0.
        floor = self.chosen.eps * torch.where(a > 0, b / a, 1.0)
        first, second = self.first[rows], self.second[rows]
        moved = (first * (a * left).float()).div_(second.sqrt().add_(floor.float()))
        self.weight[rows] = self.weight[rows].mul_((left / before).float()).sub_(moved)
        self.first[rows] = first.mul_(fade.float())
        self.second[rows] = second.mul_(fade2.float())
        self.updated[rows] = self.time
