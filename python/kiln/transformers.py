"""kiln as an attention implementation of Hugging Face transformers.

    import kiln.transformers
    kiln.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(..., attn_implementation="kiln")

For inference. A causal mask or a sliding window without padding is the kernel's own, over dynamic and static caches; with padding, and for
what is neither, a boolean mask is made as for "sdpa" and becomes a bit mask. Attention sinks (`s_aux`) and softcaps are those of the kernels.
`generate_batch` (continuous batching) takes "kiln", too; before transformers 5.23 it is called "paged|kiln" there. Layers of full attention
read the cache's pages where they are when transformers gives a block table (its `max_blocks_per_request`; before 5.23 always); else, and
under sliding windows, kiln reads the rows that transformers gathers.
"""
from __future__ import annotations

from typing import Optional

import torch

from . import torch as kt


def _counts(mask: torch.Tensor):
    """(keys of each sequence, window or None) of what `mask_function` gives where no mask is needed; None for another mask."""
    if mask is None or mask.dtype != torch.int32:
        return None
    return mask[:, 0, 0, 0].contiguous(), (mask.shape[1] - 1 or None)  # transformers may have copied the expanded tensor


def _window_of(mask_function, causal) -> Optional[int]:
    """0 for a plain causal mask, the keys of a plain sliding window, None for any other mask."""
    if mask_function is causal:
        return 0
    if not getattr(mask_function, "__qualname__", "").startswith("and_masks."):
        return None
    parts = [cell.cell_contents for cell in getattr(mask_function, "__closure__", None) or ()]
    functions = parts[0] if len(parts) == 1 and isinstance(parts[0], tuple) else ()
    if len(functions) != 2 or functions[1] is not causal or not getattr(functions[0], "__qualname__", "").startswith("sliding_window_overlay."):
        return None
    sizes = [cell.cell_contents for cell in functions[0].__closure__ or ()]
    return sizes[0] if len(sizes) == 1 and isinstance(sizes[0], int) else None


def mask_function(batch_size: int, q_length: int, kv_length: int, q_offset=0, kv_offset=0, mask_function=None, attention_mask=None, device="cpu",
                  **kwargs):
    """The mask of a step, as AttentionMaskInterface asks for it: None where every row sees all keys up to its own and keys end with the last
    row; int32 [batch, 1 + window, 1, 1], the number of keys in use, where a causal mask (window 0) or a sliding window is all there is;
    else sdpa's boolean mask."""
    from transformers.masking_utils import causal_mask_function, sdpa_mask

    window = _window_of(mask_function or causal_mask_function, causal_mask_function)
    if window is not None and not torch.compiler.is_compiling():
        seen = int(q_offset) + q_length - int(kv_offset)  # keys in use: a static cache is longer
        padding = attention_mask[:, int(kv_offset):int(kv_offset) + seen] if attention_mask is not None else None
        if padding is None or bool(padding.all()):
            # A compiled step asks for no None, so that the kind of mask does not change from step to step.
            whole = seen == kv_length and (window == 0 and q_length in (1, kv_length) or window >= kv_length)
            if whole and kwargs.get("allow_is_causal_skip", True):
                return None
            return torch.full((batch_size, 1, 1, 1), seen, dtype=torch.int32, device=device).expand(-1, 1 + window, -1, -1)
    extra = dict(mask_function=mask_function) if mask_function is not None else {}
    kwargs["allow_is_causal_skip"] = False
    return sdpa_mask(batch_size=batch_size, q_length=q_length, kv_length=kv_length, q_offset=q_offset, kv_offset=kv_offset,
                     attention_mask=attention_mask, device=device, **extra, **kwargs)


