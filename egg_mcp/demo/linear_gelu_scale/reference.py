"""Linear layer, exact GELU, then a constant scale."""

import torch
from torch import nn

BATCH = 4096
IN_FEATURES = 4096
OUT_FEATURES = 4096
SCALE = 0.7


class Model(nn.Module):
    """scale * gelu(x @ weight.T + bias)."""

    def __init__(self, in_features: int, out_features: int, scale: float):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.gelu = nn.GELU()
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [batch, in_features] -> [batch, out_features]."""
        return self.gelu(self.linear(x)) * self.scale


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES)]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES, SCALE]
