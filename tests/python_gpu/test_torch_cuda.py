"""kiln.torch, kiln.compat and kiln.transformers with tensors of an NVIDIA GPU: the suites of python/tests, graphs, compiled models.

    PYTHONPATH=build/python python3 tests/python_gpu/test_torch_cuda.py

Tensors are made on the GPU by torch's default device; `cuda` is what the suites' own cases then run on.
"""
import pathlib
import sys
import unittest

import torch

import kiln
import kiln.torch as kt

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python" / "tests"))
torch.set_default_device("cuda")

from test_flash_attn import FlashAttention  # noqa: E402, F401: run by unittest
from test_flashinfer import FlashInfer  # noqa: E402, F401
from test_torch import Torch, reference  # noqa: E402, F401
from test_transformers import Transformers  # noqa: E402, F401


def error(got, wanted):
    return ((got.double() - wanted.double()).norm() / wanted.double().norm()).item()


class OnTheGpu(unittest.TestCase):
    def test_attention_of_every_kind(self):
        for dtype in (torch.bfloat16, torch.float16):
            for depth in (64, 96, 128, 192, 256):
                q, k, v = (torch.randn(2, rows, heads, depth, dtype=dtype) for rows, heads in ((300, 8), (517, 2), (517, 2)))
                for causal in (False, True):
                    for rows in (300, 1, 4):
                        out, lse = kt.attention(q[:, :rows], k, v, causal=causal, return_lse=True)
                        wanted, wanted_lse = reference(q[:, :rows], k, v, causal=causal)
                        self.assertLess(error(out, wanted), 4e-3, (dtype, depth, causal, rows))
                        self.assertLess((lse - wanted_lse).abs().max().item(), 2e-3)

    def test_graph(self):
        """Captured without a word of the caller's; replays read new values."""
        q, k, v = (torch.randn(2, 256, 4, 128, dtype=torch.bfloat16) for _ in range(3))
        pools = [torch.randn(9, 64, 4, 128, dtype=torch.bfloat16) for _ in range(2)]
        table = torch.randperm(9)[:8].int().view(2, 4)
        lengths = torch.tensor([200, 131], dtype=torch.int32)
        new = torch.randn(2, 4, 128, dtype=torch.bfloat16)
        calls = lambda: (kt.attention(q, k, v, causal=True), kt.decode(new, *pools, page_table=table, seqlens_k=lengths))
        calls()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outs = calls()
        for _ in range(3):
            for tensor in (q, k, v, new, *pools):
                tensor.copy_(torch.randn_like(tensor))
            lengths.copy_(torch.randint(1, 257, (2,)))
            for out in outs:
                out.fill_(float("nan"))
            graph.replay()
            self.assertLess(error(outs[0], reference(q, k, v, causal=True)[0]), 4e-3)
            for i in range(2):
                keys, values = (pool[table[i].long()].reshape(1, 256, 4, 128)[:, :lengths[i]] for pool in pools)
                self.assertLess(error(outs[1][i], reference(new[i][None, None], keys, values)[0][0, 0]), 4e-3)

    def test_compiled_model(self):
        class Block(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.qkv, self.out = torch.nn.Linear(512, 1024), torch.nn.Linear(512, 512)

            def forward(self, x):
                q, k, v = self.qkv(x).split((512, 256, 256), -1)
                o = kt.attention(*(y.reshape(*y.shape[:2], -1, 128) for y in (q, k, v)), causal=True)
                return self.out(o.flatten(-2))

        block, x = Block().to(torch.bfloat16), torch.randn(2, 100, 512, dtype=torch.bfloat16)
        with torch.no_grad():
            wanted = block(x)
            for mode in ("default", "reduce-overhead"):
                compiled = torch.compile(block, fullgraph=True, mode=mode)
                for _ in range(3):
                    got = compiled(x).clone()
                self.assertLess(error(got, wanted), 1e-2, mode)

    def test_random_state_is_left_alone(self):
        q = torch.randn(1, 64, 2, 64, dtype=torch.float16)
        before = torch.cuda.get_rng_state()
        kt.attention(q, q, q)
        self.assertTrue(torch.equal(before, torch.cuda.get_rng_state()))

    def test_refusals_leave_a_capture_whole(self):
        q = torch.randn(1, 64, 2, 64, dtype=torch.float16)
        kt.attention(q, q, q)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            with self.assertRaises(kiln.Error):
                kt.attention(q.float(), q, q)
            out = kt.attention(q, q, q)
        out.zero_()
        graph.replay()
        self.assertLess(error(out, reference(q, q, q)[0]), 4e-3)


if __name__ == "__main__":
    unittest.main()
