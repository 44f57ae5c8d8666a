"""AdamW (Loshchilov and Hutter, 2019) that updates rows of embeddings only when they are used.

Not `torch.optim`'s: importing that costs a job more than a second, and it would write every row
of a vocabulary at every step, although a batch looks up only a few hundred.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn import Embedding, Parameter

from minbert.spec.stage import Optimiser
from minbert.train.schedules import Schedule

_KEPT = ("first", "second", "count")  # of each parameter, in a state

LEAST = 1e-6
"""The smallest decay that weights are multiplied by: some 10 of fp32's units in the last place."""


class Decay:
    """A parameter's weight decay, gathered until fp32 can hold it.

    A step's factor 1 - lr * weight_decay is 1 in fp32 if lr * weight_decay is below 3e-8: applied
    at each step, a decay of 1e-3 at a rate of 1e-5 does nothing, however many the steps.
    """

    def __init__(self, weight_decay: float) -> None:
        self.weight_decay = weight_decay
        self.gathered = 1.0

    def __call__(self, lr: float) -> float:
        """Return the factor of a step: 1, until the decay since the last other one is `LEAST`."""
        self.gathered *= 1 - lr * self.weight_decay
        if self.gathered > 1 - LEAST:
            return 1.0
        due = float(np.float32(self.gathered))
        self.gathered /= due
        return due


class AdamW:
    """AdamW on `parameters`, at the rates of `schedule`.

    A parameter without a gradient is neither moved nor decayed, and its own step count stays. The
    others decay as `Decay` says. The `embeddings` among the parameters are updated by
    `DeferredRows`: call `settle` before weights are used for anything but training.
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
        self.decays = [Decay(chosen.weight_decay) for _ in self.parameters]
        there = {id(p) for p in self.parameters}
        self.rows = {
            id(e.weight): DeferredRows(e, chosen) for e in embeddings if id(e.weight) in there
        }
        self._kept: dict[int, tuple[Tensor, ...]] = {}

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        chosen = self.chosen
        factor, beta1 = self.schedule(self.steps)
        lr, beta1 = chosen.lr * factor, chosen.betas[0] if beta1 is None else beta1
        self.steps += 1
        moved = []
        decayed: list[tuple[Tensor, float]] = []
        for number, parameter in enumerate(self.parameters):
            if parameter.grad is None:
                continue
            kept = self.decays[number](lr)
            if parameter.grad.is_sparse:
                self.rows[id(parameter)].step(parameter.grad, lr, beta1, kept)
                continue
            moved.append((parameter, parameter.grad, *self._moments(number)))
            if kept < 1:
                decayed.append((parameter, kept))
        if not moved:
            return
        if decayed:
            torch._foreach_mul_(*map(list, zip(*decayed, strict=True)))
        parameters, gradients, first, second, counts = map(list, zip(*moved, strict=True))
        torch._foreach_add_(counts, 1.0)
        torch._fused_adamw_(
            parameters,
            gradients,
            first,
            second,
            [],
            counts,
            lr=lr,
            beta1=beta1,
            beta2=chosen.betas[1],
            weight_decay=0.0,
            eps=chosen.eps,
            amsgrad=False,
            maximize=False,
        )
        # The fused kernel does not; copies in bf16 are made anew when a weight's version is.
        torch.autograd.graph.increment_version(parameters)

    def _moments(self, number: int) -> tuple[Tensor, ...]:
        """Return a parameter's first and second moment and its step count, at first all zero."""
        if number not in self._kept:
            weight = self.parameters[number].detach()
            count = torch.zeros((), device=weight.device)
            self._kept[number] = (torch.zeros_like(weight), torch.zeros_like(weight), count)
        return self._kept[number]

    def settle(self) -> None:
        for rows in self.rows.values():
            rows.settle()

    def state(self) -> dict[str, Tensor]:
        gathered = [decay.gathered for decay in self.decays]
        state = {
            "steps": torch.tensor(self.steps),
            "decay": torch.tensor(gathered, dtype=torch.float64),
        }
        for number, kept in self._kept.items():
            state |= {f"{number}.{name}": t for name, t in zip(_KEPT, kept, strict=True)}
        for number, parameter in enumerate(self.parameters):
            if rows := self.rows.get(id(parameter)):
                state |= {f"{number}.rows.{name}": t for name, t in rows.state().items()}
        return state

    def load(self, state: Mapping[str, Tensor]) -> None:
        self.steps = int(state["steps"])
        for decay, gathered in zip(self.decays, state["decay"].tolist(), strict=True):
            decay.gathered = gathered
        for number, parameter in enumerate(self.parameters):
            if f"{number}.count" in state:
                for name, kept in zip(_KEPT, self._moments(number), strict=True):
                    kept.copy_(state[f"{number}.{name}"])
            if rows := self.rows.get(id(parameter)):
                rows.load({name: state[f"{number}.rows.{name}"] for name in rows.state()})


WINDOW = 512
"""Steps after which a moment without new gradients counts as zero: 0.95 ** 512 is 4e-12."""


