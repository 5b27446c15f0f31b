"""The calls of FlashInfer on kiln's kernels.

    import kiln.compat.flashinfer as flashinfer

Arguments and meaning are the original's: wrappers are planned and run, pages come as CSR (indptr, indices, last_page_len), layouts are
"NHD" and "HND", log-sum-exp is base 2. Kernels plan by themselves from lengths on the device, so a plan is a page table, and the workspace
buffers are not used. Masks of batches are score expressions, which compute every key. "ROPE_LLAMA" rotates a copy of the keys (`_rope.py`).
What kiln has no kernel for raises NotImplementedError with the reason: caches of float8_e5m2, block-sparse wrappers.
The original's submodules (`flashinfer.decode`, `.prefill`, `.page`, `.cascade`, `.mla`) are this module.
"""
from __future__ import annotations

import math
import sys
from typing import Optional, Sequence

import torch

from .. import torch as kt
from .._errors import Error
from ._rope import rows_of, turned, with_rotated_pages
from ._scores import scores
from ._states import get_batch_indices_positions, get_seq_lens, merge_state, merge_state_in_place, merge_states, slopes

__all__ = ["BatchDecodeWithPagedKVCacheWrapper", "BatchMLAPagedAttentionWrapper", "BatchPrefillWithPagedKVCacheWrapper",
           "BatchPrefillWithRaggedKVCacheWrapper", "BatchDecodeWithSharedPrefixPagedKVCacheWrapper",
           "BatchPrefillWithSharedPrefixPagedKVCacheWrapper", "CUDAGraphBatchDecodeWithPagedKVCacheWrapper", "MultiLevelCascadeAttentionWrapper",
           "append_paged_kv_cache", "append_paged_mla_kv_cache", "fast_decode_plan", "get_batch_indices_positions", "get_seq_lens", "merge_state",
           "merge_state_in_place", "merge_states", "single_decode_with_kv_cache", "single_prefill_with_kv_cache"]

_LOG2_E = math.log2(math.e)
_MOST_TABLE = 1 << 26  # entries of a page table that a graph may need

decode = prefill = page = cascade = mla = sys.modules[__name__]

# Options that say how the original works, not what it computes.
_WORKINGS = {"block_tables", "data_type", "disable_split_kv", "fixed_split_size", "global_override_indptr_cpu", "max_sequence_kv",
             "max_token_per_sequence", "non_blocking", "q_len_per_req", "seq_lens", "seq_lens_q", "use_fp16_qk_reduction", "use_profiler"}


def _missing(name: str, value, why: str):
    return NotImplementedError(f"{name}: {value}; {why}")


def _check_others(others: dict) -> None:
    """Refuses options that are not known to leave results as they are."""
    for name, value in others.items():
        if name not in _WORKINGS and value is not None:
            raise _missing(name, "given", "None is needed")


def _heads_second(kv_layout: str) -> bool:
    if kv_layout not in ("NHD", "HND"):
        raise Error("bad_input", f"kv_layout: {kv_layout!r}; NHD or HND is needed")
    return kv_layout == "HND"


def _pools(cache, kv_layout: str):
    """K and V as [pages, page_size, heads, depth], views of a tensor with an axis of 2 or of a pair."""
    k, v = cache if isinstance(cache, (tuple, list)) else cache.unbind(1)
    return (k.transpose(1, 2), v.transpose(1, 2)) if _heads_second(kv_layout) else (k, v)


def _rules(q, causal: bool, window_left: Optional[int], pos_encoding_mode: str, logits_soft_cap, seen=None) -> dict:
    """Keywords of kiln.torch for queries q [.., heads, depth]."""
    if pos_encoding_mode not in ("NONE", "ALIBI", "ROPE_LLAMA"):
        raise Error("bad_input", f"pos_encoding_mode: {pos_encoding_mode!r}; NONE, ALIBI or ROPE_LLAMA is needed")
    left = -1 if window_left is None else window_left
    right = 0 if causal else -1
    softcap = float(logits_soft_cap or 0.0)
    if pos_encoding_mode == "ALIBI" and seen is None and softcap == 0.0:
        return {**scores(left, right), "softcap": 0.0, "score_mod": "alibi"}
    biases = slopes(q.shape[-2], q.device) if pos_encoding_mode == "ALIBI" else None
    return scores(left, right, softcap=softcap, slopes=biases, slopes_capped=True, seen=seen)


