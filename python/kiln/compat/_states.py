"""FlashInfer's functions that need no kernel: attention states merged, places of new rows, slopes."""
from __future__ import annotations

from typing import Optional

import torch


def merge_state(v_a, s_a, v_b, s_b):
    """Results of one query over two sets of keys, v [rows, heads, depth] and s [rows, heads] (log-sum-exp, base 2), into those over both."""
    return merge_states(torch.stack((v_a, v_b), 1), torch.stack((s_a, s_b), 1))


def merge_state_in_place(v, s, v_other, s_other, mask: Optional[torch.Tensor] = None) -> None:
    """merge_state into v and s; rows where `mask` (bool [rows]) is false stay."""
    merged, lse = merge_state(v, s, v_other, s_other)
    if mask is not None:
        merged, lse = torch.where(mask[:, None, None], merged, v), torch.where(mask[:, None], lse, s)
    v.copy_(merged)
    s.copy_(lse)


def merge_states(v, s):
    """v [rows, sets, heads, depth] and s [rows, sets, heads] into ([rows, heads, depth], [rows, heads])."""
    highest = s.float().amax(1, keepdim=True)
    weights = torch.exp2(s.float() - torch.where(highest.isinf(), 0.0, highest))
    total = weights.sum(1)
    merged = (v.float() * weights.unsqueeze(-1)).sum(1) / torch.where(total == 0, 1.0, total).unsqueeze(-1)
    return merged.to(v.dtype), torch.log2(total) + torch.where(highest.isinf(), 0.0, highest).squeeze(1)


def get_seq_lens(kv_indptr, kv_last_page_len, page_size: int):
    """Keys of each sequence, int32 [batch]."""
    counts = kv_indptr.diff()
    return torch.where(counts > 0, (counts - 1) * page_size + kv_last_page_len, 0).int()


def get_batch_indices_positions(append_indptr, seq_lens, nnz: int):
    """Sequence and position of each of `nnz` new rows, which are the last of their sequences (`seq_lens` counts them)."""
    rows = torch.arange(nnz, dtype=torch.int32, device=append_indptr.device)
    batch = torch.searchsorted(append_indptr[1:].contiguous(), rows, right=True).clamp_(max=seq_lens.numel() - 1)
    return batch.int(), (seq_lens[batch] - (append_indptr[batch + 1] - rows)).int()


def slopes(heads: int, device) -> torch.Tensor:
    """Of "ALIBI", float32 [heads]: powers of 2^(-8 / n), n the power of two not above `heads`; those between for the heads past n."""
    n = 1 << (heads.bit_length() - 1)
    powers = [2.0 ** (-8.0 / n * (i + 1)) for i in range(n)] + [2.0 ** (-4.0 / n * (2 * i + 1)) for i in range(heads - n)]
    return torch.tensor(powers, dtype=torch.float32).to(device)
