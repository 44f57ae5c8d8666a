"""A convolution over a task's token outputs (Kim, 2014; minibert-unleashed, section 4.5)."""

from typing import cast

from torch import Tensor, nn

from minbert.model.packed import Packed
from minbert.spec.task import Convolution


class TokenConvolution(nn.Module):
    """ReLU of a 1-D convolution, [T, H] to [T, H], centred on each token; added if `residual`."""

    def __init__(self, hidden: int, convolution: Convolution) -> None:
        super().__init__()
        self.kernel = convolution.kernel
        self.residual = convolution.residual
        self.convolution = nn.Conv1d(hidden, hidden, convolution.kernel)

    def forward(self, hidden: Tensor, batch: Packed) -> Tensor:
        # Beyond a row's ends there are zeros, so rows do not mix.
        # One matrix product for all taps, then each tap's part is moved to its token.
        taps = self.convolution.weight.permute(2, 0, 1).flatten(0, 1)
        parts = nn.functional.linear(hidden, taps.to(hidden.dtype)).chunk(self.kernel, dim=1)
        reach = self.kernel // 2
        total = parts[reach] + cast(Tensor, self.convolution.bias)  # In fp32 from here on.
        for offset, part in enumerate(parts, start=-reach):
            if offset:
                place = batch.positions + offset
                inside = (place >= 0) & (place < batch.lengths[batch.row_of])
                total = total + part.roll(-offset, 0) * inside[:, None]
        changed = total.relu()
        return hidden + changed if self.residual else changed
