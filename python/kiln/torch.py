"""Attention on PyTorch tensors: functions that pick target, config and kernel by themselves.

    from kiln.torch import attention, decode
    o = attention(q, k, v, causal=True)                                  # [batch, seqlen, heads, depth]
    o = decode(q, k_pages, v_pages, page_table=table, seqlens_k=lengths)

CUDA tensors run on their device and its current stream; CPU tensors run on the emulated device. The first call of a kind generates and
compiles a kernel (or finds it in the cache; `warmup` does it ahead), later calls look it up. There is no backward pass: a tensor that
requires gradients is refused while gradients are enabled.

Both are operators of torch.library (kiln::attend) under torch.compile, torch.export and in graphs; eager calls go straight to the kernel.
"""
from __future__ import annotations

import contextlib
import itertools
import json
import threading
from typing import Any, Iterable, Optional, Union

import torch

from ._errors import Error
from ._native import Calls, Kernel
from .runtime import Runtime

#: The target that CPU tensors are run for, on the emulated device.
EMULATED_TARGET = "sm_80"

_DTYPES = {torch.bfloat16: "bf16", torch.float16: "fp16"}
_STORED = {**_DTYPES, torch.float8_e4m3fn: "fp8_e4m3"}
_CAPTURED = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "fp16", torch.int32: "i32", torch.int8: "int8", torch.uint8: "int8",
             torch.bool: "int8"}
_SHORT = 8  # query rows up to which the kernel that splits keys is used

_dispatch_modes = torch._C._len_torch_dispatch_stack
_compiling = torch.compiler.is_compiling
_lock = threading.Lock()
_runtimes: dict[int, Runtime] = {}
_kernels: dict[tuple, tuple[Kernel, str]] = {}
_by_text: dict[tuple[int, str], Kernel] = {}
_offsets: dict[tuple[int, int, int], torch.Tensor] = {}


def _refuse(what: str) -> Error:
    return Error("bad_input", what)


def runtime(device: Union[torch.device, str, int]) -> Runtime:
    """The runtime that tensors of a device use."""
    device = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    if device.type not in ("cuda", "cpu"):
        raise _refuse(f"device: {device}; cuda or cpu is needed")
    index = -1 if device.type == "cpu" else device.index if device.index is not None else torch.cuda.current_device()
    with _lock:
        if index not in _runtimes:
            kind = "emulated" if index < 0 else f"hip:{index}" if torch.version.hip else f"cuda:{index}"
            _runtimes[index] = Runtime(kind)
        return _runtimes[index]


def _target(index: int) -> str:
    if index < 0:
        return EMULATED_TARGET
    found = runtime(index)
    if found.target is None:
        raise Error("environment", f"{found.device['name']} ({found.device['target']}): kiln has kernels from sm_80 on")
    return found.target


def _config(index: int, case: tuple) -> str:
    operation, dtype, kv_dtype, depth, ov_depth, kind, page_size, mask, softcap, score_mod, tensors, sink, many, lse, scaled, splits = case
    config: dict[str, Any] = {"target": _target(index), "operation": operation, "dtype": dtype, "depth": depth, "lse": lse}
    if kv_dtype != dtype:
        config["kv_dtype"] = kv_dtype
    if ov_depth != depth:
        config["ov_depth"] = ov_depth
    if kind != "contiguous" or scaled:
        config["operand"] = {"kind": kind, **({"page_size": page_size} if kind == "paged" else {})}
        if scaled:
            config["operand"]["quantization"] = {"granularity": "per_sequence"}
    config["mask"] = _mask_config(mask)
    if splits and operation == "decode":
        config["split_kv"] = splits
    if softcap:
        config["score_mod"] = {"softcap": softcap}
    elif score_mod:
        config["score_mod"] = score_mod if score_mod == "alibi" else {"expr": score_mod}
        if tensors:
            config["score_mod"]["tensors"] = dict(tensors)
    if sink:
        config["sink"] = True
    if many and config["target"] == "sm_90a":  # tiles of other targets have the same rows for all
        config["queries"] = 4
    return json.dumps(config)


