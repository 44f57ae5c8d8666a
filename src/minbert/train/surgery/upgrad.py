"""UPGrad of torchjd."""

from functools import partial

from minbert.train.surgery.torchjd import TorchJD

upgrad = partial(TorchJD, "UPGrad")