def _rope(options: dict) -> Optional[dict]:
    """What rotates queries and keys; None: nothing does."""
    return {name: options.get(name) for name in ("rope_scale", "rope_theta")} if options["pos_encoding_mode"] == "ROPE_LLAMA" else None


def _scale(sm_scale, depth: int, q_scale=None, k_scale=None) -> float:
    scale = depth**-0.5 if sm_scale is None else float(sm_scale)
    for factor in (q_scale, k_scale):
        if isinstance(factor, torch.Tensor) and factor.numel() != 1:
            raise _missing("q_scale, k_scale", list(factor.shape), "one number is needed")
        scale *= 1.0 if factor is None else float(factor)
    return scale


def _results(out, lse, v_scale, wanted: bool, lse_out):
    """lse [heads, rows], natural logarithm, as FlashInfer has it: [rows, heads], base 2."""
    if v_scale is not None:
        out.mul_(float(v_scale))
    if lse is None or not (wanted or lse_out is not None):
        return out
    lse = lse.transpose(-1, -2) * _LOG2_E
    lse = lse_out.copy_(lse) if lse_out is not None else lse.contiguous()
    return (out, lse) if wanted else out


class _Pages:
    """Page table and lengths of a batch, from CSR. With `buffers` (a CUDA graph's) they stay where they are."""

    def __init__(self):
        self.table = self.lengths = None

    def plan(self, indptr, indices, last_page_len, page_size: int, device, fixed_width: int = 0):
        indptr, indices, last = (x.to(device=device, dtype=torch.int32, non_blocking=True) for x in (indptr, indices, last_page_len))
        counts = indptr.diff()
        width = max(int(counts.max()) if counts.numel() else 0, 1)
        if fixed_width:
            if width > fixed_width:
                raise Error("bad_input", f"paged_kv_indptr: {width} pages of a sequence; the buffers of the graph have {fixed_width}")
            width = fixed_width
        at = indptr[:-1, None] + torch.arange(width, dtype=torch.int32, device=device)
        filled = indices if indices.numel() else indices.new_zeros(1)
        table = filled[at.clamp_(max=filled.numel() - 1).long()]
        lengths = torch.where(counts > 0, (counts - 1) * page_size + last, 0).int()
        if fixed_width and self.table is not None and self.table.shape == table.shape:
            self.table.copy_(table)
            self.lengths.copy_(lengths)
        else:
            self.table, self.lengths = table, lengths


class _Wrapper:
    """What the batch wrappers share: the options of a plan."""

    def __init__(self, float_workspace_buffer: torch.Tensor, kv_layout: str = "NHD", use_cuda_graph: bool = False):
        _heads_second(kv_layout)
        self.device, self._layout, self._graph = float_workspace_buffer.device, kv_layout, use_cuda_graph
        self._pages, self._options, self._width = _Pages(), None, 0

    @property
    def is_cuda_graph_enabled(self) -> bool:
        return self._graph

    def reset_workspace_buffer(self, *_, **__) -> None:
        """Nothing: kernels keep their own workspace."""

    def _fixed(self, batch: int, indices_buffer) -> int:
        """Pages of a sequence that a graph's buffers allow; 0 without a graph."""
        if not self._graph or indices_buffer is None:
            return 0
        if batch * indices_buffer.numel() > _MOST_TABLE:
            raise Error("bad_input", f"paged_kv_indices_buffer: {indices_buffer.numel()} pages for {batch} sequences; "
                                     f"{_MOST_TABLE // max(batch, 1)} are the limit")
        return indices_buffer.numel()

    def _planned(self):
        if self._options is None:
            raise Error("bad_input", "run before plan; plan() is needed first")
        return self._options

    def end_forward(self) -> None:
        """Nothing: there is no state of a step."""


