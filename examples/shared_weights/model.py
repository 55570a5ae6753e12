"""The model whose weights are shared: a text encoder of PyTorch's own layers."""

from __future__ import annotations

import torch


def encoder(width: int = 768, layers: int = 6) -> torch.nn.Module:
    """An encoder of sequences of token numbers; of width 768 and depth 6: 66 million weights."""
    layer = torch.nn.TransformerEncoderLayer(width, 12, 4 * width, batch_first=True)
    return torch.nn.Sequential(
        torch.nn.Embedding(30_522, width),
        torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False),
        torch.nn.LayerNorm(width),
    ).eval()
