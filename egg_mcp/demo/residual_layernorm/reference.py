"""Layer normalisation of a sum of two tensors."""

import torch
from torch import nn

ROWS = 8192
HIDDEN = 8192


class Model(nn.Module):
    """layer_norm(x + residual), with weight and bias."""

    def __init__(self, hidden: int):
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.uniform_(self.norm.bias, -0.5, 0.5)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """x, residual: [rows, hidden] -> [rows, hidden]."""
        return self.norm(x + residual)


def get_inputs():
    return [torch.randn(ROWS, HIDDEN), torch.rand(ROWS, HIDDEN)]


def get_init_inputs():
    return [HIDDEN]
