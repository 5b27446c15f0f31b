"""Masks and biases of other libraries' calls as keywords of kiln.torch: a mask of kiln's where it has one, whose kernels leave hidden tiles out,
else a score expression, whose kernels compute every key."""
from __future__ import annotations

from typing import Any, Optional

import torch


def scores(left: int = -1, right: int = -1, chunk: int = 0, softcap: float = 0.0, slopes: Optional[torch.Tensor] = None,
           first: Optional[torch.Tensor] = None, used_q: Optional[torch.Tensor] = None, used_k: Optional[torch.Tensor] = None,
           seen: Optional[torch.Tensor] = None, slopes_capped: bool = False) -> dict[str, Any]:
    """The row at position p = i + Sk - Sq sees keys from p - left to p + right (negative: no bound).

    chunk    keys of p's chunk alone
    slopes   float32 [heads] or [batch, heads]: a bias of -slope |p - j|, or with slopes_capped slope (j - p), which softcap takes in
    first    int32 [batch]: keys before it are hidden
    used_q   int32 [batch]: Sq, fewer rows than there are; used_k: Sk, fewer keys than there are
    seen     bool [batch, rows, keys]"""
    if slopes is None and used_q is None and used_k is None and seen is None:
        return _masks(left, right, chunk, softcap, first)
    captured: dict[str, torch.Tensor] = {}
    hidden: list[str] = []
    keywords: dict[str, Any] = {"causal": False}
    rows = "seqlen_q"
    place = "(q + seqlen_k - seqlen_q)"
    if used_k is not None:
        captured["used_k"] = used_k
        hidden.append("k < used_k[b]")
    placed = right >= 0 or left >= 0 or chunk > 0 or slopes is not None  # the row's position counts
    if used_q is not None and placed:
        captured["used_q"] = used_q
    if used_k is not None or used_q is not None:
        # Elements are bounded before they are added: sums of any int32 are reals.
        lengths = "max(min(used_k[b], 16777215), 0)" if used_k is not None else "seqlen_k"
        rows = "max(min(used_q[b], 16777215), 0)" if used_q is not None else "seqlen_q"
        place = f"(q + {lengths} - {rows})"
        if right >= 0:
            hidden.append(f"k <= {place} + {right}")
    elif right == 0 and left >= 0:
        keywords = {"window": left + 1}
        left = -1
    elif right == 0 and chunk:
        keywords = {"chunk": chunk}
        chunk = 0
    elif right == 0:
        keywords = {"causal": True}
    elif right > 0:
        hidden.append(f"k <= {place} + {right}")
    if left >= 0:
        hidden.append(f"k >= {place} - {left}")
    if chunk:
        hidden.append(f"idiv(k, {chunk}) == idiv({place}, {chunk})")
    if first is not None:
        captured["first"] = first
        hidden.append("k >= first[b]")
    if seen is not None:
        captured["seen"] = seen
        hidden.append("seen[b, q, k] != 0")
    if not hidden and slopes is None:
        return {**keywords, "softcap": softcap}
    value = "score"
    if slopes is not None:
        captured["slope"] = slopes.float() if slopes.dim() == 2 else slopes.float()[None]
    if slopes is not None and slopes_capped:
        value = f"(score + slope[b, h] * (k - {place}))"
    if softcap:
        value = f"{float(softcap)!r} * tanh({value} / {float(softcap)!r})"
    if slopes is not None and not slopes_capped:
        value = f"{value} - slope[b, h] * abs({place} - k)"
    return {**keywords, "score_mod": f"where({' && '.join(hidden)}, {value}, -inf)" if hidden else value, "captured": captured or None}


def _masks(left: int, right: int, chunk: int, softcap: float, first: Optional[torch.Tensor]) -> dict[str, Any]:
    """The same as a mask of kiln's. Those of Llama and its kin, causal with at most a window, are kernels of their own."""
    if first is None and not chunk and right <= 0 and (right == 0 or left < 0):
        mask = {"causal": False} if right < 0 else {"causal": True} if left < 0 else {"causal": False, "window": left + 1}
        return {**mask, "softcap": softcap}
    keywords: dict[str, Any] = {"causal": False, "window": (max(left, -1), max(right, -1)), "softcap": softcap}
    if chunk:
        keywords["chunk"] = chunk
    if first is not None:
        keywords["first_keys"] = first
    return keywords