class BatchDecodeWithPagedKVCacheWrapper(_Wrapper):
    """One query row for each sequence, over pages."""

    def __init__(self, float_workspace_buffer, kv_layout="NHD", use_cuda_graph=False, use_tensor_cores=False, paged_kv_indptr_buffer=None,
                 paged_kv_indices_buffer=None, paged_kv_last_page_len_buffer=None, backend="auto", jit_args=None):
        super().__init__(float_workspace_buffer, kv_layout, use_cuda_graph)
        if jit_args is not None:
            raise _missing("jit_args", "given", "kiln's variants are score_mod expressions of its configs")
        self._indices_buffer = paged_kv_indices_buffer

    def plan(self, indptr, indices, last_page_len, num_qo_heads, num_kv_heads, head_dim, page_size, pos_encoding_mode="NONE", window_left=-1,
             logits_soft_cap=None, q_data_type="float16", kv_data_type=None, o_data_type=None, data_type=None, sm_scale=None, rope_scale=None,
             rope_theta=None, non_blocking=True, **others):
        _check_others(others)
        self._pages.plan(indptr, indices, last_page_len, page_size, self.device, self._fixed(indptr.numel() - 1, self._indices_buffer))
        self._options = dict(pos_encoding_mode=pos_encoding_mode, window_left=window_left, logits_soft_cap=logits_soft_cap, sm_scale=sm_scale,
                             rope_scale=rope_scale, rope_theta=rope_theta)

    begin_forward = plan

    def run(self, q, paged_kv_cache, *, q_scale=None, k_scale=None, v_scale=None, out=None, lse=None, return_lse=False, enable_pdl=None,
            window_left=None, sinks=None, **others):
        """q [batch, heads, depth]. Returns out, or (out, lse [batch, heads])."""
        _check_others(others)
        planned, with_lse = self._planned(), return_lse or lse is not None
        left = planned["window_left"] if window_left is None else window_left
        k, v = _pools(paged_kv_cache, self._layout)
        table, rope = self._pages.table, _rope(planned)
        if rope is not None:
            q, k, v, table = with_rotated_pages(q, k, v, table, self._pages.lengths, kt.row_offsets(q.shape[0], 1, q), rope)
        got = kt.decode(q, k, v, page_table=table, seqlens_k=self._pages.lengths, sink=sinks, out=out, return_lse=with_lse,
                        continuous=rope is not None, scale=_scale(planned["sm_scale"], q.shape[-1], q_scale, k_scale),
                        **_rules(q, left >= 0, left, planned["pos_encoding_mode"], planned["logits_soft_cap"]))
        return _results(*(got if with_lse else (got, None)), v_scale, return_lse, lse)

    def forward_return_lse(self, q, paged_kv_cache, **keywords):
        return self.run(q, paged_kv_cache, return_lse=True, **keywords)

    forward, run_return_lse = run, forward_return_lse


def fast_decode_plan(self: BatchDecodeWithPagedKVCacheWrapper, *arguments, **keywords) -> None:
    """The plan of a wrapper, which is fast as it is."""
    BatchDecodeWithPagedKVCacheWrapper.plan(self, *arguments, **keywords)


class CUDAGraphBatchDecodeWithPagedKVCacheWrapper(BatchDecodeWithPagedKVCacheWrapper):
    """As BatchDecodeWithPagedKVCacheWrapper in a CUDA graph: plans after the first keep page table and lengths in place."""

    def __init__(self, workspace_buffer, indptr_buffer, indices_buffer, last_page_len_buffer, kv_layout="NHD", use_tensor_cores=False):
        super().__init__(workspace_buffer, kv_layout, True, use_tensor_cores, indptr_buffer, indices_buffer, last_page_len_buffer)


def _bits(packed: torch.Tensor) -> torch.Tensor:
    """The bits of bytes, lowest first."""
    return ((packed[:, None] >> torch.arange(8, dtype=torch.uint8, device=packed.device)) & 1).reshape(-1).bool()