def attention_forward(module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Optional[torch.Tensor],
                      dropout: float = 0.0, scaling: Optional[float] = None, is_causal: Optional[bool] = None,
                      softcap: Optional[float] = None, s_aux: Optional[torch.Tensor] = None, **kwargs):
    """query, key, value [batch, heads, seqlen, depth]. Returns (out [batch, seqlen, heads, depth], None)."""
    if dropout:
        raise NotImplementedError(f"dropout: {dropout}; kiln has no dropout: call model.eval()")
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    rows, keys, values = (x.transpose(1, 2) for x in (query, key, value))
    common = dict(scale=scaling, softcap=softcap or 0.0, sink=s_aux.float() if s_aux is not None else None)
    if kwargs.get("cu_seq_lens_q") is not None:
        return _packed(module, rows, keys, values, common, **kwargs), None
    counts = _counts(attention_mask)
    if counts is not None:
        return _over_cache(rows, keys, values, *counts, common), None
    if attention_mask is None:
        return kt.attention(rows, keys, values, causal=bool(causal) and rows.shape[1] > 1, **common), None
    if attention_mask.dtype != torch.bool:
        raise NotImplementedError(f"attention_mask: {attention_mask.dtype}; bool is needed: kiln adds no mask to scores")
    mask = attention_mask[..., : keys.shape[1]]
    bits = kt.pack_mask(mask.expand(*mask.shape[:2], rows.shape[1], keys.shape[1]))
    return kt.attention(rows, keys, values, mask_bits=bits, **common), None


def _over_cache(rows, keys, values, counts, window, common):
    """rows [batch, seqlen_q, heads, depth] over the first `counts` int32 [batch] keys of each sequence, of which they are the last."""
    batch, length = rows.shape[:2]
    if length == keys.shape[1]:  # prefill without a cache, or into one just as long
        return kt.attention(rows, keys, values, **({"window": window} if window else {"causal": True}), **common)
    out = kt.decode(rows.reshape(-1, *rows.shape[2:]), keys, values, page_table=kt.row_offsets(batch, 1, rows)[:-1, None], seqlens_k=counts,
                    continuous=True, cu_seqlens_q=kt.row_offsets(batch, length, rows), max_seqlen_q=length, max_seqlen_k=keys.shape[1], window=window, **common)
    return out.view(*rows.shape[:3], -1)


def _packed(module, rows, keys, values, common, *, cu_seq_lens_q, cu_seq_lens_k, max_length_q, max_length_k, sliding_window=None,
            block_table=None, k_cache=None, v_cache=None, **kwargs):
    """Continuous batching as transformers has it since 5.23. rows [1, total, heads, depth]; keys and values [1, total_k, heads, depth] are
    all that the sequences see, or with a block table the one new row of each, to be written into the pools of pages
    [pages, page_size, heads, depth]. Returns [1, total, heads, depth]."""
    window = sliding_window or getattr(module, "sliding_window", None) or None
    rows, keys, values = (x.squeeze(0) for x in (rows, keys, values))
    starts_k = cu_seq_lens_k.int()
    common = dict(common, max_seqlen_k=max_length_k)
    if block_table is None:
        masked = {"window": window} if window else {"causal": True}
        out = kt.attention(rows, keys, values, cu_seqlens_q=cu_seq_lens_q.int(), cu_seqlens_k=starts_k, max_seqlen_q=max_length_q, **masked, **common)
        return out.unsqueeze(0)
    batch = rows.shape[0]
    lengths, table = starts_k.diff()[:batch], block_table[:batch]
    last = (lengths - 1).clamp_(min=0).long()
    pages = table.gather(1, torch.div(last, k_cache.shape[1], rounding_mode="floor")[:, None]).squeeze(1).long()
    for pool, new in ((k_cache, keys), (v_cache, values)):
        pool[pages, last % k_cache.shape[1]] = new
    return kt.decode(rows, k_cache, v_cache, page_table=table, seqlens_k=lengths.contiguous(), window=window, **common).unsqueeze(0)


def _layer(value, windowed: bool):
    """What continuous batching gives for each type of layer, of one layer."""
    return value["sliding_attention" if windowed else "full_attention"] if isinstance(value, dict) else value


def _page_table(cache, group: int, first: bool, starts_k: torch.Tensor, max_seqlen_k: int, rows: torch.Tensor) -> torch.Tensor:
    """int32 [batch, max_pages] of a group of layers, out of the rows of the cache that each sequence reads. Worked out by the group's first
    layer for all."""
    tables = cache.__dict__.setdefault("_kiln_page_tables", {})
    if first or group not in tables:
        pages = torch.arange(0, max(max_seqlen_k, 1), cache.block_size, device=rows.device)
        at = (starts_k[:-1, None] + pages).clamp_(max=rows.numel() - 1)
        tables[group] = torch.div(rows[at.long()], cache.block_size, rounding_mode="floor").int()
    return tables[group]


