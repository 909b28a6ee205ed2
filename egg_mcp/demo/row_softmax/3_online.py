"""Online softmax: maximum and sum in one pass, so two passes over a row instead of three.

Every lane keeps its own maximum and sum, and they are merged once at the end of the row: no
barrier inside the loop. One exp() per element serves both cases, because the smaller of
(maximum, x) is always the one that gets rescaled.
"""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK = 8192
NUM_WARPS = 16
LOWEST = -3.4e38  # finite, so that LOWEST - LOWEST is 0 where -inf - -inf would be NaN


@triton.jit
def softmax_kernel(x_ptr, y_ptr, columns, BLOCK: tl.constexpr, LOWEST: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * columns
    lanes = tl.arange(0, BLOCK)

    highest = tl.full([BLOCK], LOWEST, tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + lanes
        x = tl.load(x_ptr + first + at, mask=at < columns, other=float("-inf"))
        above = x - highest
        shrink = tl.exp(-tl.abs(above))
        total = tl.where(above > 0, total * shrink + 1.0, total + shrink)
        highest = tl.maximum(highest, x)
    row_max = tl.max(highest, axis=0)
    scale = 1.0 / tl.sum(total * tl.exp(highest - row_max), axis=0)

    for start in range(0, columns, BLOCK):
        at = start + lanes
        x = tl.load(x_ptr + first + at, mask=at < columns, other=float("-inf"))
        tl.store(y_ptr + first + at, tl.exp(x - row_max) * scale, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        rows, columns = x.shape
        y = torch.empty_like(x)
        softmax_kernel[(rows,)](x, y, columns, BLOCK=BLOCK, LOWEST=LOWEST, num_warps=NUM_WARPS)
        return y
