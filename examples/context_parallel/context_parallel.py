"""Context parallel prefill and decode of a process for each GPU: torchrun --nproc-per-node 2 context_parallel.py [LENGTH]

Each rank has its rows of one sequence, and afterwards its part of the cache; both results are compared with one GPU's."""
import os
import sys

import torch
import torch.distributed as dist

import kiln
import kiln.parallel
from kiln.torch import attention

HEADS_Q, HEADS_KV, DEPTH = 32, 8, 128
PREFILL = {"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "depth": DEPTH, "mask": "causal", "operand": {"kind": "ragged"}}
DECODE = {"target": "sm_90a", "operation": "decode", "dtype": "bf16", "depth": DEPTH, "operand": {"kind": "ragged"}}


def distance(got, want):
    return ((got.float() - want.float()).norm() / want.float().norm()).item()


def main():
    length = int(sys.argv[1]) if len(sys.argv) > 1 else 16384
    device = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    runtime = kiln.Runtime(f"cuda:{device}")
    transport = kiln.parallel.of_process_group()

    # The same on all ranks here, to compare with; a program would only ever have its own rows.
    torch.manual_seed(0)
    q, k, v = (torch.randn(length, heads, DEPTH, device="cuda", dtype=torch.bfloat16) for heads in (HEADS_Q, HEADS_KV, HEADS_KV))
    prefill = kiln.parallel.Prefill(runtime, PREFILL, transport, heads_q=HEADS_Q, heads_kv=HEADS_KV)
    prefill.set_batch([length])
    first, second = prefill.rows_of(0)
    mine = lambda x: torch.cat([x[first], x[second]])
    o = torch.empty(prefill.rows, HEADS_Q, DEPTH, device="cuda", dtype=torch.bfloat16)
    prefill(mine(q), mine(k), mine(v), o)
    want = attention(q[None], k[None], v[None], causal=True)[0]
    print(f"rank {dist.get_rank()} prefill by {prefill.way}: {prefill.rows} of {length} rows, distance {distance(o, mine(want)):.1e}")

    # Decode: one query, which all ranks have, over a cache of which each has a part.
    each = length // dist.get_world_size()
    part = slice(dist.get_rank() * each, (dist.get_rank() + 1) * each)
    decode = kiln.parallel.Decode(runtime, DECODE, transport, heads_q=HEADS_Q, max_rows=1)
    offsets = lambda *numbers: torch.tensor(numbers, dtype=torch.int32, device="cuda")
    o = torch.empty(1, HEADS_Q, DEPTH, device="cuda", dtype=torch.bfloat16)
    decode(q[-1:], k[part], v[part], o, cu_seqlens_q=offsets(0, 1), cu_seqlens_k=offsets(0, each), max_seqlen_q=1, max_seqlen_k=each)
    transport.synchronize(torch.cuda.current_stream())
    print(f"rank {dist.get_rank()} decode: distance {distance(o, want[-1:]):.1e}")


if __name__ == "__main__":
    main()
