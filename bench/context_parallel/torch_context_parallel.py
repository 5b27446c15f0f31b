"""PyTorch's context parallel attention (torch.distributed.tensor.experimental) over the same prefill problems as
context_parallel.cpp: torchrun --nproc-per-node 2 torch_context_parallel.py [LENGTH...]"""
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.nn.attention import SDPBackend, sdpa_kernel

HEADS_Q, HEADS_KV, DEPTH = 8, 2, 128


def best_ms(work, rounds=2):
    work()
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    return min(times)


def measure(length, backend, mesh):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    # Keys and values for every query head: what this version splits is attention of as many heads of both.
    q, k, v = (torch.randn(1, HEADS_Q, length, DEPTH, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    with torch.no_grad(), sdpa_kernel(backend):
        alone = best_ms(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
        with context_parallel(mesh, buffers=[q, k, v], buffer_seq_dims=[2, 2, 2], no_restore_buffers={q, k, v}):
            shared = best_ms(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    if rank == 0:
        flops = 2.0 * length * length * HEADS_Q * DEPTH
        print(f"torch {torch.__version__} {backend.name} prefill {length}: one {alone:.3f} ms "
              f"({flops / alone / 1e9:.0f} TFLOP/s), {ranks} ranks {shared:.3f} ms, speed-up {alone / shared:.3f}", flush=True)


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    for length in [int(text) for text in sys.argv[1:]] or [131072, 262144]:
        for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
            try:
                measure(length, backend, mesh)
            except Exception as error:  # what this version cannot do is part of the answer
                print(f"torch {backend.name} prefill {length}: {type(error).__name__}: {str(error)[:200]}", flush=True)
                break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