def paged_attention_forward(module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask=None, *, cache=None,
                            cu_seq_lens_q=None, cu_seq_lens_k=None, max_seqlen_q: int = 0, max_seqlen_k=0, read_index=None,
                            write_index=None, scaling: Optional[float] = None, softcap: Optional[float] = None,
                            s_aux: Optional[torch.Tensor] = None, dropout: float = 0.0, **kwargs):
    """query, key, value [1, heads, total, depth], rows of every sequence one after the other. Returns (out [total, heads, depth], None)."""
    if cache is None:
        raise ValueError("paged|kiln: no paged cache; generate_batch is needed, and kiln for a forward pass of its own")
    if dropout:
        raise NotImplementedError(f"dropout: {dropout}; kiln has no dropout: call model.eval()")
    window = getattr(module, "sliding_window", None) or None
    starts_k, longest_k = _layer(cu_seq_lens_k, window is not None).int(), _layer(max_seqlen_k, window is not None)
    starts_q = cu_seq_lens_q.int()
    common = dict(cu_seqlens_q=starts_q, max_seqlen_q=max_seqlen_q, scale=module.scaling if scaling is None else scaling,
                  softcap=softcap or 0.0, sink=s_aux.float() if s_aux is not None else None)
    rows = query.transpose(1, 2).squeeze(0)
    group, number = cache.layer_index_to_group_indices[module.layer_idx]
    if window is not None or read_index[group].numel() == 0:
        key, value = cache.update(key_states=key, value_states=value, layer_idx=module.layer_idx, read_index=read_index, write_index=write_index)
        out = kt.attention(rows, key, value, cu_seqlens_k=starts_k, max_seqlen_k=longest_k,
                           **({"window": window} if window else {"causal": True}), **common)
        return out, None
    pools = []
    for pool, new in ((cache.key_cache[number], key), (cache.value_cache[number], value)):
        pool.index_copy_(0, write_index[group], new.transpose(1, 2).squeeze(0))
        pools.append(pool.view(-1, cache.block_size, *pool.shape[1:]))
    table = _page_table(cache, group, number == 0, starts_k, longest_k, read_index[group])
    return kt.decode(rows, *pools, page_table=table, seqlens_k=starts_k.diff(), max_seqlen_k=longest_k, **common), None


def _allow_continuous_batching(name: str) -> None:
    """transformers since 5.23 takes implementations for continuous batching whose name has "flash" in it: those that need no mask and take
    offsets of packed sequences. This one is of that kind."""
    try:
        from transformers.generation.continuous_batching import cache, continuous_api, initialization
    except ImportError:
        return
    for module in (cache, continuous_api, initialization):
        asked = getattr(module, "is_flash_attention_requested", None)
        if asked is None or getattr(asked, "kiln", None) == name:
            continue

        def requested(config=None, requested_attention_implementation=None, version=None, asked=asked):
            given = requested_attention_implementation if config is None else config._attn_implementation
            return version is None if given == name else asked(config, requested_attention_implementation, version)

        requested.kiln = name
        module.is_flash_attention_requested = requested

    # Block tables for steps of one token: transformers looks for FlashAttention's function there, which is not called for this name.
    ensure = getattr(initialization, "ensure_decode_fast_path_is_available", None)
    if ensure is None or getattr(ensure, "kiln", None) == name:
        return

    def available(config, cb_config, user_requested):
        if config._attn_implementation != name:
            return ensure(config, cb_config, user_requested)
        kinds = initialization.group_layers_by_attn_type(config)
        if not all(initialization.ATTN_TYPE_TO_ALLOCATOR[kind].supports_block_table for kind in kinds):
            cb_config.max_blocks_per_request = 0

    available.kiln = name
    initialization.ensure_decode_fast_path_is_available = available


def register(name: str = "kiln") -> None:
    """Makes `attn_implementation=name` known to transformers, for continuous batching as well ("paged|" + name before 5.23)."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(name, attention_forward)
    AttentionInterface.register(f"paged|{name}", paged_attention_forward)
    AttentionMaskInterface.register(name, mask_function)
    _allow_continuous_batching(name)
