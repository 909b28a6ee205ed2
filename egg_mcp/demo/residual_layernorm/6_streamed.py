"""One kernel, a row in registers, with cache hints.

x, residual and the result are touched once and need not be kept. Weight and bias are read
again by every row and are.
"""

import torch
import triton
import triton.language as tl
from torch import nn

NUM_WARPS = 8
PROGRAMS_PER_PROCESSOR = 4


@triton.jit
def residual_layernorm_kernel(
    x_ptr, residual_ptr, weight_ptr, bias_ptr, y_ptr, rows, columns, eps, BLOCK: tl.constexpr
):
    at = tl.arange(0, BLOCK)
    mask = at < columns
    for row in range(tl.program_id(0).to(tl.int64), rows, tl.num_programs(0)):
        first = row * columns
        x = tl.load(x_ptr + first + at, mask=mask, other=0.0, eviction_policy="evict_first")
        x += tl.load(residual_ptr + first + at, mask=mask, other=0.0, eviction_policy="evict_first")
        mean = tl.sum(x, axis=0) / columns
        centred = tl.where(mask, x - mean, 0.0)
        rstd = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)
        weight = tl.load(weight_ptr + at, mask=mask, other=0.0, eviction_policy="evict_last")
        bias = tl.load(bias_ptr + at, mask=mask, other=0.0, eviction_policy="evict_last")
        tl.store(
            y_ptr + first + at,
            centred * rstd * weight + bias,
            mask=mask,
            eviction_policy="evict_first",
        )


def processors(device: torch.device) -> int:
    """How many processors the device has; a small number where there is no GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


class ModelNew(nn.Module):
    def __init__(self, hidden: int):
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.uniform_(self.norm.bias, -0.5, 0.5)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        x, residual = x.contiguous(), residual.contiguous()
        rows, columns = x.shape
        y = torch.empty_like(x)
        programs = min(rows, PROGRAMS_PER_PROCESSOR * processors(x.device))
        residual_layernorm_kernel[(programs,)](
            x,
            residual,
            self.norm.weight,
            self.norm.bias,
            y,
            rows,
            columns,
            self.norm.eps,
            BLOCK=triton.next_power_of_2(columns),
            num_warps=NUM_WARPS,
        )
        return y
