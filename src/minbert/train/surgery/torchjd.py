"""The aggregators of torchjd that work on a Gramian (Quinton and Rey, 2024), by one adapter.

torchjd is an optional dependency. Its weights are computed on the CPU in double precision. Random
draws come from the generator that a step's surgery is given, not from torch's default one.

`sum`, `mean`: the plain sum of the gradients, and their mean. Multiplied by the tasks' `weight`,
which their gradients contain, `sum` is torchjd's `Constant`. Settings have torchjd's defaults. It
leaves CAGrad's c and FairGrad's alpha open: 0.4 and 2 here. PCD's primary task is the first.
"""

import warnings
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from minbert.base.errors import UserError
from minbert.train.surgery import Method

_PLAIN = ("prvs_alpha", "normalization_factor", "step")
"""What Nash-MTL remembers; other methods have buffers."""


class TorchJD(Method):
    """torchjd's aggregator `name` with its `settings`. Raises `UserError` if it is missing."""

    def __init__(self, name: str, tasks: int, **settings: Any) -> None:
        super().__init__(tasks)
        try:
            aggregator = getattr(import_module("torchjd.aggregation"), name)
            made = aggregator(**settings)
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
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(generator.get_state())
            weights = self.weigh(known)
            generator.set_state(torch.get_rng_state())
        return weights.to(gramian)

    def weigh(self, gramian: Tensor) -> Tensor:
        """Return weights [n] for `gramian` [n, n] (CPU, double)."""
        found: Tensor = self.weighting(gramian)
        return found

    def state_dict(self) -> dict[str, Any]:
        kept = {n: torch.as_tensor(v) for n, v in vars(self.weighting).items() if n in _PLAIN}
        return kept | dict(self.weighting.state_dict())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if not state:
            return
        # A first call makes what the state is kept in.
        self(torch.eye(self.tasks), torch.Generator())
        for name in vars(self.weighting).keys() & set(_PLAIN):
            setattr(self.weighting, name, state.pop(name).numpy().copy())
        self.weighting.load_state_dict(state)


class Nash(TorchJD):
    """Nash-MTL, for which torchjd has only what takes a Jacobian: the same steps on its Gramian.

    Given a root of the Gramian instead, it gives weights that are up to 1e-4 away: where its
    solver stops depends on rounding.
    """

    def __init__(self, tasks: int) -> None:
        super().__init__("NashMTL", tasks, n_tasks=tasks)

    def weigh(self, gramian: Tensor) -> Tensor:
        solver = self.weighting
        if not solver.step:
            solver._init_optim_problem()
        solver.step += 1
        norm = torch.linalg.norm(gramian)
        solver.normalization_factor = norm.reshape(1).numpy()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="You are solving a parameterized problem")
            solved = solver._solve_optimization((gramian / norm.item()).numpy())
        weights = torch.from_numpy(solved).to(gramian)
        length = (weights @ gramian @ weights).clamp(min=0).sqrt()
        return weights / length * solver.max_norm if length > solver.max_norm else weights


aligned_mtl = partial(TorchJD, "AlignedMTL")
cagrad = partial(TorchJD, "CAGrad", c=0.4)
dualproj = partial(TorchJD, "DualProj")
fairgrad = partial(TorchJD, "FairGrad", alpha=2.0)
gradvac = partial(TorchJD, "GradVac")
imtl_g = partial(TorchJD, "IMTLG")
krum = partial(TorchJD, "Krum", n_byzantine=0)
mean = partial(TorchJD, "Mean")
mgda = partial(TorchJD, "MGDA")
nash_mtl = Nash
pcd = partial(TorchJD, "PCD")
random = partial(TorchJD, "Random")
sum_of_all = partial(TorchJD, "Sum")
upgrad = partial(TorchJD, "UPGrad")
