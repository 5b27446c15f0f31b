"""The calls of FlashAttention-3 (`flash_attn_interface`) on kiln's kernels.

    import kiln.compat.flash_attn as flash_attn_interface

Arguments and meaning are the original's. What kiln has no kernel for raises NotImplementedError with the reason: a backward pass,
dropout, `qv` on other targets than sm_90a. Windows of two sides, chunks and left padding are masks of kernels that leave hidden tiles out, their
numbers parameters of the launch: one kernel serves all of them. Slopes of one's own and `seqused` of ragged rows are score expressions
(`_scores.py`), whose kernels compute hidden tiles, too; beside `qv` the rows in use are copied together. Depths that are no multiple of
16 are filled up with zeros, in copies.
Results of the same call are the same bit for bit, so `deterministic` changes nothing; nor does `pack_gqa`, which kernels decide by
themselves. `num_splits` is kept where rows are few (up to 8); longer ones are not split, and need it not.
FlashAttention-2's positional `dropout_p` is not taken: name it, and it must be 0.
"""
from __future__ import annotations

import json
from typing import NamedTuple, Optional, Union

import torch

from .. import torch as kt
from .._errors import Error
from ._rotary import append, rotated
from ._scores import scores

__all__ = ["flash_attn_combine", "flash_attn_func", "flash_attn_qkvpacked_func", "flash_attn_varlen_func", "flash_attn_with_kvcache",
           "get_scheduler_metadata"]


def _missing(name: str, value, why: str):
    return NotImplementedError(f"{name}: {value}; {why}")


def _check(num_splits=0, dropout_p=0.0):
    if not isinstance(num_splits, int) or not 0 <= num_splits <= 1024:
        raise Error("bad_input", f"num_splits: {num_splits!r}; 0 to 1024 is needed")
    if dropout_p:
        raise _missing("dropout_p", dropout_p, "kiln has no dropout: 0 is needed")


def _lined(*tensors):
    """The tensors, with contiguous last dimensions."""
    return tuple(x if x is None or x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous() for x in tensors)


def _window(window_size) -> tuple[int, int]:
    """The sides, which may also be elements of a tensor."""
    left, right = window_size
    return int(left), int(right)


def _wider(q, k, v, softmax_scale) -> tuple:
    """q, k, v with depths of a multiple of 16, which kernels have: columns of zeros change neither scores nor outputs. With the scale of
    the depth as it was."""
    depths = q.shape[-1], v.shape[-1]
    if depths[0] % 16 == 0 and depths[1] % 16 == 0:
        return q, k, v, softmax_scale
    q, k, v = (torch.nn.functional.pad(x, (0, -x.shape[-1] % 16)) for x in (q, k, v))
    return q, k, v, depths[0] ** -0.5 if softmax_scale is None else softmax_scale


def _narrower(got, columns: int, with_lse: bool, out=None):
    """The first `columns` of a result, in `out` where it is given."""
    result, lse = got if with_lse else (got, None)
    if result.shape[-1] != columns:
        result = result[..., :columns] if out is None else out.copy_(result[..., :columns])
    return _result(result, lse, with_lse)


