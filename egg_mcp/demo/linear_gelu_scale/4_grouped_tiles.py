"""The fused kernel with tiles visited in groups of GROUP_M rows of tiles.

Programs that run at the same time then share rows of x and of weight, and find them in the
second-level cache.
"""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK_M = 64
BLOCK_N = 64
BLOCK_K = 32
GROUP_M = 8
NUM_WARPS = 4
NUM_STAGES = 2
PRECISION = "bf16x3"


@triton.jit
def linear_gelu_kernel(
    x_ptr,
    w_ptr,
    bias_ptr,
    y_ptr,
    M,
    N,
    K,
    scale,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    program = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    group = program // (GROUP_M * tiles_n)
    first_m = group * GROUP_M
    group_m = min(tiles_m - first_m, GROUP_M)
    inside = program % (GROUP_M * tiles_n)
    tile_m = first_m + inside % group_m
    tile_n = inside // group_m
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)

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
        total = tl.dot(x, w, total, input_precision=PRECISION)

    z = total + tl.load(bias_ptr + columns, mask=columns < N, other=0.0)[None, :]
    gelu = 0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476))
    tl.store(
        y_ptr + rows[:, None] * N + columns[None, :],
        gelu * scale,
        mask=(rows[:, None] < M) & (columns[None, :] < N),
    )


class ModelNew(nn.Module):
    def __init__(self, in_features: int, out_features: int, scale: float):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        M, K = x.shape
        N = self.linear.out_features
        y = torch.empty((M, N), dtype=x.dtype, device=x.device)
        linear_gelu_kernel[(triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)](
            x,
            self.linear.weight,
            self.linear.bias,
            y,
            M,
            N,
            K,
            self.scale,
            BLOCK_M=BLOCK_M,
            BLOCK_N=BLOCK_N,
            BLOCK_K=BLOCK_K,
            # Triton's interpreter has no bf16x3; both keep the error of float32.
            PRECISION=PRECISION,
            GROUP_M=GROUP_M,
            num_warps=NUM_WARPS,
            num_stages=NUM_STAGES,
        )
        return y
