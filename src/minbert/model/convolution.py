"""A convolution over a task's token outputs (Kim, 2014; minibert-unleashed, section 4.5)."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from minbert.grid.task_spec import Convolution
from minbert.model.packed import Packed


class TokenConvolution(nn.Module):
    """ReLU of a 1-D convolution with as many filters as features, [T, H] to [T, H].

    The kernel is centred on each token; beyond a row's ends there are zeros, so that rows never
    see each other. With `residual` the input is added to the output. Initial weights are those of
    `torch.nn.Conv1d`, from torch's default generator.
    """

    def __init__(self, hidden: int, convolution: Convolution) -> None:
        super().__init__()
        self.kernel = convolution.kernel
        self.residual = convolution.residual
        self.convolution = nn.Conv1d(hidden, hidden, convolution.kernel)

    def forward(self, hidden: Tensor, batch: Packed) -> Tensor:
        # One matrix product for all taps on real tokens, then each tap's part moved to its token.
        taps = self.convolution.weight.permute(2, 0, 1).flatten(0, 1)
        parts = nn.functional.linear(hidden, taps).chunk(self.kernel, dim=1)
        reach = self.kernel // 2
        total = parts[reach] + cast(Tensor, self.convolution.bias)
        for tap, part in enumerate(parts):
            if tap != reach:
                total = total + self._moved(part, tap - reach, batch)
        changed = total.relu()
        return hidden + changed if self.residual else changed

    @staticmethod
    def _moved(part: Tensor, offset: int, batch: Packed) -> Tensor:
        """Return, for each token, `part` of the token `offset` further in its row; 0 beyond it."""
        place = batch.positions + offset
        inside = (place >= 0) & (place < batch.lengths[batch.row_of])
        return part.roll(-offset, 0) * inside[:, None]
