#!/usr/bin/env python3
"""Host cost of a call from Python, eager, in microseconds: kiln beside PyTorch and FlashAttention-3, in one process.

    PYTHONPATH=build/python python3 bench/python.py [--calls 2000] [--rounds 9] [--profile]
    PYTHONPATH=build/python build/kiln emulate -- python3 bench/python.py --no-launch     # on a machine without a GPU

Needs PyTorch and an NVIDIA GPU, or the stand-in for its driver. Problems are so short that the host is what takes the time: a round is
`calls` calls one after the other and the wait for the last; the median of the rounds is shown, and the fastest. Each is measured on the
default stream and on a side stream. With --no-launch calls have no query rows, so that kiln launches nothing: what is left is all of a
call but the driver's launch. FlashAttention-3 is taken from flash_attn_interface, where it can be imported.
`build/bench/kiln_launch_cost` has the C call beside the driver's launch.
"""
import argparse
import statistics
import time

import torch

import kiln
import kiln.torch as kt


def microseconds(call, calls, rounds):
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / calls * 1e6)
    return statistics.median(times), min(times)


def fa3():
    try:
        import flash_attn_interface

        return flash_attn_interface
    except ImportError:
        return None


def values(*shape):
    return torch.randn(shape, dtype=torch.bfloat16).cuda()


def prefill(empty):
    q, k, v = (values(0 if empty else 1, 128, heads, 128) for heads in (8, 2, 2))
    o = torch.empty_like(q)
    target = kt.runtime(q.device).target
    kernel = kt.runtime(q.device).load({"target": target, "operation": "prefill", "dtype": "bf16", "depth": 128, "mask": "causal"})
    yield "kiln kernel(q, k, v, o)", lambda: kernel(q, k, v, o)
    yield "kiln.torch.attention, out given", lambda: kt.attention(q, k, v, causal=True, out=o)
    yield "kiln.torch.attention", lambda: kt.attention(q, k, v, causal=True)
    attend = torch.ops.kiln.attend.default  # as compiled code calls it
    yield "torch.ops.kiln.attend.default", lambda: attend(
        q, k, v, None, None, None, None, None, None, [], "", 0, 0, None, 0, "prefill", "contiguous", "causal", 0, 0.0, None, False)
    if fa3():
        yield "flash_attn_func (FA3)", lambda: fa3().flash_attn_func(q, k, v, causal=True)
    t = [x.transpose(1, 2) for x in (q, k, v)]
    yield "torch SDPA", lambda: torch.nn.functional.scaled_dot_product_attention(*t, is_causal=True, enable_gqa=True)
    yield "torch.add, out given", lambda: torch.add(q, q, out=o)


def paged_decode(empty):
    batch, pages = 4, 4
    q = values(0 if empty else batch, 8, 128)
    k, v = (values(batch * pages, 64, 2, 128) for _ in range(2))
    table = torch.arange(batch * pages, dtype=torch.int32).view(batch, pages).cuda()
    lengths = torch.full((batch,), 64, dtype=torch.int32).cuda()
    offsets = (torch.arange(batch + 1, dtype=torch.int32) * (not empty)).cuda()
    pages, rows = dict(page_table=table, seqlens_k=lengths), dict(cu_seqlens_q=offsets, max_seqlen_q=1 - empty)
    o = torch.empty_like(q)
    target = kt.runtime(q.device).target
    kernel = kt.runtime(q.device).load({"target": target, "operation": "decode", "dtype": "bf16", "depth": 128,
                                        "operand": {"kind": "paged", "page_size": 64}})
    yield "kiln kernel(q, k, v, o, ...)", lambda: kernel(q, k, v, o, **pages, **rows)
    rows = rows if empty else {}
    yield "kiln.torch.decode, out given", lambda: kt.decode(q, k, v, **pages, **rows, out=o)
    yield "kiln.torch.decode", lambda: kt.decode(q, k, v, **pages, **rows)
    if fa3():
        yield "flash_attn_with_kvcache (FA3)", lambda: fa3().flash_attn_with_kvcache(
            q[:, None], k, v, cache_seqlens=lengths, page_table=table, causal=True)


def profile(call, calls=3000):
    import cProfile
    import pstats

    call()
    with cProfile.Profile() as profiler:
        for _ in range(calls):
            call()
    pstats.Stats(profiler).sort_stats("cumulative").print_stats(14)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--no-launch", action="store_true", help="kiln's calls alone, without query rows")
    parser.add_argument("--profile", action="store_true", help="where Python spends the time of kiln's calls")
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, kiln {kiln.__version__}, "
          f"DLPack exchange table: {hasattr(torch.Tensor, '__dlpack_c_exchange_api__')}")
    side = torch.cuda.Stream()
    with torch.inference_mode():
        for title, cases in (("prefill, 128 tokens, 8/2 heads, depth 128", prefill), ("paged decode, batch 4", paged_decode)):
            print(f"\n{title:44} {'default stream':>20} {'side stream':>20}   us: median (fastest)")
            for name, call in cases(options.no_launch):
                if options.no_launch and "kiln" not in name:
                    continue
                try:
                    call()
                except (NotImplementedError, RuntimeError) as error:  # a build of a contender without this
                    print(f"{name:44} {str(error).splitlines()[0][:80]}")
                    continue
                plain = microseconds(call, options.calls, options.rounds)
                with torch.cuda.stream(side):
                    on_side = microseconds(call, options.calls, options.rounds)
                print(f"{name:44} {plain[0]:12.2f} ({plain[1]:.2f}) {on_side[0]:12.2f} ({on_side[1]:.2f})")
                if options.profile and name.startswith("kiln"):
                    profile(call)


if __name__ == "__main__":
    main()
