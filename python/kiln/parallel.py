"""Context parallel attention: the rows of each sequence spread over the ranks of a group, over NCCL, or over threads on the emulated
device. docs/context-parallel.md has pictures.

    transport = kiln.parallel.of_process_group()           # torch.distributed is initialised; a communicator of the same ranks
    prefill = kiln.parallel.Prefill(runtime, config, transport, heads_q=32, heads_kv=8)
    prefill.set_batch([1 << 20])
    mine = prefill.rows_of(0)                              # which rows of sequence 0 this rank has, as slices
    prefill(q, k, v, o)
"""
from __future__ import annotations

from typing import Any, Sequence

from . import _native
from ._configs import text_of
from ._native import LoopbackGroup as _LoopbackGroup
from ._native import Transport
from .runtime import Config, Runtime

__all__ = ["Decode", "LoopbackGroup", "Prefill", "Transport", "nccl", "nccl_id", "of_process_group"]


def nccl_id(library: str = "") -> bytes:
    """128 bytes that name a group: made on one rank, given to the others. Raises Error (environment) without libnccl.so.2."""
    return _native.nccl_id(library)


def nccl(rank: int, size: int, *, device: int, id: bytes = b"", communicator: int = 0, timeout: float = 30.0, max_blocks: int = 0,
         library: str = "") -> Transport:
    """One rank of a group over NCCL: a communicator is made from `id` (collective), or `communicator`, a ncclComm_t as an integer, is
    used and stays the caller's. A call that does not end within `timeout` seconds aborts the communicator and raises Error (device).
    `max_blocks`: most blocks of NCCL's kernels; 0: its choice. `library`: path of libnccl.so.2."""
    return _native.nccl_transport(rank, size, device, id, communicator, timeout, max_blocks, library)


def of_process_group(group: Any = None, *, timeout: float = 30.0, max_blocks: int = 0, library: str = "") -> Transport:
    """A communicator of the ranks of a process group of torch.distributed (None: the default one), which gives its id to all of them; on
    the current CUDA device."""
    import torch
    import torch.distributed as dist

    rank, size = dist.get_rank(group), dist.get_world_size(group)
    box = [nccl_id(library) if rank == 0 else None]
    dist.broadcast_object_list(box, src=dist.get_global_rank(group, 0) if group is not None else 0, group=group)
    return nccl(rank, size, device=torch.cuda.current_device(), id=box[0], timeout=timeout, max_blocks=max_blocks, library=library)


class LoopbackGroup:
    """A group of threads on the emulated device."""

    def __init__(self, size: int, timeout: float = 30.0):
        self._group = _LoopbackGroup(size, timeout)

    def join(self, rank: int, runtime: Runtime) -> Transport:
        return self._group.join(rank, runtime._native)


class Prefill:
    """Prefill of one rank. Calls are collective: every rank makes the same ones in the same order."""

    def __init__(self, runtime: Runtime, config: Config, transport: Transport, *, heads_q: int, heads_kv: int, way: str = "auto"):
        """`config`: prefill with ragged operands; mask none, causal, sliding_window or chunked. `way`: "ring" (K and V go round while
        the kernels work), "gather" (every rank collects them all) or "auto", by the cost model.
        Raises Error: bad_config, bad_input."""
        self._prefill = _native.ContextPrefill(runtime._native, text_of(config), transport, heads_q, heads_kv, way)

    def set_batch(self, lengths: Sequence[int]) -> None:
        """Lengths of the whole sequences, the same on all ranks. Takes memory and, the first time, compiles."""
        self._prefill.set_batch(list(lengths))

    @property
    def rows(self) -> int:
        """Rows of this rank: the first runs of all sequences, one after another, then their second runs."""
        return self._prefill.rows()

    @property
    def way(self) -> str:
        """"ring" or "gather"."""
        return self._prefill.way()

    def rows_of(self, sequence: int) -> tuple[slice, slice]:
        """This rank's rows of a sequence: its first and its second run (empty unless the mask is causal)."""
        return slice(*self._prefill.run(sequence, 0)), slice(*self._prefill.run(sequence, 1))

    def __call__(self, q, k, v, o, *, lse=None, sink=None, scale: float | None = None, stream=None):
        """q, k, v, o [rows, heads, depth] of this rank, contiguous; writes and returns o. lse, where the config has it: float32, the
        log-sum-exps of the first runs [heads_q, rows], then of the second runs, end to end. sink, where the config has it: float32
        [heads_q], the same on all ranks."""
        self._prefill.launch(q, k, v, o, lse, sink, scale, stream)
        return o


class Decode:
    """Decode of one rank, which has a part of the cache of every sequence, also an empty one."""

    def __init__(self, runtime: Runtime, config: Config, transport: Transport, *, heads_q: int, max_rows: int, result: str = "all",
                 way: str = "auto"):
        """`config`: decode with ragged, paged or continuous operands; no custom mask, left padding or score expression. `max_rows`:
        most query rows of a call, of all ranks.
        `result`: "all" (every rank brings all queries and gets their results, the same bits), "heads" (rank r gets the r-th of `size`
        equal ranges of heads) or "queries" (every rank brings as many queries, in the order of ranks, and gets theirs).
        `way` of "all": "gather" (every rank collects all parts), "spread" (each merges a range of rows, which are then collected; no
        lse) or "auto", by the cost model. Raises Error: bad_config, bad_input."""
        self._decode = _native.ContextDecode(runtime._native, text_of(config), transport, heads_q, max_rows, result, way)

    def way(self, rows: int) -> str:
        """How a call of so many rows without lse gives its results to all ranks: "gather" or "spread"."""
        return self._decode.way(rows)

    def __call__(self, q, k, v, o, **keywords):
        """As a kernel of the config is called, with this rank's K, V, page_table, seqlens_k (cu_seqlens_k); o and lse are of the whole,
        of the heads or rows that `result` says. With "queries" q, o and lse have this rank's rows; sequences, lengths and pages are
        those of all. Keywords: lse, cu_seqlens_q, cu_seqlens_k, page_table, seqlens_k, q_scale, k_scale, v_scale, sink, query_ends,
        max_seqlen_q, max_seqlen_k, scale, stream. Returns o.

        query_ends: int32 [batch], the length of each whole sequence less the position of this rank's first key in it, by which windows,
        ALiBi and several queries a sequence under a causal mask go. None, on all ranks: their keys follow one another in the order of
        ranks, which costs one exchange more. sink, where the config has it: float32 [heads_q],
        the same on all ranks."""
        self._decode.launch(q, k, v, o, **keywords)
        return o