def _load(index: int, text: str) -> Kernel:
    kernel = _by_text.get((index, text))
    if kernel is None:
        kernel = _by_text[index, text] = runtime("cpu" if index < 0 else index).load(text)
    return kernel


def _kernel(index: int, case: tuple) -> tuple[Kernel, str]:
    found = _kernels.get((index, case))
    if found is None:
        text = _config(index, case)
        found = _kernels[index, case] = (_load(index, text), text)
    return found


def _dtype(name: str, tensor: torch.Tensor) -> str:
    found = _STORED.get(tensor.dtype)
    if found is None:
        raise _refuse(f"{name}: {str(tensor.dtype)[6:]}; bfloat16 or float16 (or float8_e4m3fn) is needed")
    return found


# A mask with sides given at launch is ("window", which of them there are).
_LEFT, _RIGHT, _OWN, _CHUNK, _PADDING = 1, 2, 4, 8, 16  # _OWN: the row's own key is its last


def _mask_config(mask: Any) -> Any:
    if not isinstance(mask, tuple) or mask[0] != "window":
        return dict([mask]) if isinstance(mask, tuple) else mask
    flags = mask[1]
    window: dict[str, Any] = {name: "launch" for bit, name in ((_LEFT, "left"), (_RIGHT, "right"), (_CHUNK, "chunk")) if flags & bit}
    if flags & _OWN:
        window["right"] = 0
    if flags & _PADDING:
        window["left_padding"] = True
    return {"window": window}


def _sides(causal: bool, window: Any, chunk: Optional[int], first_keys) -> tuple[Any, Optional[tuple[int, int, int]]]:
    """The mask and its sides at launch, of two-sided windows, chunks beside them and left padding."""
    if window is None:
        left, right = -1, 0 if causal or chunk is not None else -1
    elif isinstance(window, int):
        left, right = window - 1, 0
    else:
        left, right = window
        right = 0 if causal else right
    for name, side, least in (("window", left, -1), ("window", right, -1), ("chunk", chunk or 0, 0)):
        if not isinstance(side, int) or side < least:
            raise _refuse(f"{name}: {side!r}; a number of keys is needed" + (", -1: no bound" if name == "window" else ""))
    flags = (_LEFT if left >= 0 else 0) | (_CHUNK if chunk else 0) | (_OWN if right == 0 else _RIGHT if right > 0 else 0)
    flags |= _PADDING if first_keys is not None else 0
    if not flags:
        return "none", None
    if flags == _OWN:
        return "causal", None
    return ("window", flags), (left, right if flags & _RIGHT else -1, chunk or 0)


def _mask(causal: bool, window: Optional[int], chunk: Optional[int], bits) -> Any:
    if (window is not None) + (chunk is not None) + (bits is not None) > 1 or (bits is not None and causal):
        raise _refuse("of window, chunk and mask_bits one can be given, and mask_bits without causal")
    for name, size in (("window", window), ("chunk", chunk)):
        if size is not None and (not isinstance(size, int) or size < 1):
            raise _refuse(f"{name}: {size!r}; a number of keys from 1 on is needed")
    if window is not None:
        return ("sliding_window", window)
    if chunk is not None:
        return ("chunked", chunk)
    return "custom" if bits is not None else "causal" if causal else "none"


def _many(q: torch.Tensor, k: torch.Tensor, queries: int) -> bool:
    """Rows of a decode tile, query tokens times query heads of a KV head, for which a kernel of 64 is faster than one of 16."""
    return 16 < q.shape[-2] // max(k.shape[-2], 1) * queries and queries <= _SHORT


def row_offsets(batch: int, rows: int, like: torch.Tensor) -> torch.Tensor:
    """int32 [batch + 1] on the device of `like`: the offsets of `batch` sequences of `rows` rows each. Kept, but for a graph that is traced,
    whose tensors are its own."""
    if torch.compiler.is_compiling():
        return torch.arange(batch + 1, dtype=torch.int32, device=like.device) * rows
    key = (like.get_device(), batch, rows)
    found = _offsets.get(key)
    if found is None:
        found = _offsets[key] = torch.arange(batch + 1, dtype=torch.int32, device=like.device) * rows
    return found


