"""The calls of FlashAttention-3 (`flash_attn_interface`) on kiln's kernels.

    import kiln.compat.flash_attn as flash_attn_interface

Arguments and meaning are the original's. What kiln has no kernel for raises NotImplementedError with the reason: a backward pass,
dropout, FP8 with descales, `qv`. Windows that look ahead, a chunk together with a window, slopes of one's own, left padding and `seqused` of
ragged rows are score expressions (`_scores.py`), whose kernels compute hidden tiles, too.
Results of the same call are the same bit for bit, so `deterministic` changes nothing; nor does `pack_gqa`, which kernels decide by
themselves. FlashAttention-2's positional `dropout_p` is not taken: name it, and it must be 0.
"""
from __future__ import annotations

from typing import Optional, Union

import torch

from .. import torch as kt
from .._errors import Error
from ._scores import scores
from ..serving import AppendKernel

__all__ = ["flash_attn_combine", "flash_attn_func", "flash_attn_qkvpacked_func", "flash_attn_varlen_func", "flash_attn_with_kvcache",
           "get_scheduler_metadata"]

_appends: dict[tuple, AppendKernel] = {}


def _missing(name: str, value, why: str):
    return NotImplementedError(f"{name}: {value}; {why}")


def _check(qv=None, q_descale=None, k_descale=None, v_descale=None, num_splits=0, dropout_p=0.0):
    for name, value, why in (("qv", qv, "kiln has no kernel with a second pair of operands"),
                             ("q_descale", q_descale, "FP8 operands are not taken here"), ("k_descale", k_descale, "FP8 operands are not taken here"),
                             ("v_descale", v_descale, "FP8 operands are not taken here")):
        if value is not None:
            raise _missing(name, "given", why + ": None is needed")
    if num_splits not in (0, 1):
        raise _missing("num_splits", num_splits, "kernels choose the number of splits: 0 or 1 is needed")
    if dropout_p:
        raise _missing("dropout_p", dropout_p, "kiln has no dropout: 0 is needed")


def _scores(causal: bool, window_size, attention_chunk: int, softcap: float, **rest) -> dict:
    """The keywords of kiln's masks and modifiers."""
    left, right = window_size
    return scores(left, 0 if causal else right, attention_chunk, softcap, **rest)


def _max_blocks(device: torch.device, sm_margin: int) -> int:
    if not sm_margin:
        return 0
    sms = kt.runtime(device).device["num_sms"]
    if not 0 < sm_margin < sms:
        raise Error("bad_input", f"sm_margin: {sm_margin}; 0 to {sms - 1} is needed")
    return sms - sm_margin


def _result(out, lse, wanted: bool):
    return (out, lse) if wanted else out


def flash_attn_func(q, k, v, softmax_scale=None, causal=False, qv=None, q_descale=None, k_descale=None, v_descale=None, window_size=(-1, -1),
                    attention_chunk=0, softcap=0.0, num_splits=1, pack_gqa=None, deterministic=False, sm_margin=0, return_attn_probs=False,
                    dropout_p=0.0, alibi_slopes=None):
    """q [batch, seqlen_q, heads, depth], k and v [batch, seqlen_k, heads_kv, ..]. Returns out, or with return_attn_probs (out, softmax_lse),
    float32 [batch, heads, seqlen_q]."""
    _check(qv, q_descale, k_descale, v_descale, num_splits, dropout_p)
    got = kt.attention(q, k, v, **_scores(causal, window_size, attention_chunk, softcap, slopes=alibi_slopes), scale=softmax_scale,
                       return_lse=return_attn_probs, max_blocks=_max_blocks(q.device, sm_margin))
    return got


