"""Softmax, the textbook way: one program a row, three passes over it.

The first pass finds the maximum, the second sums the exponentials, the third writes.
"""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK = 1024
NUM_WARPS = 4


@triton.jit
def softmax_kernel(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * columns
    lanes = tl.arange(0, BLOCK)

    highest = tl.full([BLOCK], float("-inf"), tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + lanes
        x = tl.load(x_ptr + first + at, mask=at < columns, other=float("-inf"))
        highest = tl.maximum(highest, x)
    row_max = tl.max(highest, axis=0)

    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + lanes
        x = tl.load(x_ptr + first + at, mask=at < columns, other=float("-inf"))
        total += tl.exp(x - row_max)
    scale = 1.0 / tl.sum(total, axis=0)

    for start in range(0, columns, BLOCK):
        at = start + lanes
        x = tl.load(x_ptr + first + at, mask=at < columns, other=float("-inf"))
        tl.store(y_ptr + first + at, tl.exp(x - row_max) * scale, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        rows, columns = x.shape
        y = torch.empty_like(x)
        softmax_kernel[(rows,)](x, y, columns, BLOCK=BLOCK, num_warps=NUM_WARPS)
        return y