def _traced(q: torch.Tensor) -> bool:
    if torch.compiler.is_compiling():
        return True
    return type(q) is not torch.Tensor and type(q) is not torch.nn.Parameter or _dispatch_modes() > 0


def _check_gradients(q, k, v) -> None:
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        raise NotImplementedError("kiln has no backward pass: call under torch.no_grad() or torch.inference_mode(), or detach() q, k and v")


def _captured_type(name: str, tensor: torch.Tensor) -> str:
    found = _CAPTURED.get(tensor.dtype)
    if found is None:
        raise _refuse(f"captured '{name}': {str(tensor.dtype)[6:]}; one of {', '.join(str(dtype)[6:] for dtype in _CAPTURED)} is needed")
    return found


def _check_modifier(softcap: float, score_mod: Optional[str], captured: Optional[dict[str, torch.Tensor]]) -> None:
    if softcap and score_mod:
        raise _refuse("of softcap and score_mod one can be given")
    if captured and not score_mod:
        raise _refuse("captured: tensors without a score_mod that names them")


def _case(what, q, k, v, sink, captured, max_seqlen_q, scaled) -> tuple:
    """What a kernel depends on: what was chosen (operation, kind, mask, softcap, score_mod, lse, splits) and the tensors."""
    operation, kind, mask, softcap, score_mod, with_lse, splits = what
    many = operation == "decode" and _many(q, k, max_seqlen_q or q.shape[1])
    tensors = tuple((name, _captured_type(name, tensor)) for name, tensor in captured.items()) if captured else None
    return (operation, _dtype("q", q), _dtype("k", k), q.shape[-1], v.shape[-1], kind, k.shape[1] if kind == "paged" else 0, mask, softcap, score_mod,
            tensors, sink is not None, many, with_lse, scaled, splits)


def _is_like(q, v) -> bool:
    """Whether the output has the type and shape of q."""
    return q.dtype in _DTYPES and q.shape[-1] == v.shape[-1]


def _empty_out(q, v):
    if _is_like(q, v):
        return torch.empty_like(q, memory_format=torch.contiguous_format)
    return q.new_empty((*q.shape[:-1], v.shape[-1]), dtype=q.dtype if q.dtype in _DTYPES else torch.bfloat16)


def _lse_shape(q):
    return (q.shape[0], q.shape[2], q.shape[1]) if q.dim() == 4 else (q.shape[1], q.shape[0])


def _empty_lse(q):
    return q.new_empty(_lse_shape(q), dtype=torch.float32)


# Calls like an earlier one go from their arguments to the launch in C++ (python/native/calls.cpp).
def _new_calls() -> Calls:
    return Calls(torch.Tensor, torch.nn.Parameter, torch.is_grad_enabled, _dispatch_modes, torch.empty_like, _empty_out, _empty_lse)


_calls = _new_calls()
_ATTENTION, _PAGED, _CONTINUOUS = range(3)


