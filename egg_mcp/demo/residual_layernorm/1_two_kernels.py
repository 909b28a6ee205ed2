"""The sum and its statistics in one kernel, the normalisation in a second.

The sum is written to memory by the first and read again by the second.
"""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK = 1024
NUM_WARPS = 4


@triton.jit
def sum_and_statistics_kernel(
    x_ptr, residual_ptr, sum_ptr, mean_ptr, rstd_ptr, columns, eps, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    first = row.to(tl.int64) * columns
    lanes = tl.arange(0, BLOCK)

    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + lanes
        mask = at < columns
        x = tl.load(x_ptr + first + at, mask=mask, other=0.0)
        x += tl.load(residual_ptr + first + at, mask=mask, other=0.0)
        tl.store(sum_ptr + first + at, x, mask=mask)
        total += x
    mean = tl.sum(total, axis=0) / columns

    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + lanes
        mask = at < columns
        x = tl.load(x_ptr + first + at, mask=mask, other=0.0)
        x += tl.load(residual_ptr + first + at, mask=mask, other=0.0)
        centred = tl.where(mask, x - mean, 0.0)
        squares += centred * centred
    variance = tl.sum(squares, axis=0) / columns

    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, 1.0 / tl.sqrt(variance + eps))


@triton.jit
def normalise_kernel(
    sum_ptr, mean_ptr, rstd_ptr, weight_ptr, bias_ptr, y_ptr, columns, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    first = row.to(tl.int64) * columns
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = at < columns
    mean = tl.load(mean_ptr + row)
    rstd = tl.load(rstd_ptr + row)
    x = tl.load(sum_ptr + first + at, mask=mask, other=0.0)
    weight = tl.load(weight_ptr + at, mask=mask, other=0.0)
    bias = tl.load(bias_ptr + at, mask=mask, other=0.0)
    tl.store(y_ptr + first + at, (x - mean) * rstd * weight + bias, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, hidden: int):
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.uniform_(self.norm.bias, -0.5, 0.5)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        x, residual = x.contiguous(), residual.contiguous()
        rows, columns = x.shape
        total = torch.empty_like(x)
        y = torch.empty_like(x)
        mean = torch.empty(rows, dtype=torch.float32, device=x.device)
        rstd = torch.empty_like(mean)
        sum_and_statistics_kernel[(rows,)](
            x, residual, total, mean, rstd, columns, self.norm.eps, BLOCK=BLOCK, num_warps=NUM_WARPS
        )
        normalise_kernel[(rows, triton.cdiv(columns, BLOCK))](
            total,
            mean,
            rstd,
            self.norm.weight,
            self.norm.bias,
            y,
            columns,
            BLOCK=BLOCK,
            num_warps=NUM_WARPS,
        )
        return y
