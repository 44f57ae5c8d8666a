"""Nash-MTL of torchjd."""

import warnings

import torch
from torch import Tensor

from minbert.train.surgery.torchjd import TorchJD


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
