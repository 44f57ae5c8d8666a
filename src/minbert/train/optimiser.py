"""AdamW (Loshchilov and Hutter, 2019) that updates rows of embeddings only when they are used.

Not `torch.optim`'s: importing that costs a job more than a second, and it would write every row
of a vocabulary at every step, although a batch looks up only a few hundred.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Embedding, Parameter

from minbert.spec.stage import Optimiser
from minbert.train.schedules import Schedule

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
    `DeferredRows`: call `flush` before weights are used for anything but training.
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
        numbers = {id(parameter): number for number, parameter in enumerate(self.parameters)}
        self.rows = {
            numbers[id(each.weight)]: DeferredRows(each, chosen)
            for each in embeddings
            if id(each.weight) in numbers
        }
        # By the number of a parameter: first and second moment, and the count of its steps.
        self._moments: dict[int, tuple[Tensor, Tensor, Tensor]] = {}

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        factor, beta1 = self.schedule(self.steps)
        lr = self.chosen.lr * factor
        beta1 = self.chosen.betas[0] if beta1 is None else beta1
        self.steps += 1
        dense: list[int] = []
        decayed: list[tuple[Tensor, float]] = []
        for number, parameter in enumerate(self.parameters):
            if parameter.grad is None:
                continue
            kept = self.decays[number](lr)
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

    def _step_dense(self, numbers: list[int], lr: float, beta1: float) -> None:
        """Move the parameters of these numbers by torch's fused kernel."""
        parameters: list[Tensor] = [self.parameters[number] for number in numbers]
        gradients = [p.grad for p in parameters if p.grad is not None]
        first, second, counts = map(list, zip(*map(self._moments_of, numbers), strict=True))
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
            beta2=self.chosen.betas[1],
            weight_decay=0.0,
            eps=self.chosen.eps,
            amsgrad=False,
            maximize=False,
        )
        # The fused kernel does not; copies in bf16 are made anew when a weight's version is.
        torch.autograd.graph.increment_version(parameters)

    def _moments_of(self, number: int) -> tuple[Tensor, Tensor, Tensor]:
        if number not in self._moments:
            weight = self.parameters[number].detach()
            count = torch.zeros((), device=weight.device)
            self._moments[number] = (torch.zeros_like(weight), torch.zeros_like(weight), count)
        return self._moments[number]

    def flush(self) -> None:
        """Update all rows of embeddings that are behind."""
        for rows in self.rows.values():
            rows.flush()

    def state_dict(self) -> dict[str, Any]:
        names = ("first", "second", "count")
        return {
            "steps": self.steps,
            "decay": [decay.gathered for decay in self.decays],
            "moments": {
                f"{number}": dict(zip(names, moments, strict=True))
                for number, moments in self._moments.items()
            },
            "rows": {f"{number}": rows.state_dict() for number, rows in self.rows.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.steps = state["steps"]
        for decay, gathered in zip(self.decays, state["decay"], strict=True):
            decay.gathered = gathered
        for name, moments in state["moments"].items():
            device = self.parameters[int(name)].device
            first, second, count = (tensor.to(device) for tensor in moments.values())
            self._moments[int(name)] = (first, second, count)
        for name, rows in state["rows"].items():
            self.rows[int(name)].load_state_dict(rows)


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
    each s are enough, however many steps a row has missed. Each array has one entry per s, from 0.
    """

    def __init__(self) -> None:
        self.time = 0  # t
        self.fade = np.ones(1)  # the product of b1 over the steps since s
        self.a = np.zeros(1)  # A and B, each term divided by what decay left from the start
        self.b = np.zeros(1)
        self.left = np.ones(1)  # what decay left of a weight from the start to s

    def add(self, rate: float, beta1: float, beta2: float, correction2: float, kept: float) -> None:
        """Add step t + 1, with lr / (1 - b1^j) = `rate` and 1 - b2^j = `correction2`.

        `kept` is what its decay leaves of a weight.
        """
        self.time += 1
        start = max(0, self.time - WINDOW)
        recent = slice(start, self.time)
        left = self.left[-1] * kept
        self.fade[recent] *= beta1
        a = rate * self.fade[recent] / left
        squared = correction2 / beta2 ** (self.time - np.arange(start, self.time))  # u_j^2
        self.a[recent] += a * np.sqrt(squared)
        self.b[recent] += a * squared
        self.fade, self.left = np.append(self.fade, 1.0), np.append(self.left, left)
        self.a, self.b = np.append(self.a, 0.0), np.append(self.b, 0.0)

    def state_dict(self) -> dict[str, Tensor]:
        return {name: torch.from_numpy(getattr(self, name)) for name in ("fade", "a", "b", "left")}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        for name, values in state.items():
            setattr(self, name, values.numpy())
        self.time = len(self.left) - 1


class DeferredRows:
    """AdamW on an embedding with sparse gradients: a row is updated when it is looked up again.

    One update, just before a forward pass reads the row, makes up for all `MissedSteps`.
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
        behind = self.updated < self.missed.time
        if not self.weight_decay:
            behind &= self.updated > 0
        self._catch_up(behind.nonzero()[:, 0])

    def _catch_up(self, rows: Tensor) -> None:
        """Make up for the steps that `rows` [n], all different, have missed."""
        missed, updated = self.missed, self.updated[rows]
        late = updated < missed.time
        rows, since = rows[late], updated[late].numpy()
        if not len(rows):
            return

        def column(values: np.ndarray) -> Tensor:
            return torch.from_numpy(values.astype(np.float32))[:, None]

        a, b = missed.a[since], missed.b[since]
        # With a rate of 0 nothing has moved: A = B = 0.
        floor = self.eps * np.divide(b, a, out=np.ones_like(a), where=a > 0)
        first, second = self.first[rows], self.second[rows]
        divisor = second.sqrt().add_(column(floor))
        moved = (first * column(a * missed.left[-1])).div_(divisor)
        weight = self.weight[rows]
        if self.weight_decay:
            weight *= column(missed.left[-1] / missed.left[since])
        self.weight[rows] = weight.sub_(moved)
        self.first[rows] = first.mul_(column(missed.fade[since]))
        self.second[rows] = second.mul_(column(self.beta2 ** (missed.time - since)))
        self.updated[rows] = missed.time

    def state_dict(self) -> dict[str, Any]:
        rows = {"first": self.first, "second": self.second, "updated": self.updated}
        return {**rows, "missed": self.missed.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.first, self.second, self.updated = (state[n] for n in ("first", "second", "updated"))
        self.missed.load_state_dict(state["missed"])