def _attend(what, q, k, v, cu_seqlens_q, cu_seqlens_k, page_table, seqlens_k, sink, mask_bits, captured, max_seqlen_q, max_seqlen_k, scale, max_blocks, out, lse,
            sides=None, first_keys=None, descales=None, key=None, offsets=None):
    operation, kind, mask, softcap, score_mod, with_lse, splits = what
    if not _traced(q):
        index, case = q.get_device(), _case(what, q, k, v, sink, captured, max_seqlen_q, descales is not None)
        kernel, _ = _kernels.get((index, case)) or _kernel(index, case)
        if out is None:
            out = _empty_out(q, v)
        if with_lse and lse is None:
            lse = _empty_lse(q)
        if captured:
            captured = {name: tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor for name, tensor in captured.items()}
        more = {}
        if sides is not None:
            more = {"window": sides, "first_keys": first_keys}
        if descales is not None:
            more["q_scale"], more["k_scale"], more["v_scale"] = descales
        kernel(q, k, v, out, lse=lse, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, page_table=page_table, seqlens_k=seqlens_k,
               sink=sink, mask_bits=mask_bits, captured=captured, max_seqlen_q=max_seqlen_q, max_seqlen_k=max_seqlen_k, scale=scale, max_blocks=max_blocks,
               **more)
        if key is not None:
            _calls.add(key, kernel, _is_like(q, v), sides, offsets)
        return out, lse
    mask, mask_size = mask if isinstance(mask, tuple) else (mask, 0)
    got, got_lse = torch.ops.kiln.attend(q, k, v, cu_seqlens_q, cu_seqlens_k, page_table, seqlens_k, sink, mask_bits,
                                         list(captured.values()) if captured else [], ",".join(captured or ()), max_seqlen_q, max_seqlen_k, scale,
                                         max_blocks, operation, kind, mask, mask_size, softcap, score_mod, with_lse, list(sides) if sides else None, first_keys,
                                         *(descales or (None, None, None)), splits)
    if out is not None:
        got = out.copy_(got)
    if lse is not None and with_lse:
        got_lse = lse.copy_(got_lse)
    return got, (got_lse if with_lse else None)


# Registered without torch.library.custom_op, whose own layers of Python take as long as the call. What a config needs of shapes is taken from
# the tensors when the operator runs: while a graph is traced a size may be a symbol.
_library = torch.library.Library("kiln", "FRAGMENT")
_library.define(
    "attend(Tensor q, Tensor k, Tensor v, Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, Tensor? page_table, Tensor? seqlens_k, Tensor? sink, "
    "Tensor? mask_bits, Tensor[] captured, str captured_names, SymInt max_seqlen_q, SymInt max_seqlen_k, float? scale, SymInt max_blocks, "
    "str operation, str kind, str mask, SymInt mask_size, float softcap, str? score_mod, bool with_lse, SymInt[]? sides=None, "
    "Tensor? first_keys=None, Tensor? q_scale=None, Tensor? k_scale=None, Tensor? v_scale=None, SymInt splits=0) -> (Tensor, Tensor)",
    tags=(getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order),))

#: Forms of calls by operation and kind, beside those of eager calls; masks that no sides come with.
_FORMS = {form: number for number, form in enumerate(
    itertools.product(("prefill", "decode"), ("contiguous", "ragged", "paged", "continuous")), _CONTINUOUS + 1)}
_MASKS = {mask: number for number, mask in enumerate(("none", "causal", "sliding_window", "chunked", "custom"))}


def _attend_op(q, k, v, cu_seqlens_q, cu_seqlens_k, page_table, seqlens_k, sink, mask_bits, captured, captured_names, max_seqlen_q, max_seqlen_k, scale,
               max_blocks, operation, kind, mask, mask_size, softcap, score_mod, with_lse, sides=None, first_keys=None, q_scale=None, k_scale=None,
               v_scale=None, splits=0):
    tensors = dict(zip(captured_names.split(","), captured)) if captured else None
    form, number = _FORMS.get((operation, kind)), _MASKS.get(mask)
    key = None
    if sides is None and first_keys is None and k_scale is None and form is not None and number is not None:
        key = _calls(form, q, k, v, None, None, cu_seqlens_q, cu_seqlens_k, page_table, seqlens_k, sink, mask_bits, None, tensors, False,
                     (number, mask_size), None, softcap, score_mod, splits, with_lse, max_seqlen_q, max_seqlen_k, max_blocks, scale)
        if key is not None and type(key) is not bytes:
            return key if with_lse else (key, q.new_empty((0,), dtype=torch.float32))
    _check_gradients(q, k, v)
    what = (operation, kind, (mask, mask_size) if mask_size else mask, softcap, score_mod, with_lse, splits)
    out, lse = _attend(what, q, k, v, cu_seqlens_q, cu_seqlens_k, page_table, seqlens_k, sink, mask_bits, tensors, max_seqlen_q, max_seqlen_k, scale,
                       max_blocks, None, None, tuple(sides) if sides else None, first_keys,
                       (q_scale, k_scale, v_scale) if k_scale is not None else None, key)
    return out, lse if with_lse else q.new_empty((0,), dtype=torch.float32)