def _close_up(offsets: torch.Tensor, used: torch.Tensor, total: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Ragged rows of which each sequence uses the first `used`, brought together: the row that each comes from, where each row of before
    is now (unused ones: anywhere), and the new offsets. Nothing goes to the host."""
    rows = torch.arange(total, dtype=torch.int32, device=offsets.device)
    closed = torch.nn.functional.pad(used.cumsum(0, dtype=torch.int32), (1, 0))

    def places(begin, end):
        sequence = torch.searchsorted(begin[1:].contiguous(), rows, right=True).clamp_(max=used.numel() - 1)
        return (end[sequence] + rows - begin[sequence]).clamp_(0, max(total - 1, 0)).long()

    return places(closed, offsets), places(offsets, closed), closed


def _scores(causal: bool, window_size, attention_chunk: int, softcap: float, **rest) -> dict:
    """The keywords of kiln's masks and modifiers."""
    left, right = _window(window_size)
    return scores(left, 0 if causal else right, attention_chunk, softcap, **rest)


def _descales(q_descale, k_descale, v_descale) -> dict:
    return dict(q_descale=q_descale, k_descale=k_descale, v_descale=v_descale)


def _with_qv(q, k, v, qv, softmax_scale, rules: dict, page_table=None, lengths=None, cu_seqlens_q=None, cu_seqlens_k=None, longest_q=0,
             longest_k=0, return_lse=False, out=None, max_blocks=0):
    """Scores q k' + qv v': a latent cache whose latent part is V and whose rotary part, in a tensor of its own, is K. The kernel that
    splits keys takes any number of rows."""
    if v.dtype not in kt._DTYPES:
        raise _missing("qv", "given", f"v is {str(v.dtype)[6:]}: bfloat16 or float16 is needed")
    index = q.get_device()
    target = kt._target(index)
    if target != "sm_90a":
        raise _missing("qv", "given", f"kernels with a second pair of operands are sm_90a's, not {target}'s")
    if qv.shape != (*q.shape[:-1], v.shape[-1]):
        raise Error("bad_input", f"qv: shape {list(qv.shape)}; {[*q.shape[:-1], v.shape[-1]]} is needed")
    choice = rules["causal"], rules.get("window"), rules.get("chunk")
    at_launch = rules.get("first_keys") is not None or isinstance(rules.get("window"), tuple)
    mask, sides = kt._sides(*choice, rules.get("first_keys")) if at_launch else (kt._mask(*choice, None), None)
    kind = "ragged" if cu_seqlens_k is not None else "contiguous" if page_table is None else "continuous" if rules.get("continuous") else "paged"
    config = {"target": target, "operation": "decode", "dtype": kt._dtype("v", v), "depth": q.shape[-1] + v.shape[-1], "ov_depth": v.shape[-1],
              "rope_depth": q.shape[-1], "v_from_k": True, "rope": {"layout": "separate"}, "lse": return_lse,
              "mask": kt._mask_config(mask), "operand": {"kind": kind, **({"page_size": k.shape[1]} if kind == "paged" else {})}}
    captured = rules.get("captured")
    if rules.get("score_mod"):
        config["score_mod"] = {"expr": rules["score_mod"], "tensors": {name: kt._captured_type(name, x) for name, x in (captured or {}).items()}}
    elif rules.get("softcap"):
        config["score_mod"] = {"softcap": rules["softcap"]}
    kernel = kt._load(index, json.dumps(config))
    depth = q.shape[-1] + qv.shape[-1]
    both = torch.cat((qv, q), -1)
    out = torch.empty_like(qv, memory_format=torch.contiguous_format) if out is None else out
    lse = q.new_empty(kt._lse_shape(q), dtype=torch.float32) if return_lse else None
    kernel(both, v, None, out, lse=lse, k_rope=k, page_table=page_table, seqlens_k=lengths, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k,
           max_seqlen_q=longest_q, max_seqlen_k=longest_k, scale=depth**-0.5 if softmax_scale is None else softmax_scale, window=sides,
           first_keys=rules.get("first_keys"), captured=captured, max_blocks=max_blocks)
    return (out, lse) if return_lse else out


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
    _check(num_splits, dropout_p)
    q, k, v, qv = _lined(q, k, v, qv)
    rules = _scores(causal, window_size, attention_chunk, softcap, slopes=alibi_slopes)
    blocks = _max_blocks(q.device, sm_margin)
    if qv is not None:
        return _with_qv(q, k, v, qv, softmax_scale, rules, return_lse=return_attn_probs, max_blocks=blocks)
    columns = v.shape[-1]
    q, k, v, softmax_scale = _wider(q, k, v, softmax_scale)
    got = kt.attention(q, k, v, **rules, **_descales(q_descale, k_descale, v_descale), scale=softmax_scale, return_lse=return_attn_probs,
                       splits=num_splits if num_splits > 1 else 0, max_blocks=blocks)
    return _narrower(got, columns, return_attn_probs)


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
    _check(num_splits, dropout_p)
    q, k, v, qv = _lined(q, k, v, qv)
    used_k = None if block_table is not None else seqused_k
    if qv is not None and block_table is None and (seqused_q is not None or used_k is not None):
        return _used_with_qv(q, k, v, qv, cu_seqlens_q, cu_seqlens_k, seqused_q, used_k, return_attn_probs, out,
                             dict(max_seqlen_q=max_seqlen_q, max_seqlen_k=max_seqlen_k, softmax_scale=softmax_scale, causal=causal,
                                  window_size=window_size, attention_chunk=attention_chunk, softcap=softcap, sm_margin=sm_margin,
                                  alibi_slopes=alibi_slopes))
    rules = _scores(causal, window_size, attention_chunk, softcap, slopes=alibi_slopes, used_q=seqused_q, used_k=used_k)
    blocks = _max_blocks(q.device, sm_margin)
    if qv is not None:
        return _with_qv(q, k, v, qv, softmax_scale, rules, block_table, seqused_k if block_table is not None else None, cu_seqlens_q,
                        cu_seqlens_k if block_table is None else None, max_seqlen_q, max_seqlen_k if block_table is None else 0,
                        return_attn_probs, out, blocks)
    columns = v.shape[-1]
    if block_table is None:
        q, k, v, softmax_scale = _wider(q, k, v, softmax_scale)
    common = dict(**rules, **_descales(q_descale, k_descale, v_descale), scale=softmax_scale, sink=s_aux,
                  out=out if v.shape[-1] == columns else None, return_lse=return_attn_probs,
                  splits=num_splits if num_splits > 1 else 0, max_blocks=blocks)
    if block_table is not None:
        if seqused_k is None:
            raise Error("bad_input", "seqused_k: None; with block_table the lengths, int32 [batch], are needed")
        return kt.decode(q, k, v, page_table=block_table, seqlens_k=seqused_k, cu_seqlens_q=cu_seqlens_q, max_seqlen_q=max_seqlen_q, **common)
    got = kt.attention(q, k, v, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, max_seqlen_q=max_seqlen_q, max_seqlen_k=max_seqlen_k,
                       **common)
    return _narrower(got, columns, return_attn_probs, out)


def _used_with_qv(q, k, v, qv, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, with_lse: bool, out, keywords: dict):
    """flash_attn_varlen_func with qv over sequences that are shorter than their rows: copies without the rows between."""
    if seqused_q is not None:
        source, place, cu_seqlens_q = _close_up(cu_seqlens_q, seqused_q, q.shape[0])
        q, qv = q[source], qv[source]
    if seqused_k is not None:
        source, _, cu_seqlens_k = _close_up(cu_seqlens_k, seqused_k, k.shape[0])
        k, v = k[source], v[source]
    got, lse = flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, qv=qv, return_attn_probs=True, **keywords)
    if seqused_q is not None:
        got, lse = got[place], lse[:, place]
    return _result(got if out is None else out.copy_(got), lse, with_lse)