def _batch_mask(rows: Sequence[int], keys: Sequence[int], custom_mask, packed_custom_mask) -> torch.Tensor:
    """bool [batch, rows, keys] from the masks of all sequences, one after the other; packed ones begin at whole bytes."""
    seen = torch.zeros((len(rows), max([*rows, 1]), max([*keys, 1])), dtype=torch.bool)
    given = (custom_mask if custom_mask is not None else packed_custom_mask).cpu()
    begin = 0
    for i, (r, k) in enumerate(zip(rows, keys)):
        size = r * k if custom_mask is not None else (r * k + 7) // 8
        one = given[begin:begin + size]
        if one.numel() != size:
            raise Error("bad_input", f"custom_mask: {given.numel()} elements; all rows times keys of each sequence are needed")
        seen[i, :r, :k] = (one.bool() if custom_mask is not None else _bits(one)[: r * k]).view(r, k)
        begin += size
    return seen


class _Rows(_Wrapper):
    """Several query rows for each sequence."""

    def _plan_rows(self, qo_indptr, lengths_k, causal, custom_mask, packed_custom_mask, options):
        """lengths_k: keys of each sequence."""
        seen = None
        if custom_mask is not None or packed_custom_mask is not None:
            if self._graph:
                raise _missing("custom_mask", "given", "masks of a CUDA graph are not kept where they are: None is needed")
            seen = _batch_mask(qo_indptr.diff().tolist(), lengths_k.tolist(), custom_mask, packed_custom_mask).to(self.device)
            causal = False
        starts = qo_indptr.to(device=self.device, dtype=torch.int32)
        longest = max(int(starts.diff().max()) if starts.numel() > 1 else 0, 1)
        if self._graph and self._options is not None and self._options["starts"].shape == starts.shape:
            starts = self._options["starts"].copy_(starts)
            longest = max(longest, self._options["longest"])
        self._options = dict(options, starts=starts, longest=longest, causal=causal, seen=seen)

    def _common(self, q, q_scale, k_scale, out, window_left, sinks, others):
        _check_others(others)
        planned = self._planned()
        window = planned["window_left"] if window_left is None else window_left
        return dict(cu_seqlens_q=planned["starts"], max_seqlen_q=planned["longest"], sink=sinks, out=out, return_lse=True,
                    scale=_scale(planned["sm_scale"], q.shape[-1], q_scale, k_scale),
                    **_rules(q, planned["causal"], window, planned["pos_encoding_mode"], planned["logits_soft_cap"], planned["seen"]))


class BatchPrefillWithPagedKVCacheWrapper(_Rows):
    """The last rows of each sequence over its pages: prefill, chunks and appends."""

    def __init__(self, float_workspace_buffer, kv_layout="NHD", use_cuda_graph=False, qo_indptr_buf=None, paged_kv_indptr_buf=None,
                 paged_kv_indices_buf=None, paged_kv_last_page_len_buf=None, custom_mask_buf=None, mask_indptr_buf=None, backend="auto",
                 jit_args=None, jit_kwargs=None):
        super().__init__(float_workspace_buffer, kv_layout, use_cuda_graph)
        if jit_args is not None:
            raise _missing("jit_args", "given", "kiln's variants are score_mod expressions of its configs")
        self._indices_buffer = paged_kv_indices_buf

    def plan(self, qo_indptr, paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len, num_qo_heads, num_kv_heads, head_dim_qk, page_size,
             head_dim_vo=None, custom_mask=None, packed_custom_mask=None, causal=False, pos_encoding_mode="NONE", use_fp16_qk_reduction=False,
             sm_scale=None, window_left=-1, logits_soft_cap=None, rope_scale=None, rope_theta=None, q_data_type="float16", kv_data_type=None,
             non_blocking=True, **others):
        _check_others(others)
        counts = paged_kv_indptr.diff().cpu()
        self._plan_rows(qo_indptr, torch.where(counts > 0, (counts - 1) * page_size + paged_kv_last_page_len.cpu(), 0), causal, custom_mask,
                        packed_custom_mask,
                        dict(pos_encoding_mode=pos_encoding_mode, window_left=window_left, logits_soft_cap=logits_soft_cap, sm_scale=sm_scale,
                             rope_scale=rope_scale, rope_theta=rope_theta))
        self._pages.plan(paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len, page_size, self.device,
                         self._fixed(qo_indptr.numel() - 1, self._indices_buffer))

    begin_forward = plan

    def run(self, q, paged_kv_cache, *, q_scale=None, k_scale=None, v_scale=None, out=None, lse=None, return_lse=False, enable_pdl=None,
            window_left=None, sinks=None, **others):
        """q [rows, heads, depth]. Returns out, or (out, lse [rows, heads])."""
        k, v = _pools(paged_kv_cache, self._layout)
        table, rope = self._pages.table, _rope(self._planned())
        if rope is not None:
            q, k, v, table = with_rotated_pages(q, k, v, table, self._pages.lengths, self._planned()["starts"], rope)
        got = kt.decode(q, k, v, page_table=table, seqlens_k=self._pages.lengths, continuous=rope is not None,
                        **self._common(q, q_scale, k_scale, out, window_left, sinks, others))
        return _results(*got, v_scale, return_lse, lse)

    def forward_return_lse(self, q, paged_kv_cache, **keywords):
        return self.run(q, paged_kv_cache, return_lse=True, **keywords)

    forward, run_return_lse = run, forward_return_lse


