"""Matrix product in one kernel, bias, GELU and scale in a second.

The product runs on the tensor cores in three TF32 passes (tf32x3), which keeps float32's
error. Its result is written to memory only to be read again by the second kernel.
"""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK_M = 64
BLOCK_N = 64
BLOCK_K = 32
BLOCK_TAIL = 1024
NUM_WARPS = 4
NUM_STAGES = 2


@triton.jit
def matmul_kernel(
    x_ptr,
    w_ptr,
    z_ptr,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)

    total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + inner
        x = tl.load(
            x_ptr + rows[:, None] * K + k[None, :],
            mask=(rows[:, None] < M) & (k[None, :] < K),
            other=0.0,
        )
        w = tl.load(
            w_ptr + columns[None, :] * K + k[:, None],
            mask=(columns[None, :] < N) & (k[:, None] < K),
            other=0.0,
        )
        total = tl.dot(x, w, total, input_precision="tf32x3")

    tl.store(
        z_ptr + rows[:, None] * N + columns[None, :],
        total,
        mask=(rows[:, None] < M) & (columns[None, :] < N),
    )


@triton.jit
def tail_kernel(z_ptr, bias_ptr, y_ptr, size, N, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < size
    z = tl.load(z_ptr + at, mask=mask, other=0.0) + tl.load(bias_ptr + at % N, mask=mask, other=0.0)
    gelu = 0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476))
    tl.store(y_ptr + at, gelu * scale, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, in_features: int, out_features: int, scale: float):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        M, K = x.shape
        N = self.linear.out_features
        z = torch.empty((M, N), dtype=x.dtype, device=x.device)
        y = torch.empty_like(z)
        matmul_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))](
            x,
            self.linear.weight,
            z,
            M,
            N,
            K,
            BLOCK_M=BLOCK_M,
            BLOCK_N=BLOCK_N,
            BLOCK_K=BLOCK_K,
            num_warps=NUM_WARPS,
            num_stages=NUM_STAGES,
        )
        tail_kernel[(triton.cdiv(M * N, BLOCK_TAIL),)](
            z, self.linear.bias, y, M * N, N, self.scale, BLOCK=BLOCK_TAIL
        )
        return y