_library.impl("attend", _attend_op, "CompositeExplicitAutograd")


@torch.library.register_fake("kiln::attend", lib=_library)
def _(q, k, v, cu_seqlens_q, cu_seqlens_k, page_table, seqlens_k, sink, mask_bits, captured, captured_names, max_seqlen_q, max_seqlen_k, scale,
      max_blocks, operation, kind, mask, mask_size, softcap, score_mod, with_lse, sides=None, first_keys=None, q_scale=None, k_scale=None, v_scale=None,
      splits=0):
    return _empty_out(q, v), q.new_empty(_lse_shape(q) if with_lse else (0,), dtype=torch.float32)


def _descales(q, k, q_descale, k_descale, v_descale, batch: int):
    """The three scales, float32 [batch, heads_kv], where at least one is given."""
    given = (q_descale, k_descale, v_descale)
    if k.dtype in _DTYPES:
        name = ("q_descale", "k_descale", "v_descale")[next(i for i, x in enumerate(given) if x is not None)]
        raise _refuse(f"{name}: given, k is {str(k.dtype)[6:]}; float8_e4m3fn is needed")
    shape = (batch, k.shape[-2])
    out = []
    for name, scale in zip(("q_descale", "k_descale", "v_descale"), given):
        if scale is None:
            scale = torch.ones(shape, dtype=torch.float32, device=q.device)
        elif tuple(scale.shape) != shape:
            raise _refuse(f"{name}: shape {list(scale.shape)}; [batch, heads_kv] = {list(shape)} is needed")
        out.append(scale.float().contiguous())
    return tuple(out) if q.dtype not in _DTYPES else (None, *out[1:])


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, window: Union[int, tuple[int, int], None] = None,
              chunk: Optional[int] = None, softcap: float = 0.0, score_mod: Optional[str] = None, sink: Optional[torch.Tensor] = None,
              captured: Optional[dict[str, torch.Tensor]] = None, mask_bits: Optional[torch.Tensor] = None,
              scale: Optional[float] = None, cu_seqlens_q: Optional[torch.Tensor] = None,
              cu_seqlens_k: Optional[torch.Tensor] = None, max_seqlen_q: int = 0, max_seqlen_k: int = 0,
              first_keys: Optional[torch.Tensor] = None, q_descale: Optional[torch.Tensor] = None, k_descale: Optional[torch.Tensor] = None,
              v_descale: Optional[torch.Tensor] = None, splits: int = 0,
              max_blocks: int = 0, out: Optional[torch.Tensor] = None, lse: Optional[torch.Tensor] = None, return_lse: bool = False):
    """softmax(scale * q k') v.

    q, k, v       bfloat16, float16 or float8_e4m3fn (out is bfloat16 then) [batch, seqlen, heads, depth]; ragged, with cu_seqlens_q and _k: [total, heads, depth].
                  heads of k and v divide those of q; v may have another depth. Any strides; the last dimension contiguous
    causal        key j is seen by row i where j <= i + seqlen_k - seqlen_q (aligned to the end)
    window        causal, and only the last `window` keys with the own one; or (left, right): from so many keys before the row's position to
                  so many after it, -1: no bound. Sides of a pair are numbers of the launch: one kernel for all of them
    chunk         only keys of the same chunk of so many; causal but with a pair as window
    first_keys    int32 [batch]: left padding, keys before it are hidden and chunks begin with it
    q_descale, k_descale, v_descale   float32 [batch, heads_kv]: what stored float8_e4m3fn values are multiplied by
    splits        parts of the keys of a sequence, where rows are few; 0: as the work divides
    softcap       c: scores become c tanh(score / c)
    score_mod     "alibi", or an expression over score, b, h, q, k and the tensors of `captured`: "score + bias[h, q, k] - 0.1 * slope[h]"
    captured      tensors that score_mod names, of any strides: float32, bfloat16, float16, int32, int8, uint8 or bool (numbers 0 and 1). Where
                  an index is b, h, q or k the dimension has 1 element or at least as many as it runs to; other indices out of range read the
                  last element
    sink          float32 [heads]: one more logit in each softmax
    mask_bits     int32 words [batch or 1, heads or 1, seqlen_q, ceil(seqlen_k / 32)], bit set: seen (pack_mask makes them)
    scale         1 / sqrt(depth) by default
    cu_seqlens_q, cu_seqlens_k   int32 [batch + 1]; max_seqlen_q, max_seqlen_k: the longest
    max_blocks    most blocks of a persistent grid, which leaves multiprocessors to other work; 0: no limit
    out, lse      written where they are given
    return_lse    also return the log-sum-exp, float32 [batch, heads, seqlen_q], ragged [heads, total_q], natural logarithm

    Returns out, or (out, lse). Raises kiln.Error, NotImplementedError where gradients are asked for."""
    key = None
    if not _compiling() and q_descale is None and k_descale is None and v_descale is None:
        key = _calls(_ATTENTION, q, k, v, out, lse, cu_seqlens_q, cu_seqlens_k, None, None, sink, mask_bits, first_keys, captured, causal, window, chunk,
                     softcap, score_mod, splits, return_lse, max_seqlen_q, max_seqlen_k, max_blocks, scale)
        if key is not None and type(key) is not bytes:
            return key
    _check_gradients(q, k, v)
    if q.dim() not in (3, 4) or (q.dim() == 3) != (cu_seqlens_q is not None):
        raise _refuse(f"q: shape {list(q.shape)}; [batch, seqlen, heads, depth], or [total, heads, depth] with cu_seqlens_q is needed")
    ragged = q.dim() == 3
    _check_modifier(softcap, score_mod, captured)
    short = not ragged and q.shape[1] <= _SHORT
    if first_keys is not None or type(window) in (tuple, list):
        mask, sides = _sides(causal, window, chunk, first_keys)
    else:
        mask, sides = _mask(causal, window, chunk, mask_bits), None
    descales = None
    if q_descale is not None or k_descale is not None or v_descale is not None:
        descales = _descales(q, k, q_descale, k_descale, v_descale, cu_seqlens_q.shape[0] - 1 if ragged else q.shape[0])
    what = ("decode" if short else "prefill", "ragged" if ragged else "contiguous", mask, softcap, score_mod,
            return_lse or lse is not None, splits)
    got, got_lse = _attend(what, q, k, v, cu_seqlens_q, cu_seqlens_k, None, None, sink, mask_bits, captured, max_seqlen_q, max_seqlen_k, scale,
                           max_blocks, out, lse, sides, first_keys, descales, key)
    return (got, got_lse) if return_lse else got


