"""Online softmax, with a mistake: the lanes past the end of a row are read as 0 and counted.

Zero is the right filler for a sum. Here the filler goes through exp() first, and exp(0 - max)
is not zero: the last block of each row adds its padding to the denominator.
"""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK = 8192
NUM_WARPS = 16
LOWEST = -3.4e38


@triton.jit
def softmax_kernel(x_ptr, y_ptr, columns, BLOCK: tl.constexpr, LOWEST: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * columns
    lanes = tl.arange(0, BLOCK)

    row_max = tl.full([], LOWEST, tl.float32)
    total = tl.full([], 0.0, tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + lanes
        x = tl.load(x_ptr + first + at, mask=at < columns, other=0.0)
        new_max = tl.maximum(row_max, tl.max(x, axis=0))
        total = total * tl.exp(row_max - new_max) + tl.sum(tl.exp(x - new_max), axis=0)
        row_max = new_max
    scale = 1.0 / total

    for start in range(0, columns, BLOCK):
        at = start + lanes
        x = tl.load(x_ptr + first + at, mask=at < columns, other=0.0)
        tl.store(y_ptr + first + at, tl.exp(x - row_max) * scale, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        rows, columns = x.shape
        y = torch.empty_like(x)
        softmax_kernel[(rows,)](x, y, columns, BLOCK=BLOCK, LOWEST=LOWEST, num_warps=NUM_WARPS)
        return y
