"""FlashInfer's "ROPE_LLAMA": queries and keys rotated on the fly, by their positions. Keys are copied, rotated and attended to: the cache stays as
it is, and a call costs a copy of the keys it reads. Caches of rotated keys are what serving engines use."""
from __future__ import annotations

from typing import Optional

import torch

from .. import torch as kt


def turned(x: torch.Tensor, positions: torch.Tensor, rope_scale: Optional[float], rope_theta: Optional[float]) -> torch.Tensor:
    """x [.., rows, heads, depth] with columns (i, i + depth / 2) rotated by positions [.., rows] / rope_scale."""
    half = x.shape[-1] // 2
    frequency = (rope_theta or 1e4) ** (-torch.arange(half, dtype=torch.float32, device=x.device) / half)
    angle = (positions.float() / (rope_scale or 1.0))[..., None, None] * frequency
    cos, sin = angle.cos(), angle.sin()
    a, b = x.float().split(half, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


def rows_of(starts: torch.Tensor, lengths: torch.Tensor, count: int) -> torch.Tensor:
    """Positions of ragged rows, which are the last of their sequences' `lengths`."""
    rows = torch.arange(count, dtype=torch.int32, device=starts.device)
    batch = torch.searchsorted(starts[1:].contiguous(), rows, right=True).clamp_(max=lengths.numel() - 1)
    return lengths[batch] - (starts[batch + 1] - rows)


def block_of_pages(pool: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """The pages of each sequence, [batch, max_pages * page_size, heads, depth], from pool [pages, page_size, heads, depth]."""
    return pool[table.long().clamp(0, pool.shape[0] - 1)].flatten(1, 2)


def with_rotated_pages(q, k, v, table, lengths, starts, rope: dict) -> tuple:
    """q, and a cache of one block for each sequence with rotated keys: arguments of kt.decode(continuous=True)."""
    keys = block_of_pages(k, table).to(q.dtype)  # what was rotated has no room in eight bits
    keys = turned(keys, torch.arange(keys.shape[1], device=keys.device).expand(keys.shape[0], -1), **rope)
    q = turned(q, rows_of(starts, lengths, q.shape[0]), **rope)
    return q, keys, block_of_pages(v, table).to(q.dtype), kt.row_offsets(keys.shape[0], 1, q)[:-1, None]