class BatchPrefillWithRaggedKVCacheWrapper(_Rows):
    """Ragged rows of queries over ragged rows of keys."""

    def __init__(self, float_workspace_buffer, kv_layout="NHD", use_cuda_graph=False, qo_indptr_buf=None, kv_indptr_buf=None,
                 custom_mask_buf=None, mask_indptr_buf=None, backend="auto", jit_args=None, jit_kwargs=None):
        super().__init__(float_workspace_buffer, kv_layout, use_cuda_graph)
        if _heads_second(kv_layout):
            raise _missing("kv_layout", kv_layout, "ragged keys are [rows, heads, depth]: NHD is needed")

    def plan(self, qo_indptr, kv_indptr, num_qo_heads, num_kv_heads, head_dim_qk, head_dim_vo=None, custom_mask=None, packed_custom_mask=None,
             causal=False, pos_encoding_mode="NONE", use_fp16_qk_reduction=False, window_left=-1, logits_soft_cap=None, sm_scale=None,
             rope_scale=None, rope_theta=None, q_data_type="float16", kv_data_type=None, non_blocking=True, **others):
        _check_others(others)
        self._plan_rows(qo_indptr, kv_indptr.diff(), causal, custom_mask, packed_custom_mask,
                        dict(pos_encoding_mode=pos_encoding_mode, window_left=window_left, logits_soft_cap=logits_soft_cap, sm_scale=sm_scale,
                             rope_scale=rope_scale, rope_theta=rope_theta))
        starts = kv_indptr.to(device=self.device, dtype=torch.int32)
        self._keys = starts, max(int(starts.diff().max()) if starts.numel() > 1 else 0, 1)

    begin_forward = plan

    def run(self, q, k, v, *, q_scale=None, k_scale=None, v_scale=None, out=None, lse=None, return_lse=False, enable_pdl=None,
            window_left=None, sinks=None, **others):
        """q [rows, heads, depth], k and v [keys, heads_kv, ..]. Returns out, or (out, lse [rows, heads])."""
        rope = _rope(self._planned())
        if rope is not None:
            lengths, starts = self._keys[0].diff(), self._planned()["starts"]
            k, v = k.to(q.dtype), v.to(q.dtype)
            q, k = turned(q, rows_of(starts, lengths, q.shape[0]), **rope), turned(k, rows_of(self._keys[0], lengths, k.shape[0]), **rope)
        got = kt.attention(q, k, v, **self._common(q, q_scale, k_scale, out, window_left, sinks, others), cu_seqlens_k=self._keys[0],
                           max_seqlen_k=self._keys[1])
        return _results(*got, v_scale, return_lse, lse)

    def forward_return_lse(self, q, k, v, **keywords):
        return self.run(q, k, v, return_lse=True, **keywords)

    forward, run_return_lse = run, forward_return_lse