def decode(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, page_table: torch.Tensor, seqlens_k: torch.Tensor,
           cu_seqlens_q: Optional[torch.Tensor] = None, max_seqlen_q: int = 1, max_seqlen_k: int = 0, causal: bool = True,
           window: Union[int, tuple[int, int], None] = None, chunk: Optional[int] = None, softcap: float = 0.0,
           score_mod: Optional[str] = None, captured: Optional[dict[str, torch.Tensor]] = None, sink: Optional[torch.Tensor] = None,
           scale: Optional[float] = None, continuous: bool = False, first_keys: Optional[torch.Tensor] = None,
           q_descale: Optional[torch.Tensor] = None, k_descale: Optional[torch.Tensor] = None, v_descale: Optional[torch.Tensor] = None,
           splits: int = 0, max_blocks: int = 0,
           out: Optional[torch.Tensor] = None, lse: Optional[torch.Tensor] = None, return_lse: bool = False):
    """Attention of new query rows over a paged KV cache.

    q             [batch, heads, depth], one row of each sequence; with cu_seqlens_q (int32 [batch + 1]) and max_seqlen_q
                  [total, heads, depth], the last rows of each
    k, v          the pools [num_pages, page_size, heads_kv, depth]
    page_table    int32 [batch, max_pages]; seqlens_k int32 [batch], keys with the new ones; both stay on the device
    max_seqlen_k  a bound of the longest; 0: all that the page table can name
    continuous    each sequence has one block of any length: k, v [num_blocks, block_rows, heads_kv, depth], page_table [batch, 1]

    The rest as attention(). Long rows (max_seqlen_q above 8) are prefilled in chunks by the same call."""
    key = None
    if not _compiling() and q_descale is None and k_descale is None and v_descale is None:
        key = _calls(_CONTINUOUS if continuous else _PAGED, q, k, v, out, lse, cu_seqlens_q, None, page_table, seqlens_k, sink, None, first_keys, captured,
                     causal, window, chunk, softcap, score_mod, splits, return_lse, max_seqlen_q, max_seqlen_k, max_blocks, scale)
        if key is not None and type(key) is not bytes:
            return key
    _check_gradients(q, k, v)
    if q.dim() != 3 or k.dim() != 4:
        raise _refuse(f"q, k: shapes {list(q.shape)}, {list(k.shape)}; [total, heads, depth] and [num_pages, page_size, heads_kv, depth] are needed")
    offsets = None  # of our own, which calls like this one need, too; the caller's are not kept
    if cu_seqlens_q is None:
        if max_seqlen_q != 1:
            raise _refuse(f"max_seqlen_q: {max_seqlen_q} without cu_seqlens_q; 1 is needed")
        cu_seqlens_q = offsets = row_offsets(q.shape[0], 1, q)
    _check_modifier(softcap, score_mod, captured)
    masked = causal and max_seqlen_q > 1  # one row sees every key
    if first_keys is not None or type(window) in (tuple, list):
        mask, sides = _sides(masked, window, chunk, first_keys)
    else:
        mask, sides = _mask(masked, window, chunk, None), None
    descales = None
    if q_descale is not None or k_descale is not None or v_descale is not None:
        descales = _descales(q, k, q_descale, k_descale, v_descale, cu_seqlens_q.shape[0] - 1)
    what = ("decode" if max_seqlen_q <= _SHORT else "prefill", "continuous" if continuous else "paged", mask, softcap,
            score_mod, return_lse or lse is not None, splits)
    got, got_lse = _attend(what, q, k, v, cu_seqlens_q, None, page_table, seqlens_k, sink, None, captured, max_seqlen_q, max_seqlen_k, scale,
                           max_blocks, out, lse, sides, first_keys, descales, key, offsets)
    return (got, got_lse) if return_lse else got


