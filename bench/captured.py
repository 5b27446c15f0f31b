#!/usr/bin/env python3
"""What masks and captured tensors cost in prefill on an NVIDIA GPU: kiln's kernels beside each other and beside FlexAttention.

    PYTHONPATH=build/python python3 bench/captured.py [--rows 8192] [--heads 32] [--kv-heads 8] [--rounds 15] [--flex]

Every case is checked against float64 on some rows of one head, then timed: a CUDA graph of 8 launches, in turns, the median of the rounds. TFLOP/s count
the keys that rows see. `--flex` compiles torch.nn.attention.flex_attention for the cases that it can say.
"""
import argparse
import statistics

import torch

import kiln.torch as kt
from kiln.compat._scores import scores

LAUNCHES = 8


def graph_of(call):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(LAUNCHES):
            call()
    return graph


def microseconds(graph):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3 / LAUNCHES


def cases(s, heads):
    """name, keywords of kt.attention, seen(q, k) and what is added to scores (h, q, k) in float64."""
    row, col = torch.arange(s)[:, None], torch.arange(s)[None]
    causal = col <= row
    slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)
    bias = torch.randn(1, s, s, dtype=torch.bfloat16)
    document = (torch.arange(s) // 1500).int()
    within = document[:, None] == document[None]
    captured = lambda text, **tensors: dict(score_mod=text, captured=tensors)
    yield "causal", dict(causal=True), causal, None
    yield "ALiBi, kiln's own", dict(causal=True, score_mod="alibi"), causal, lambda h: -slopes[h] * (row - col)
    yield "slopes captured", dict(causal=True, **captured("score - slope[h] * (q - k)", slope=slopes.float())), causal, lambda h: -slopes[h] * (row - col)
    yield "bias[0, q, k] captured, bfloat16", dict(causal=True, **captured("score + bias[0, q, k]", bias=bias)), causal, lambda h: bias[0].double()
    yield ("documents captured", dict(causal=True, **captured("where(document[0, q] == document[0, k], score, -inf)", document=document[None])),
           causal & within, None)
    near = causal & (col >= row - 1023)
    yield "window 1024, from the config", dict(window=1024), near, None
    yield "window 1024, at launch", dict(window=(1023, 0)), near, None
    both = (col >= row - 512) & (col <= row + 511)
    yield "window of two sides, at launch", dict(window=(512, 511)), both, None
    yield "window of two sides, an expression", dict(score_mod="where(k >= q - 512 && k <= q + 511, score, -inf)"), both, None
    yield "chunks of 1024, from the config", dict(chunk=1024), causal & (col // 1024 == row // 1024), None
    yield "chunks of 1024, at launch", scores(right=0, chunk=1024), causal & (col // 1024 == row // 1024), None


def flex(name, q, k, v, slopes):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    s = q.shape[2]
    document = torch.arange(s) // 1500
    rules = {"causal": (lambda b, h, i, j: i >= j, None),
             "slopes captured": (lambda b, h, i, j: i >= j, lambda score, b, h, i, j: score - slopes[h] * (i - j)),
             "documents captured": (lambda b, h, i, j: (i >= j) & (document[i] == document[j]), None),
             "window 1024, from the config": (lambda b, h, i, j: (i >= j) & (i - j < 1024), None),
             "window of two sides, at launch": (lambda b, h, i, j: (j >= i - 512) & (j <= i + 511), None)}
    if name not in rules:
        return None
    sees, score = rules[name]
    blocks = create_block_mask(sees, None, None, s, s)
    compiled = torch.compile(flex_attention)
    return lambda: compiled(q, k, v, score_mod=score, block_mask=blocks, enable_gqa=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("rows", 8192), ("heads", 32), ("kv-heads", 8), ("rounds", 15)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--flex", action="store_true")
    options = parser.parse_args()
    torch.set_default_device("cuda")
    torch.manual_seed(1)
    s = options.rows
    q, k, v = (torch.randn(1, s, heads, 128, dtype=torch.bfloat16) for heads in (options.heads, options.kv_heads, options.kv_heads))
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; {s} rows, {options.heads}/{options.kv_heads} heads, depth 128, bfloat16")
    head = options.heads - 1
    rows = torch.randint(0, s, (64,))
    group = options.heads // options.kv_heads
    products = q[0, rows, head].double() @ k[0, :, head // group].double().T * 128**-0.5
    graphs, pairs, kept = {}, {}, []
    with torch.inference_mode():
        for name, keywords, seen, added in cases(s, options.heads):
            out = kt.attention(q, k, v, **keywords)
            wanted = products if added is None else products + added(head)[rows].double()
            wanted = wanted.masked_fill(~seen[rows], float("-inf")).softmax(-1).nan_to_num(0.0) @ v[0, :, head // group].double()
            error = ((out[0, rows, head].double() - wanted).norm() / wanted.norm()).item()
            assert error < 4e-3, (name, error)
            kept.append((out, keywords))  # graphs have their addresses
            graphs[name] = graph_of(lambda: kt.attention(q, k, v, out=out, **keywords))
            pairs[name] = seen.sum().item()
            if options.flex:
                slopes = 2.0 ** (-8.0 * torch.arange(1, options.heads + 1) / options.heads)
                call = flex(name, *(x.transpose(1, 2) for x in (q, k, v)), slopes)
                if call is not None:
                    kept.append(call)
                    graphs[f"  FlexAttention, {name}"], pairs[f"  FlexAttention, {name}"] = graph_of(call), pairs[name]
        times = {name: [] for name in graphs}
        for _ in range(options.rounds):
            for name, graph in graphs.items():
                times[name].append(microseconds(graph))
    for name, measured in times.items():
        us = statistics.median(measured)
        print(f"{name:60} {us:9.1f} us   {4 * 128 * options.heads * pairs[name] / us * 1e-6:7.1f} TFLOP/s")


if __name__ == "__main__":
    main()
