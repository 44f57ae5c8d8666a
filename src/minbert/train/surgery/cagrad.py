"""CAGrad of torchjd, which has no default for c."""

from functools import partial

from minbert.train.surgery.torchjd import TorchJD

cagrad = partial(TorchJD, "CAGrad", c=0.4)