def pack_mask(mask: torch.Tensor) -> torch.Tensor:
    """A boolean mask [batch or 1, heads or 1, seqlen_q, seqlen_k] (True: seen) as the words of `mask_bits`."""
    if mask.dtype != torch.bool or mask.dim() != 4:
        raise _refuse(f"mask: {str(mask.dtype)[6:]} {list(mask.shape)}; bool [batch or 1, heads or 1, seqlen_q, seqlen_k] is needed")
    padded = torch.nn.functional.pad(mask, (0, -mask.shape[-1] % 32))
    words = (padded.reshape(*mask.shape[:3], -1, 32).to(torch.int64) << torch.arange(32, device=mask.device)).sum(-1)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


def warmup(cases: Iterable[dict[str, Any]], device: Union[torch.device, str, int] = "cuda", progress: bool = True) -> None:
    """Compiles the kernels of later calls ahead. A case has the keywords that choose a kernel: operation ("prefill" or "decode"), dtype
    (torch.bfloat16), depth, and where they differ from the default ov_depth, kind ("contiguous", "ragged", "paged"), page_size, causal,
    window, chunk, softcap, score_mod, captured ({"bias": torch.float32}), sink, many (decode: more than 16 query tokens times query heads of a
    KV head), lse. Says on standard
    error which one is being compiled."""
    import sys

    index = -1 if torch.device(device).type == "cpu" else torch.device(device).index or 0
    defaults = dict(operation="prefill", dtype=torch.bfloat16, depth=128, ov_depth=None, kind="contiguous", page_size=0, causal=False,
                    window=None, chunk=None, softcap=0.0, score_mod=None, captured=None, sink=False, many=False, lse=False)
    cases = list(cases)
    for number, given in enumerate(cases, 1):
        unknown = set(given) - set(defaults)
        if unknown:
            raise _refuse(f"cases: {', '.join(sorted(unknown))}; of {', '.join(defaults)} some are needed")
        one = {**defaults, **given}
        if one["dtype"] not in _DTYPES:
            raise _refuse(f"dtype: {one['dtype']}; torch.bfloat16 or torch.float16 is needed")
        dtype = _DTYPES[one["dtype"]]
        case = (one["operation"], dtype, dtype, one["depth"], one["ov_depth"] or one["depth"], one["kind"], one["page_size"],
                _mask(one["causal"], one["window"], one["chunk"], None), one["softcap"], one["score_mod"],
                tuple((name, _CAPTURED[dtype]) for name, dtype in one["captured"].items()) if one["captured"] else None, one["sink"],
                one["operation"] == "decode" and one["many"], one["lse"], False, 0)
        if progress:
            print(f"kiln: kernel {number} of {len(cases)}: {_config(index, case)}", file=sys.stderr, flush=True)
        _kernel(index, case)