def flash_attn_qkvpacked_func(qkv, softmax_scale=None, causal=False, q_descale=None, k_descale=None, v_descale=None, window_size=(-1, -1),
                              attention_chunk=0, softcap=0.0, deterministic=False, num_heads_q=None, sm_margin=0, return_attn_probs=False):
    """qkv [batch, seqlen, 3, heads, depth], or with num_heads_q [batch, seqlen, heads + 2 heads_kv, depth]."""
    if qkv.dim() == 5:
        q, k, v = qkv.unbind(2)
    else:
        if num_heads_q is None or (qkv.shape[2] - num_heads_q) % 2:
            raise Error("bad_input", f"num_heads_q: {num_heads_q} of {qkv.shape[2]} heads; as many heads of k as of v are needed beside it")
        kv = (qkv.shape[2] - num_heads_q) // 2
        q, k, v = qkv.split([num_heads_q, kv, kv], 2)
    return flash_attn_func(q, k, v, softmax_scale, causal, None, q_descale, k_descale, v_descale, window_size, attention_chunk, softcap,
                           sm_margin=sm_margin, return_attn_probs=return_attn_probs)


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k=None, max_seqlen_q=0, max_seqlen_k=0, seqused_q=None, seqused_k=None,
                           softmax_scale=None, causal=False, qv=None, q_descale=None, k_descale=None, v_descale=None, window_size=(-1, -1),
                           attention_chunk=0, softcap=0.0, num_splits=1, pack_gqa=None, deterministic=False, sm_margin=0,
                           return_attn_probs=False, dropout_p=0.0, alibi_slopes=None, block_table=None, s_aux=None, out=None, **others):
    """Rows [total, heads, depth]; cu_seqlens int32 [batch + 1]. With return_attn_probs (out, softmax_lse), float32 [heads, total_q]. With
    block_table and seqused_k k and v are pages, as vLLM calls it; s_aux has the logits of sinks."""
    _check(qv, q_descale, k_descale, v_descale, num_splits, dropout_p)
    used_k = None if block_table is not None else seqused_k
    common = dict(**_scores(causal, window_size, attention_chunk, softcap, slopes=alibi_slopes, used_q=seqused_q, used_k=used_k),
                  scale=softmax_scale, sink=s_aux, out=out, return_lse=return_attn_probs, max_blocks=_max_blocks(q.device, sm_margin))
    if block_table is not None:
        if seqused_k is None:
            raise Error("bad_input", "seqused_k: None; with block_table the lengths, int32 [batch], are needed")
        return kt.decode(q, k, v, page_table=block_table, seqlens_k=seqused_k, cu_seqlens_q=cu_seqlens_q, max_seqlen_q=max_seqlen_q, **common)
    return kt.attention(q, k, v, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, max_seqlen_q=max_seqlen_q, max_seqlen_k=max_seqlen_k,
                        **common)


def _rotate(x, cos, sin, positions, interleaved: bool):
    """x [batch, seqlen, heads, depth], its first columns rotated at `positions` [batch, seqlen]."""
    half = cos.shape[-1]
    c, s = (table[positions.long()].unsqueeze(2).float() for table in (cos, sin))
    part, rest = x[..., : 2 * half].float(), x[..., 2 * half:]
    if interleaved:
        a, b = part[..., 0::2], part[..., 1::2]
        turned = torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2)
    else:
        a, b = part[..., :half], part[..., half:]
        turned = torch.cat((a * c - b * s, a * s + b * c), -1)
    return torch.cat((turned.to(x.dtype), rest), -1)


def _append(q, k, v, k_cache, v_cache, table, lengths, offsets, rows, page_size):
    index = q.get_device() if q.is_cuda else -1
    operand = {"kind": "paged", "page_size": page_size} if page_size else {"kind": "continuous"}
    config = {"target": kt._target(index), "operation": "decode", "dtype": kt._dtype("k", k), "depth": k.shape[-1], "operand": operand}
    if v.shape[-1] != k.shape[-1]:
        config["ov_depth"] = v.shape[-1]
    key = (index, k.dtype, k.shape[-1], v.shape[-1], page_size)
    if key not in _appends:
        _appends[key] = AppendKernel(kt.runtime(q.device), config)
    _appends[key](k, v, k_cache, v_cache, page_table=table, seqlens_k=lengths, cu_seqlens_q=offsets, max_rows=rows)


def flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, qv=None, rotary_cos=None, rotary_sin=None,
                            cache_seqlens: Optional[Union[int, torch.Tensor]] = None, cache_batch_idx=None, cache_leftpad=None, page_table=None,
                            cu_seqlens_q=None, cu_seqlens_k_new=None, max_seqlen_q=None, rotary_seqlens=None, q_descale=None, k_descale=None,
                            v_descale=None, softmax_scale=None, causal=False, window_size=(-1, -1), attention_chunk=0, softcap=0.0,
                            rotary_interleaved=True, scheduler_metadata=None, num_splits=0, pack_gqa=None, sm_margin=0, return_softmax_lse=False):
    """q [batch, seqlen_q, heads, depth], or ragged [total, heads, depth] with cu_seqlens_q and max_seqlen_q. k_cache and v_cache
    [batch_cache, seqlen_cache, heads_kv, ..], or pages [num_pages, page_size, heads_kv, ..] with page_table int32 [batch, max_pages].
    With k and v [batch, seqlen_new, heads_kv, ..] the cache is written at cache_seqlens first, in place, rotated where rotary_cos and
    rotary_sin [seqlen_ro, rotary_dim / 2] are given. Lengths stay on the device."""
    _check(qv, q_descale, k_descale, v_descale, num_splits)
    rules = _scores(causal, window_size, attention_chunk, softcap, first=cache_leftpad)
    if (k is None) != (v is None):
        raise Error("bad_input", "k and v: one of them; both or neither is needed")
    ragged = cu_seqlens_q is not None
    if ragged and max_seqlen_q is None:
        raise Error("bad_input", "max_seqlen_q: None; with cu_seqlens_q the longest length is needed")
    if ragged and rotary_cos is not None:
        raise _missing("rotary_cos", "given", "ragged rows are not rotated here")
    if rotary_cos is not None and k is None:
        raise Error("bad_input", "rotary_cos: given without k; new keys are needed")
    if cu_seqlens_k_new is not None and k is None:
        raise Error("bad_input", "cu_seqlens_k_new: given without k; new keys are needed")
    batch = cu_seqlens_q.shape[0] - 1 if ragged else q.shape[0]
    device = q.device
    if cache_seqlens is None:
        if k is not None:
            raise Error("bad_input", "cache_seqlens: None; with k and v the lengths before them are needed")
        if page_table is not None:
            raise Error("bad_input", "cache_seqlens: None; with page_table the lengths, int32 [batch], are needed")
        cache_seqlens = k_cache.shape[1]
    if isinstance(cache_seqlens, int):
        cache_seqlens = torch.full((batch,), cache_seqlens, dtype=torch.int32, device=device)
    page_size = k_cache.shape[1] if page_table is not None else 0
    table = page_table
    if table is None:
        # A cache of one block for each sequence.
        table = cache_batch_idx.view(-1, 1) if cache_batch_idx is not None else kt.row_offsets(batch, 1, q)[:batch].view(-1, 1)
    elif cache_batch_idx is not None:
        raise Error("bad_input", "cache_batch_idx: given with page_table; one of them is needed")
    rows = max_seqlen_q if ragged else q.shape[1]
    lengths = cache_seqlens
    if k is not None:
        new_rows = k.shape[0] if cu_seqlens_k_new is not None else k.shape[1]
        if rotary_cos is not None:
            start = (rotary_seqlens if rotary_seqlens is not None else cache_seqlens).view(-1, 1)
            k = _rotate(k, rotary_cos, rotary_sin, start + torch.arange(new_rows, device=device), rotary_interleaved)
            steps = torch.arange(rows, device=device) if causal or max(window_size) >= 0 or attention_chunk else torch.zeros(rows, dtype=torch.int64, device=device)
            q = _rotate(q, rotary_cos, rotary_sin, start + steps, rotary_interleaved)
        if cu_seqlens_k_new is not None:
            lengths = cache_seqlens + cu_seqlens_k_new.diff()
            offsets_new = cu_seqlens_k_new
        else:
            lengths = cache_seqlens + new_rows
            offsets_new = kt.row_offsets(batch, new_rows, q)
            k, v = (x.reshape(-1, *x.shape[2:]) for x in (k, v))
        _append(q, k, v, k_cache, v_cache, table, lengths, offsets_new, new_rows, page_size)
    flat = q if ragged else q.reshape(-1, *q.shape[2:])
    got = kt.decode(flat, k_cache, v_cache, page_table=table, seqlens_k=lengths, cu_seqlens_q=cu_seqlens_q if ragged else kt.row_offsets(batch, rows, q),
                    max_seqlen_q=rows, **rules, scale=softmax_scale, return_lse=return_softmax_lse,
                    continuous=page_table is None, max_blocks=_max_blocks(device, sm_margin))
    out, lse = got if return_softmax_lse else (got, None)
    if not ragged:
        out = out.view(batch, rows, *out.shape[1:])
        lse = lse.view(-1, batch, rows).transpose(0, 1) if lse is not None else None
    return _result(out, lse, return_softmax_lse)


def get_scheduler_metadata(*_, **__) -> torch.Tensor:
    """Kernels plan by themselves from the lengths on the device: an empty tensor, which flash_attn_with_kvcache ignores."""
    return torch.empty(0, dtype=torch.int32)


def flash_attn_combine(out_partial: torch.Tensor, lse_partial: torch.Tensor, out: Optional[torch.Tensor] = None,
                       out_dtype: Optional[torch.dtype] = None):
    """out_partial [splits, batch, seqlen, heads, depth] and lse_partial [splits, batch, seqlen, heads] into (out, lse)."""
    lse = lse_partial.float().logsumexp(0)
    weights = (lse_partial.float() - lse).exp().nan_to_num(0.0)
    merged = (out_partial.float() * weights.unsqueeze(-1)).sum(0)
    merged = merged.to(out_dtype or (out.dtype if out is not None else out_partial.dtype))
    return (out.copy_(merged) if out is not None else merged), lse