class BatchMLAPagedAttentionWrapper:
    """Latent attention over pages of 512 latent and 64 or no rotary columns, which lie in tensors of their own. sm_90a and the emulated device."""

    def __init__(self, float_workspace_buffer, use_cuda_graph=False, qo_indptr=None, kv_indptr=None, kv_indices=None, kv_len_arr=None, backend="auto"):
        self.device = float_workspace_buffer.device
        self._options, self._pages = None, _Pages()

    def plan(self, qo_indptr, kv_indptr, kv_indices, kv_len_arr, num_heads, head_dim_ckv, head_dim_kpe, page_size, causal, sm_scale, q_data_type,
             kv_data_type, use_profiler=False, lse_mode="base2", **others):
        _check_others(others)
        if lse_mode != "base2":
            raise _missing("lse_mode", repr(lse_mode), "'base2' is needed")
        lengths = kv_len_arr.to(device=self.device, dtype=torch.int32)
        self._pages.plan(kv_indptr, kv_indices, lengths - (kv_indptr.to(self.device).diff() - 1) * page_size, page_size, self.device)
        starts = qo_indptr.to(device=self.device, dtype=torch.int32)
        index = -1 if self.device.type == "cpu" else self.device.index or 0
        config = {"target": "sm_90a" if index < 0 else kt._target(index), "operation": "decode", "dtype": kt._DTYPES.get(q_data_type, str(q_data_type)),
                  "depth": head_dim_ckv + head_dim_kpe, "ov_depth": head_dim_ckv, "v_from_k": True, "lse": True,
                  "operand": {"kind": "paged", "page_size": page_size}, "mask": "causal" if causal else "none"}
        if head_dim_kpe:
            config.update(rope_depth=head_dim_kpe, rope={"layout": "separate"})
        if kv_data_type != q_data_type:
            raise _missing("kv_data_type", kv_data_type, "the queries' type is needed")
        self._options = dict(starts=starts, longest=max(int(starts.diff().max()), 1), scale=float(sm_scale), rotary=head_dim_kpe > 0,
                             kernel=kt.runtime(self.device).load(config))

    def run(self, q_nope, q_pe, ckv_cache, kpe_cache, out=None, lse=None, return_lse=False, **others):
        """q_nope [rows, heads, 512], q_pe [rows, heads, 64], ckv_cache [pages, page_size, 512], kpe_cache [pages, page_size, 64]; planned with
        head_dim_kpe 0, q_pe and kpe_cache are not read and may be None."""
        _check_others(others)
        if self._options is None:
            raise Error("bad_input", "run before plan; plan() is needed first")
        rotary = self._options["rotary"]
        q = torch.cat((q_nope, q_pe), -1) if rotary else q_nope
        out = torch.empty_like(q_nope, memory_format=torch.contiguous_format) if out is None else out
        natural = q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32)
        self._options["kernel"](q, ckv_cache.unsqueeze(2), None, out, lse=natural, k_rope=kpe_cache.unsqueeze(2) if rotary else None, page_table=self._pages.table,
                                seqlens_k=self._pages.lengths, cu_seqlens_q=self._options["starts"], max_seqlen_q=self._options["longest"],
                                scale=self._options["scale"])
        return _results(out, natural, None, return_lse, lse)