_torch_sdpa = torch.nn.functional.scaled_dot_product_attention


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """torch.nn.functional.scaled_dot_product_attention: query [batch, heads, seqlen, depth]. Raises NotImplementedError for what kiln has
    no kernel for: dropout, gradients, is_causal with different lengths (torch aligns it to the start)."""
    if dropout_p:
        raise NotImplementedError(f"dropout_p: {dropout_p}; kiln has no dropout: 0 is needed")
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise NotImplementedError(f"query: shape {list(query.shape)}; [batch, heads, seqlen, depth] is needed")
    if query.dtype not in _DTYPES:
        raise NotImplementedError(f"query: {query.dtype}; bfloat16 or float16 is needed")
    if is_causal and query.shape[2] != key.shape[2]:
        raise NotImplementedError("is_causal with different lengths of query and key: torch aligns it to the start, kiln to the end")
    if not enable_gqa and query.shape[1] != key.shape[1]:
        raise _refuse(f"key: {key.shape[1]} heads, query has {query.shape[1]}; enable_gqa is needed")
    given = {}
    if attn_mask is not None:
        if is_causal:
            raise _refuse("of attn_mask and is_causal one can be given")
        mask = attn_mask[(None,) * (4 - attn_mask.dim())]
        if attn_mask.dtype == torch.bool:
            given = {"mask_bits": pack_mask(mask.expand(*mask.shape[:2], query.shape[2], key.shape[2]))}
        elif attn_mask.dtype in _CAPTURED and attn_mask.dtype.is_floating_point:
            given = {"score_mod": "score + mask[b, h, q, k]", "captured": {"mask": mask}}
        else:
            raise NotImplementedError(f"attn_mask: {attn_mask.dtype}; bool, float32, bfloat16 or float16 is needed")
    out = attention(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), causal=is_causal, scale=scale, **given)
    return out.transpose(1, 2)


@contextlib.contextmanager
def sdpa(strict: bool = False):
    """Replaces torch.nn.functional.scaled_dot_product_attention within a `with` block. What kiln has no kernel for goes to torch, or with
    `strict` raises."""

    def replaced(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        try:
            return scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        except (NotImplementedError, Error) as error:
            if strict or (isinstance(error, Error) and error.code not in ("bad_config", "bad_input")):
                raise
            return _torch_sdpa(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)

    previous = torch.nn.functional.scaled_dot_product_attention
    torch.nn.functional.scaled_dot_product_attention = replaced
    try:
        yield
    finally:
        torch.nn.functional.scaled_dot_product_attention = previous
