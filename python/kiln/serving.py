"""Paged KV caches: new rows, and the plan of a decode launch."""
from __future__ import annotations

from typing import Any

from . import _native
from ._configs import text_of
from ._errors import Error
from .runtime import Config, Runtime


_PAIRS = ("none", "interleaved", "halves")


class AppendKernel:
    """Writes new rows of K and V into the paged or continuous cache that kernels of a config read; converts them to its kv_dtype."""

    def __init__(self, runtime: Runtime, config: Config, rotary: str = "none", fixed: bool = False):
        """rotary   which columns of K rotary embedding turns together: "none", "interleaved" (2i, 2i + 1), "halves" (i, i + columns / 2)
        fixed    all new rows of a sequence have the position of its first

        Raises Error (bad_input) for a config without pages or a type it cannot store."""
        if rotary not in _PAIRS:
            raise Error("bad_input", f"rotary: {rotary!r}; one of {', '.join(_PAIRS)} is needed")
        self._kernel = runtime._native.load_append(text_of(config), _PAIRS.index(rotary), fixed)

    def __call__(self, new_k, new_v, k, v, *, page_table, seqlens_k, cu_seqlens_q, max_rows: int, k_scale=None, v_scale=None,
                 kv_factors=None, k_rope=None, rotary_cos=None, rotary_sin=None, rotary_seqlens=None, stream=None) -> None:
        """The new rows are the last cu_seqlens_q[b + 1] - cu_seqlens_q[b] tokens of each sequence, which seqlens_k counts already.

        new_k, new_v  [total, heads_kv, depth], of the config's dtype; new_v and v are None where V is in K's rows
        k, v          the pools [num_pages, page_size, heads_kv, depth]
        page_table    int32 [batch, max_pages]; seqlens_k int32 [batch]; cu_seqlens_q int32 [batch + 1]
        max_rows      most new rows of a sequence
        k_scale, v_scale   float32: read for scales per tensor, head and sequence, written for those per token and per n elements; uint8 where the
                      config's scale_dtype has 8 bits
        kv_factors    float32 [2], of a cache of fp4_e2m1: factors of K and of V, read
        rotary_cos, rotary_sin   [positions, columns / 2] of the rows' type: the first `columns` of K, a multiple of 16, are rotated
        rotary_seqlens   int32 [batch], position of each sequence's first new row; by default where it is written
        """
        _native.append(self._kernel, new_k, new_v, k, v, page_table=page_table, seqlens_k=seqlens_k, cu_seqlens_q=cu_seqlens_q,
                       max_rows=max_rows, k_scale=k_scale, v_scale=v_scale, kv_factors=kv_factors, k_rope=k_rope,
                       rotary_cos=rotary_cos, rotary_sin=rotary_sin, rotary_seqlens=rotary_seqlens, stream=stream)


def decode_plan(kernel: _native.Kernel, lengths_q: list[int], lengths_k: list[int], *, heads_q: int, heads_kv: int, max_seqlen_k: int = 0,
                max_blocks: int = 0, num_sms: int = 0) -> dict[str, Any]:
    """How a split-KV launch is divided: blocks, team_heads, teams, items, workspace_bytes, tiles, imbalance (1 is perfect), and runs, which
    team takes which tiles. The kernel works the same out by itself; this is for inspection and capacity planning.
    `num_sms` 0: those of the runtime's device. Raises Error (bad_input) for a kernel of another grid."""
    return _native.decode_plan(kernel, heads_q, heads_kv, lengths_q, lengths_k, max_seqlen_k, max_blocks, num_sms)
