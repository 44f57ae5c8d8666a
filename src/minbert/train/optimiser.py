"""AdamW (Loshchilov and Hutter, 2019) that updates rows of embeddings only when they are used.

Not `torch.optim`'s: importing that costs a job more than a second, and it would write every row
of a vocabulary at every step, although a batch looks up only a few hundred.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Embedding, Parameter

from minbert.spec.stage import Optimiser
from minbert.train.checkpoints import Part
from minbert.train.schedules import Schedule

LEAST = 1e-6
"""The smallest decay that weights are multiplied by: some 10 of fp32's units in the last place."""


class AdamW(Part):
    """AdamW on `parameters`: rate, betas, eps and weight decay are `chosen`, as in algorithm 2.

    The rate is multiplied by what `schedule` returns for the number of the step.
    A parameter without a gradient is neither moved nor decayed, and its own step count stays. The
    `embeddings` among the parameters are updated by `DeferredRows`: call `flush` before weights are
    used for anything but training.

    Decay is gathered by parameter until fp32 can hold it. A step's factor 1 - lr * weight_decay is
    1 in fp32 if lr * weight_decay is below 3e-8: applied at each step, a decay of 1e-3 at a rate of
    1e-5 does nothing, however many the steps.
    """

    def __init__(
        self,
        parameters: Iterable[Parameter],
        chosen: Optimiser,
        schedule: Schedule,
        embeddings: Iterable[Embedding] = (),
    ) -> None:
        self.chosen = chosen
        self.schedule = schedule
        self.steps = 0
        self.parameters = list(parameters)
        self.due = [1.0] * len(self.parameters)  # by what decay weights are still to be multiplied
        numbers = {id(parameter): number for number, parameter in enumerate(self.parameters)}
        self.rows = {
            numbers[id(each.weight)]: DeferredRows(each, chosen)
            for each in embeddings
            if id(each.weight) in numbers
        }
        # Of the others, by number: first and second moment, and the count of steps.
        self.moments = {
            number: [torch.zeros_like(of), torch.zeros_like(of), torch.zeros((), device=of.device)]
            for number, of in enumerate(self.parameters)
            if number not in self.rows
        }

    def zero_grad(self) -> None:
        """Let no parameter have a gradient."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Move each parameter by its `grad`, which is sparse for an embedding's rows."""
        factor, beta1 = self.schedule(self.steps)
        lr = self.chosen.lr * factor
        beta1 = self.chosen.betas[0] if beta1 is None else beta1
        self.steps += 1
        dense: list[int] = []
        decayed: list[tuple[Tensor, float]] = []
        for number, parameter in enumerate(self.parameters):
            if parameter.grad is None:
                continue
            kept = self._decay(number, lr)
            if parameter.grad.is_sparse:
                self.rows[number].step(parameter.grad, lr, beta1, kept)
                continue
            dense.append(number)
            if kept < 1:
                decayed.append((parameter, kept))
        if decayed:
            torch._foreach_mul_(*map(list, zip(*decayed, strict=True)))
        if dense:
            self._step_dense(dense, lr, beta1)

    def _decay(self, number: int, lr: float) -> float:
        """Return what a step's decay leaves of a parameter: all, until `LEAST` is due."""
        due = self.due[number] * (1 - lr * self.chosen.weight_decay)
        kept = 1.0 if due > 1 - LEAST else float(np.float32(due))
        self.due[number] = due / kept
        return kept

    def _step_dense(self, numbers: list[int], lr: float, beta1: float) -> None:
        """Move the parameters of these numbers by torch's fused kernel."""
        parameters: list[Tensor] = [self.parameters[number] for number in numbers]
        moments = zip(*(self.moments[number] for number in numbers), strict=True)
        first, second, counts = map(list, moments)
        torch._foreach_add_(counts, 1.0)
        torch._fused_adamw_(
            parameters,
            # The kernel reads memory in order, whatever a tensor's strides say.
            [p.grad.contiguous() for p in parameters if p.grad is not None],
            first,
            second,
            [],
            counts,
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

    def state_dict(self) -> dict[str, Any]:
        rows = {number: of.state() for number, of in self.rows.items()}
        return {"steps": self.steps, "due": self.due, "moments": self.moments, "rows": rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps, self.due = state["steps"], state["due"]
        for number, moments in state["moments"].items():
            device = self.parameters[number].device
            self.moments[number] = [tensor.to(device) for tensor in moments]
        for number, of in state["rows"].items():
            self.rows[number].load_state(of)


WINDOW = 512
"""Steps after which a moment without new gradients counts as zero: 0.95 ** 512 is 4e-12."""


class MissedSteps:
    """What the steps s+1..t do to a row that was last updated at step s, for every s up to now, t.

    In AdamW a row without a gradient still moves, by its decaying first moment. With m and v the
    row's moments at s, and k_j what decay leaves of a weight at step j, the steps move it by

        sum_j  lr_j / (1 - b1^j) * (b1^(j-s) m) / (sqrt(b2^(j-s) v / (1 - b2^j)) + eps)

    (each term times k_{j+1} ... k_t) and decay it. With u_j = sqrt((1 - b2^j) / b2^(j-s)),
    a_j = lr_j b1^(j-s) / (1 - b1^j) and the sums A = sum_j a_j u_j, B = sum_j a_j u_j^2, this is

        A m / (sqrt(v) + eps B / A)

    up to terms in the square of eps u_j / sqrt(v), times the spread of the u_j. So four numbers for
    each s are enough, however many steps a row has missed: the columns of `table` [4, t + 1] are

        b1^(t-s), or the product of the b1 over the steps since s if they differ;
        A and B, each term divided by what decay left of a weight from the start to its step;
        what decay left of a weight from the start to s.
    """

    def __init__(self) -> None:
        self.table = np.array([[1.0], [0.0], [0.0], [1.0]])

    @property
    def time(self) -> int:
        """The number t of steps so far."""
        return self.table.shape[1] - 1

    def add(self, rate: float, beta1: float, beta2: float, correction2: float, kept: float) -> None:
        """Add step j = t + 1, with lr / (1 - b1^j) = `rate` and 1 - b2^j = `correction2`.

        `kept` is what its decay leaves of a weight.
        """
        left = self.table[3, -1] * kept
        fade, a, b, _ = self.table[:, -WINDOW:]
        fade *= beta1
        change = rate * fade / left
        squared = correction2 / beta2 ** np.arange(len(fade), 0, -1)  # u_j^2
        a += change * np.sqrt(squared)
        b += change * squared
        self.table = np.append(self.table, [[1.0], [0.0], [0.0], [left]], axis=1)


class DeferredRows:
    """AdamW on an embedding with sparse gradients: a row is updated when it is looked up again.

    One update, just before a forward pass in training reads the row, makes up for all
    `MissedSteps`. `first`, `second` [V, H] are a row's moments at the last step that it has been
    updated for, `updated` [V], int64; 0 for initial weights.
    """

    def __init__(self, embedding: Embedding, chosen: Optimiser) -> None:
        embedding.sparse = True
        embedding.register_forward_pre_hook(lambda _, given: self._before_lookup(given[0]))
        self.embedding = embedding
        self.weight = embedding.weight
        self.beta2, self.eps = chosen.betas[1], chosen.eps
        self.weight_decay = chosen.weight_decay
        self.first = torch.zeros_like(self.weight)
        self.second = torch.zeros_like(self.weight)
        self.updated = torch.zeros(len(self.weight), dtype=torch.int64)
        self.missed = MissedSteps()

    def step(self, gradient: Tensor, lr: float, beta1: float, kept: float) -> None:
        """Update the rows of the sparse `gradient` [V, H], which the forward pass looked up.

        `kept` is what decay leaves of all rows.
        """
        gradient = gradient.coalesce()
        rows, values = gradient.indices()[0], gradient.values()
        time = self.missed.time + 1
        correction1, correction2 = 1 - beta1**time, 1 - self.beta2**time
        first = self.first[rows].lerp_(values, 1 - beta1)
        second = self.second[rows].mul_(self.beta2).addcmul_(values, values, value=1 - self.beta2)
        self.first[rows], self.second[rows] = first, second
        divisor = second.div_(correction2).sqrt_().add_(self.eps)
        weight = self.weight[rows].mul_(kept)
        self.weight[rows] = weight.addcdiv_(first, divisor, value=-lr / correction1)
        self.updated[rows] = time
        self.missed.add(lr / correction1, beta1, self.beta2, correction2, kept)

    @torch.no_grad()
    def _before_lookup(self, tokens: Tensor) -> None:
        if self.embedding.training and self.missed.time:
            self._catch_up(tokens.unique())

    @torch.no_grad()
    def flush(self) -> None:
        """Update all rows but those that never moved and do not decay."""
        first = 0 if self.weight_decay else 1
        self._catch_up((self.updated >= first).nonzero()[:, 0])

    def _catch_up(self, rows: Tensor) -> None:
        """Make up for the steps that `rows` [n], all different, have missed."""
        time = self.missed.time
        rows = rows[self.updated[rows] < time]
        if not len(rows):
            return
        since = self.updated[rows].numpy()
        fade, a, b, before = self.missed.table[:, since]
        left = self.missed.table[3, -1]

        def column(values: np.ndarray) -> Tensor:
            return torch.from_numpy(values.astype(np.float32))[:, None]

        # With a rate of 0 nothing has moved: A = B = 0.
        floor = self.eps * np.divide(b, a, out=np.ones_like(a), where=a > 0)
        first, second = self.first[rows], self.second[rows]
        divisor = second.sqrt().add_(column(floor))
        moved = (first * column(a * left)).div_(divisor)
        weight = self.weight[rows]
        if self.weight_decay:
            weight *= column(left / before)
        self.weight[rows] = weight.sub_(moved)
        self.first[rows] = first.mul_(column(fade))
        self.second[rows] = second.mul_(column(self.beta2 ** (time - since)))
        self.updated[rows] = time

    def state(self) -> tuple[Tensor, ...]:
        """Return what the rows need to go on, as the optimiser's `state_dict` holds it."""
        return self.first, self.second, self.updated, torch.from_numpy(self.missed.table)

    def load_state(self, state: tuple[Tensor, ...]) -> None:
        """Take over what `state` returned."""
        self.first, self.second, self.updated, table = state
        self.missed.table = table.numpy()