class MultiLevelCascadeAttentionWrapper:
    """Levels of shared prefixes, each with pages of its own: results of the levels, merged."""

    def __init__(self, num_levels: int, float_workspace_buffer, kv_layout: str = "NHD", use_cuda_graph: bool = False, **buffers):
        self._levels = [BatchPrefillWithPagedKVCacheWrapper(float_workspace_buffer, kv_layout) for _ in range(num_levels)]

    def plan(self, qo_indptr_arr: Sequence[torch.Tensor], paged_kv_indptr_arr, paged_kv_indices_arr, paged_kv_last_page_len, num_qo_heads, num_kv_heads,
             head_dim, page_size, causal=False, **options):
        last = len(self._levels) - 1
        for number, level in enumerate(self._levels):
            level.plan(qo_indptr_arr[number], paged_kv_indptr_arr[number], paged_kv_indices_arr[number], paged_kv_last_page_len[number], num_qo_heads,
                       num_kv_heads, head_dim, page_size, causal=causal and number == last, **options)

    begin_forward = plan

    def run(self, q, paged_kv_cache):
        out, lse = self._levels[-1].run(q, paged_kv_cache, return_lse=True)
        for level in self._levels[:-1]:
            out, lse = merge_state(out, lse, *level.run(q, paged_kv_cache, return_lse=True))
        return out

    forward = run


class BatchPrefillWithSharedPrefixPagedKVCacheWrapper:
    """The original's older form of two levels: one prefix that all sequences share, and pages of each."""

    def __init__(self, float_workspace_buffer, kv_layout: str = "NHD"):
        self._own, self._layout = BatchPrefillWithPagedKVCacheWrapper(float_workspace_buffer, kv_layout), kv_layout

    def begin_forward(self, qo_indptr, paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len, num_qo_heads, num_kv_heads, head_dim, page_size):
        self._pages = qo_indptr, paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len, num_qo_heads, num_kv_heads, head_dim, page_size
        self._planned_for = None

    def forward(self, q, k_shared, v_shared, unique_kv_cache, causal=False, use_fp16_qk_reduction=False, sm_scale=None, rope_scale=None,
                rope_theta=None):
        """q [rows, heads, depth]; k_shared and v_shared as single_prefill_with_kv_cache."""
        _check_others(dict(rope_scale=rope_scale, rope_theta=rope_theta))
        if self._planned_for != (causal, sm_scale):
            self._own.plan(*self._pages, causal=causal, sm_scale=sm_scale)
            self._planned_for = causal, sm_scale
        shared = single_prefill_with_kv_cache(q, k_shared, v_shared, kv_layout=self._layout, sm_scale=sm_scale, return_lse=True)
        return merge_state(*shared, *self._own.run(q, unique_kv_cache, return_lse=True))[0]

    def end_forward(self) -> None:
        """Nothing: there is no state of a step."""


class BatchDecodeWithSharedPrefixPagedKVCacheWrapper(BatchPrefillWithSharedPrefixPagedKVCacheWrapper):
    """The same for one query row of each sequence."""

    def begin_forward(self, unique_kv_indptr, unique_kv_indices, unique_kv_last_page_len, num_qo_heads, num_kv_heads, head_dim, page_size, **others):
        _check_others(others)
        rows = torch.arange(unique_kv_indptr.numel(), dtype=torch.int32)
        super().begin_forward(rows, unique_kv_indptr, unique_kv_indices, unique_kv_last_page_len, num_qo_heads, num_kv_heads, head_dim, page_size)

    def forward(self, q, k_shared, v_shared, unique_kv_cache, use_fp16_qk_reduction=False, sm_scale=None, rope_scale=None, rope_theta=None):
        """q [batch, heads, depth]."""
        return super().forward(q, k_shared, v_shared, unique_kv_cache, sm_scale=sm_scale, rope_scale=rope_scale, rope_theta=rope_theta)


def _one_request(q, k, v, kv_layout, keywords, return_lse, rope=None):
    if _heads_second(kv_layout):
        k, v = k.transpose(0, 1), v.transpose(0, 1)
    if rope is not None:
        k, v = k.to(q.dtype), v.to(q.dtype)  # what was rotated has no room in eight bits
        places = torch.arange(k.shape[0], device=k.device)
        q, k = turned(q, places[k.shape[0] - q.shape[1]:][None], **rope), turned(k, places, **rope)
    got = kt.attention(q, k[None], v[None], return_lse=return_lse, **keywords)
    out, lse = got if return_lse else (got, None)
    return out[0], lse[0] if return_lse else None


