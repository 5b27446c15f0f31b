"""kiln as an attention implementation of Hugging Face transformers.

    import kiln.transformers
    kiln.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(..., attn_implementation="kiln")

For inference. Masks are made as for "sdpa": none where a causal or full one says it all, else a boolean one, which becomes a bit mask.
Attention sinks (`s_aux`) and softcaps are those of the kernels.
"""
from __future__ import annotations

from typing import Optional

import torch

from . import torch as kt


def attention_forward(module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Optional[torch.Tensor],
                      dropout: float = 0.0, scaling: Optional[float] = None, is_causal: Optional[bool] = None,
                      softcap: Optional[float] = None, s_aux: Optional[torch.Tensor] = None, **kwargs):
    """query, key, value [batch, heads, seqlen, depth]. Returns (out [batch, seqlen, heads, depth], None)."""
    if dropout:
        raise NotImplementedError(f"dropout: {dropout}; kiln has no dropout: call model.eval()")
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    bits = None
    if attention_mask is not None:
        if attention_mask.dtype != torch.bool:
            raise NotImplementedError(f"attention_mask: {attention_mask.dtype}; bool is needed: kiln adds no mask to scores")
        mask = attention_mask[..., : key.shape[2]]
        bits = kt.pack_mask(mask.expand(*mask.shape[:2], query.shape[2], key.shape[2]))
    out = kt.attention(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), mask_bits=bits,
                       causal=bool(causal) and bits is None and query.shape[2] > 1, scale=scaling, softcap=softcap or 0.0,
                       sink=s_aux.float() if s_aux is not None else None)
    return out, None


def register(name: str = "kiln") -> None:
    """Makes `attn_implementation=name` known to transformers."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, sdpa_mask)
