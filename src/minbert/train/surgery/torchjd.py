"""Aggregators of torchjd (optional) that work on a Gramian (Quinton and Rey, 2024), by one adapter.

They compute on the CPU in double precision, with torchjd's defaults; CAGrad's c has none: 0.4.
"""

import warnings
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from minbert.base.errors import UserError
from minbert.train.surgery import Method


class TorchJD(Method):
    """torchjd's aggregator `name` with its `settings`. Raises `UserError` if it is missing."""

    def __init__(self, name: str, tasks: int, **settings: Any) -> None:
        super().__init__(tasks)
        try:
            made = getattr(import_module("torchjd.aggregation"), name)(**settings)
        except ImportError as error:
            raise UserError(
                f"surgery by {name} needs torchjd 0.18 and its solvers ({error}): "
                "pip install -c requirements.lock -e '.[methods]', or choose 'surgery: pcgrad'"
            ) from error
        # What finds the weights: from a Gramian, if there is such a thing.
        self.weighting: Any = getattr(made, "gramian_weighting", None) or made.weighting

    def __call__(self, gramian: Tensor, generator: torch.Generator) -> Tensor:
        """Return weights [n]; all NaN if `gramian` is not finite, so that the loop can say why."""
        known = gramian.detach().to("cpu", torch.float64)
        if not known.isfinite().all():
            return torch.full_like(gramian.diagonal(), torch.nan)
        return self.weighting(known).to(gramian)


class NashMTL(TorchJD):
    """Nash-MTL on a Gramian, by the steps that torchjd makes on a Jacobian.

    Given a root of the Gramian it gives weights that are up to 1e-4 away: where its solver stops
    depends on rounding. It starts from `alpha` [n], the step before's solution.
    """

    kept = ("alpha",)

    def __init__(self, tasks: int) -> None:
        super().__init__("NashMTL", tasks, n_tasks=tasks)
        self.solver, self.weighting = self.weighting, self.weigh
        self.solver._init_optim_problem()
        self.alpha = torch.ones(tasks)

    def weigh(self, gramian: Tensor) -> Tensor:
        """Return weights [n] for `gramian` [n, n] (CPU, double)."""
        solver, norm = self.solver, torch.linalg.norm(gramian)
        solver.normalization_factor = norm.reshape(1).numpy()
        solver.prvs_alpha = self.alpha.numpy()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="You are solving a parameterized problem")
            self.alpha = torch.from_numpy(solver._solve_optimization((gramian / norm).numpy()))
        weights = self.alpha.to(gramian)
        length = (weights @ gramian @ weights).clamp(min=0).sqrt()
        return weights / length * solver.max_norm if length > solver.max_norm else weights


cagrad = partial(TorchJD, "CAGrad", c=0.4)
nash_mtl = NashMTL
upgrad = partial(TorchJD, "UPGrad")