def single_decode_with_kv_cache(q, k, v, kv_layout="NHD", pos_encoding_mode="NONE", use_tensor_cores=False, q_scale=None, k_scale=None, v_scale=None,
                                window_left=-1, logits_soft_cap=None, sm_scale=None, rope_scale=None, rope_theta=None, return_lse=False):
    """q [heads, depth]; k, v [keys, heads_kv, depth] (NHD) or [heads_kv, keys, depth]. Returns out, or (out, lse [heads])."""
    keywords = dict(scale=_scale(sm_scale, q.shape[-1], q_scale, k_scale), **_rules(q, window_left >= 0, window_left, pos_encoding_mode, logits_soft_cap))
    out, lse = _one_request(q[None, None], k, v, kv_layout, keywords, return_lse,
                            _rope(dict(pos_encoding_mode=pos_encoding_mode, rope_scale=rope_scale, rope_theta=rope_theta)))
    got = _results(out, lse, v_scale, return_lse, None)
    return (got[0][0], got[1][0]) if return_lse else got[0]


def single_prefill_with_kv_cache(q, k, v, scale_q=None, scale_k=None, scale_v=None, o_dtype=None, custom_mask=None, packed_custom_mask=None,
                                 causal=False, kv_layout="NHD", pos_encoding_mode="NONE", use_fp16_qk_reduction=False, sm_scale=None, window_left=-1,
                                 logits_soft_cap=None, rope_scale=None, rope_theta=None, backend="auto", return_lse=False):
    """q [rows, heads, depth]; k, v as single_decode_with_kv_cache. custom_mask bool [rows, keys], or its bits, row after row, eight to a byte,
    the lowest first. Returns out, or (out, lse [rows, heads])."""
    keys = k.shape[1 if _heads_second(kv_layout) else 0]
    if packed_custom_mask is not None and custom_mask is None:
        custom_mask = _bits(packed_custom_mask)[: q.shape[0] * keys]
    masks = {}
    if custom_mask is not None:
        masks = {"mask_bits": kt.pack_mask(custom_mask.bool().reshape(1, 1, q.shape[0], keys)), "causal": False}
    keywords = dict(scale=_scale(sm_scale, q.shape[-1], scale_q, scale_k),
                    **{**_rules(q, causal, window_left, pos_encoding_mode, logits_soft_cap), **masks})
    out, lse = _one_request(q[None], k, v, kv_layout, keywords, return_lse,
                            _rope(dict(pos_encoding_mode=pos_encoding_mode, rope_scale=rope_scale, rope_theta=rope_theta)))
    if o_dtype is not None:
        out = out.to(o_dtype)
    return _results(out, lse, scale_v, return_lse, None)


def _places(batch_indices, positions, kv_indices, kv_indptr, page_size: int):
    batch, at = batch_indices.long(), positions.long()
    return kv_indices[kv_indptr[batch].long() + at // page_size].long(), at % page_size


def append_paged_kv_cache(append_key, append_value, batch_indices, positions, paged_kv_cache, kv_indices, kv_indptr, kv_last_page_len,
                          kv_layout="NHD") -> None:
    """append_key and append_value [rows, heads_kv, depth] into the pages of their sequences, in place."""
    k, v = _pools(paged_kv_cache, kv_layout)
    place = _places(batch_indices, positions, kv_indices, kv_indptr, k.shape[1])
    k[place] = append_key.to(k.dtype)
    v[place] = append_value.to(v.dtype)


def append_paged_mla_kv_cache(append_ckv, append_kpe, batch_indices, positions, ckv_cache, kpe_cache, kv_indices, kv_indptr, kv_last_page_len) -> None:
    """append_ckv [rows, 512] and append_kpe [rows, 64] into [pages, page_size, 512] and [pages, page_size, 64], in place."""
    place = _places(batch_indices, positions, kv_indices, kv_indptr, ckv_cache.shape[1])
    ckv_cache[place] = append_ckv.to(ckv_cache.dtype)
    kpe_cache[place] = append_kpe.to(kpe_cache.dtype)
