"""New rows of a cache, and queries beside them, with rotary embedding: one kernel of kiln's does both."""
from __future__ import annotations

from typing import Optional

import torch

from .. import torch as kt
from ..serving import AppendKernel

_kernels: dict[tuple, AppendKernel] = {}


def _kernel(like: torch.Tensor, k_depth: int, v_depth: int, page_size: int, pairs: str, fixed: bool) -> AppendKernel:
    key = (like.get_device(), like.dtype, k_depth, v_depth, page_size, pairs, fixed)
    found = _kernels.get(key)
    if found is None:
        operand = {"kind": "paged", "page_size": page_size} if page_size else {"kind": "continuous"}
        config = {"target": kt._target(like.get_device()), "operation": "decode", "dtype": kt._DTYPES[like.dtype], "depth": k_depth, "operand": operand}
        if v_depth == 0:
            config["v_from_k"] = True
        elif v_depth != k_depth:
            config["ov_depth"] = v_depth
        found = _kernels[key] = AppendKernel(kt.runtime(like.device), config, rotary=pairs, fixed=fixed)
    return found


def append(k, v, k_cache, v_cache, table, lengths, offsets, max_rows: int, page_size: int, cos=None, sin=None, positions=None,
           interleaved: bool = True, fixed: bool = False) -> None:
    """Rows k, v [total, heads, depth] as the last of `lengths` (int32 [batch], which count them) of each sequence; of k the first columns
    rotated where there are tables, from `positions` (or the row's own place) on. page_size 0: a block for each sequence."""
    how = torch.ops.kiln.append if kt._traced(k) else _append
    how(k, v, k_cache, v_cache, table, lengths, offsets, max_rows, page_size, cos, sin, positions, interleaved, fixed)


def _append(k, v, k_cache, v_cache, table, lengths, offsets, max_rows, page_size, cos, sin, positions, interleaved, fixed) -> None:
    if k.dtype not in kt._DTYPES:  # bytes go as they are
        k, k_cache = k.view(torch.bfloat16), k_cache.view(torch.bfloat16)
        v, v_cache = (None if x is None else x.view(torch.bfloat16) for x in (v, v_cache))
    pairs = "none" if cos is None else "interleaved" if interleaved else "halves"
    kernel = _kernel(k, k.shape[-1], 0 if v is None else v.shape[-1], page_size, pairs, fixed)
    kernel(k, v, k_cache, v_cache, page_table=table, seqlens_k=lengths, cu_seqlens_q=offsets, max_rows=max_rows, rotary_cos=cos, rotary_sin=sin,
           rotary_seqlens=positions)


@torch.library.custom_op("kiln::append", mutates_args=("k_cache", "v_cache"))
def _append_op(k: torch.Tensor, v: Optional[torch.Tensor], k_cache: torch.Tensor, v_cache: Optional[torch.Tensor], table: torch.Tensor,
           lengths: torch.Tensor, offsets: torch.Tensor, max_rows: int, page_size: int, cos: Optional[torch.Tensor],
           sin: Optional[torch.Tensor], positions: Optional[torch.Tensor], interleaved: bool, fixed: bool) -> None:
    _append(k, v, k_cache, v_cache, table, lengths, offsets, max_rows, page_size, cos, sin, positions, interleaved, fixed)


@_append_op.register_fake
def _(k, v, k_cache, v_cache, table, lengths, offsets, max_rows, page_size, cos, sin, positions, interleaved, fixed):
    return None


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, positions: torch.Tensor, interleaved: bool, fixed: bool,
            offsets: Optional[torch.Tensor] = None, longest: int = 0) -> torch.Tensor:
    """x [batch, rows, heads, depth] (with `offsets`, int32 [batch + 1]: [total, heads, depth]), row i of a sequence rotated for position
    positions[b] + i, or with `fixed` positions[b]."""
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    batch = positions.shape[0]
    if offsets is None:
        rows = x.shape[1]
        table, lengths = kt.row_offsets(batch, 1, x)[:batch, None], torch.full((batch,), rows, dtype=torch.int32, device=x.device)
        append(x.reshape(-1, *x.shape[2:]), None, out, None, table, lengths, kt.row_offsets(batch, rows, x), rows, 0, cos, sin, positions,
               interleaved, fixed)
        return out
    table = offsets[:batch, None] + torch.arange(longest, dtype=torch.int32, device=x.device)
    append(x, None, out[:, None], None, table, offsets.diff(), offsets, longest, 1, cos, sin, positions, interleaved, fixed)
    return out