class DeferredRows:
    """AdamW on an embedding with sparse gradients: a row is updated when it is looked up again.

    In AdamW a row without a gradient still moves, by its decaying first moment. With m and v the
    row's moments at its last update s, steps s+1..t move it by

        sum_j  lr_j / (1 - b1^j) * (b1^(j-s) m) / (sqrt(b2^(j-s) v / (1 - b2^j)) + eps)

    and decay it. With u_j = sqrt((1 - b2^j) / b2^(j-s)), a_j = lr_j b1^(j-s) / (1 - b1^j) and the
    sums A = sum_j a_j u_j, B = sum_j a_j u_j^2, kept for every s, this is

        A m / (sqrt(v) + eps B / A)

    up to terms in the square of eps u_j / sqrt(v), times the spread of the u_j. So one update makes
    up for all missed steps, just before a forward pass reads the row.
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
        # The last step that each row has been updated for, [V]; 0 for initial weights.
        self.updated = torch.zeros(len(self.weight), dtype=torch.int64)
        self.time = 0
        # By the step s of a row's last update: the product of beta 1 over the steps since, and A
        # and B. `_kept` is the product of what decay left from the start to s; the terms of A and B
        # are divided by that of their step.
        self._fade, self._kept = np.ones(1), np.ones(1)
        self._a, self._b = np.zeros(1), np.zeros(1)

    def step(self, gradient: Tensor, lr: float, beta1: float, kept: float) -> None:
        """Update the rows of the sparse `gradient` [V, H], which the forward pass looked up.

        `kept` is what decay leaves of all rows.
        """
        gradient = gradient.coalesce()
        rows, values = gradient.indices()[0], gradient.values()
        self.time += 1
        correction1, correction2 = 1 - beta1**self.time, 1 - self.beta2**self.time
        first = self.first[rows].lerp_(values, 1 - beta1)
        second = self.second[rows].mul_(self.beta2).addcmul_(values, values, value=1 - self.beta2)
        self.first[rows], self.second[rows] = first, second
        divisor = second.div_(correction2).sqrt_().add_(self.eps)
        weight = self.weight[rows].mul_(kept)
        self.weight[rows] = weight.addcdiv_(first, divisor, value=-lr / correction1)
        self.updated[rows] = self.time
        self._extend(lr / correction1, beta1, correction2, kept)

    def _extend(self, rate: float, beta1: float, correction2: float, kept: float) -> None:
        """Add this step to the sums of all earlier s, and start those of this one."""
        start = max(0, self.time - WINDOW)
        recent = slice(start, self.time)
        self._kept = np.append(self._kept, self._kept[-1] * kept)
        self._fade[recent] *= beta1
        added = rate * self._fade[recent] / self._kept[-1]
        passed = self.time - np.arange(start, self.time)
        squared = correction2 / self.beta2**passed
        self._a[recent] += added * np.sqrt(squared)
        self._b[recent] += added * squared
        self._fade = np.append(self._fade, 1.0)
        self._a, self._b = np.append(self._a, 0.0), np.append(self._b, 0.0)

    @torch.no_grad()
    def _before_lookup(self, tokens: Tensor) -> None:
        if self.embedding.training and self.time:
            self._bring(tokens.unique())

    @torch.no_grad()
    def settle(self) -> None:
        behind = self.updated < self.time
        if not self.weight_decay:
            behind &= self.updated > 0
        self._bring(behind.nonzero()[:, 0])

    def _bring(self, rows: Tensor) -> None:
        """Make up for the steps that `rows` [n], all different, have missed."""
        updated = self.updated[rows]
        late = updated < self.time
        rows, since = rows[late], updated[late].numpy()
        if not len(rows):
            return

        def column(values: np.ndarray) -> Tensor:
            return torch.from_numpy(values.astype(np.float32))[:, None]

        a, b = self._a[since], self._b[since]
        first, second = self.first[rows], self.second[rows]
        # With a rate of 0 nothing has moved: A = B = 0.
        floor = self.eps * np.divide(b, a, out=np.ones_like(a), where=a > 0)
        divisor = second.sqrt().add_(column(floor))
        moved = (first * column(a * self._kept[-1])).div_(divisor)
        weight = self.weight[rows]
        if self.weight_decay:
            weight *= column(self._kept[-1] / self._kept[since])
        self.weight[rows] = weight.sub_(moved)
        self.first[rows] = first.mul_(column(self._fade[since]))
        self.second[rows] = second.mul_(column(self.beta2 ** (self.time - since)))
        self.updated[rows] = self.time

    def state(self) -> dict[str, Tensor]:
        rows = {"first": self.first, "second": self.second, "updated": self.updated}
        sums = np.stack([self._fade, self._a, self._b, self._kept])
        return rows | {"sums": torch.from_numpy(sums)}

    def load(self, state: Mapping[str, Tensor]) -> None:
        self.first.copy_(state["first"])
        self.second.copy_(state["second"])
        self.updated.copy_(state["updated"])
        self._fade, self._a, self._b, self._kept = state["sums"].numpy().copy()
        self.time = len(self._kept) - 1