def _check_cache(k, v, cu_seqlens_q, cu_seqlens_k_new, max_seqlen_q, rotary_cos, rotary_sin) -> None:
    if (k is None) != (v is None):
        raise Error("bad_input", "k and v: one of them; both or neither is needed")
    if cu_seqlens_q is not None and max_seqlen_q is None:
        raise Error("bad_input", "max_seqlen_q: None; with cu_seqlens_q the longest length is needed")
    if (rotary_cos is None) != (rotary_sin is None):
        raise Error("bad_input", "rotary_cos and rotary_sin: one of them; both or neither is needed")
    for name, given in (("rotary_cos", rotary_cos), ("cu_seqlens_k_new", cu_seqlens_k_new)):
        if given is not None and k is None:
            raise Error("bad_input", f"{name}: given without k; new keys are needed")


class _Turn(NamedTuple):
    """Rotary embedding of a call."""

    cos: torch.Tensor
    sin: torch.Tensor
    positions: torch.Tensor  # int32 [batch], of the first new rows
    interleaved: bool

    def __call__(self, x, fixed: bool, offsets, longest: int):
        """As rotated(), of float8_e4m3fn by way of bfloat16."""
        if x.dtype in kt._DTYPES:
            return rotated(x, self.cos, self.sin, self.positions, self.interleaved, fixed, offsets, longest)
        return rotated(x.bfloat16(), self.cos.bfloat16(), self.sin.bfloat16(), self.positions, self.interleaved, fixed, offsets, longest).to(x.dtype)


def _write_rows(k, v, k_cache, v_cache, table, cache_seqlens, offsets, page_size: int, turn: Optional[_Turn]) -> torch.Tensor:
    """New rows behind the cache's own; returns the lengths with them. `offsets`: of ragged rows."""
    batch, new_rows = table.shape[0], k.shape[0] if offsets is not None else k.shape[1]
    if turn is not None and k.dtype not in kt._DTYPES:  # the kernel that writes does not turn bytes
        k, turn = turn(k, False, offsets, new_rows), None
    if offsets is not None:
        lengths = cache_seqlens + offsets.diff()
    else:
        lengths, offsets = cache_seqlens + new_rows, kt.row_offsets(batch, new_rows, k)
        k, v = (x.reshape(-1, *x.shape[2:]) for x in (k, v))
    how = (turn.cos, turn.sin, turn.positions, turn.interleaved) if turn is not None else ()
    append(k, v, k_cache, v_cache, table, lengths, offsets, new_rows, page_size, *how)
    return lengths


def flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, qv=None, rotary_cos=None, rotary_sin=None,
                            cache_seqlens: Optional[Union[int, torch.Tensor]] = None, cache_batch_idx=None, cache_leftpad=None, page_table=None,
                            cu_seqlens_q=None, cu_seqlens_k_new=None, max_seqlen_q=None, rotary_seqlens=None, q_descale=None, k_descale=None,
                            v_descale=None, softmax_scale=None, causal=False, window_size=(-1, -1), attention_chunk=0, softcap=0.0,
                            rotary_interleaved=True, scheduler_metadata=None, num_splits=0, pack_gqa=None, sm_margin=0, return_softmax_lse=False):
    """q [batch, seqlen_q, heads, depth], or ragged [total, heads, depth] with cu_seqlens_q and max_seqlen_q. k_cache and v_cache
    [batch_cache, seqlen_cache, heads_kv, ..], or pages [num_pages, page_size, heads_kv, ..] with page_table int32 [batch, max_pages].
    With k and v [batch, seqlen_new, heads_kv, ..] the cache is written at cache_seqlens first, in place, rotated where rotary_cos and
    rotary_sin [seqlen_ro, rotary_dim / 2] are given. Lengths stay on the device."""
    _check(num_splits)
    q, k, v, qv = _lined(q, k, v, qv)
    if k_cache.stride(-1) != 1 or v_cache.stride(-1) != 1:
        raise Error("bad_input", f"k_cache, v_cache: strides {k_cache.stride()}, {v_cache.stride()}; a contiguous last dimension is needed")
    rules = _scores(causal, window_size, attention_chunk, softcap, first=cache_leftpad)
    _check_cache(k, v, cu_seqlens_q, cu_seqlens_k_new, max_seqlen_q, rotary_cos, rotary_sin)
    ragged = cu_seqlens_q is not None
    batch = cu_seqlens_q.shape[0] - 1 if ragged else q.shape[0]
    device = q.device
    if cache_seqlens is None:
        if k is not None or page_table is not None:
            raise Error("bad_input", "cache_seqlens: None; with k and v, or page_table, the lengths are needed")
        cache_seqlens = k_cache.shape[1]
    if isinstance(cache_seqlens, int):
        cache_seqlens = torch.full((batch,), cache_seqlens, dtype=torch.int32, device=device)
    page_size = k_cache.shape[1] if page_table is not None else 0
    table = page_table
    if table is not None and cache_batch_idx is not None:
        table = table[cache_batch_idx.long()]
    if table is None:  # a cache of one block for each sequence
        table = cache_batch_idx.view(-1, 1) if cache_batch_idx is not None else kt.row_offsets(batch, 1, q)[:batch].view(-1, 1)
    rows = max_seqlen_q if ragged else q.shape[1]
    lengths = cache_seqlens
    if k is not None:
        fixed = not (causal or max(_window(window_size)) >= 0 or attention_chunk)
        if rotary_cos is not None:
            start = rotary_seqlens if rotary_seqlens is not None else cache_seqlens
            turn = _Turn(rotary_cos, rotary_sin, start, rotary_interleaved)
            q = turn(q, fixed, cu_seqlens_q, rows)
        lengths = _write_rows(k, v, k_cache, v_cache, table, cache_seqlens, cu_seqlens_k_new, page_size, turn if rotary_cos is not None else None)
    flat = q if ragged else q.reshape(-1, *q.shape[2:])
    offsets_q = cu_seqlens_q if ragged else kt.row_offsets(batch, rows, q)
    blocks = _max_blocks(device, sm_margin)
    if qv is not None:
        got = _with_qv(flat, k_cache, v_cache, qv if ragged else qv.reshape(-1, *qv.shape[2:]), softmax_scale,
                       {**rules, "continuous": page_table is None}, table, lengths, offsets_q, None, rows, 0, return_softmax_lse, None, blocks)
    else:
        got = kt.decode(flat, k_cache, v_cache, page_table=table, seqlens_k=lengths, cu_seqlens_q=offsets_q, max_seqlen_q=rows, **rules,
                        **_descales(q_descale, k_descale, v_descale), scale=softmax_scale, return_lse=return_softmax_lse,
                        splits=num_splits if num_splits > 1 else 0, continuous=page_table is None, max_blocks=blocks)
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
