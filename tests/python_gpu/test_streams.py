"""A launch without `stream=` is ordered with the current stream of PyTorch. Needs PyTorch and an NVIDIA GPU of sm_80 or later.

    PYTHONPATH=python python3 tests/python_gpu/test_streams.py

Every case makes its inputs on a side stream behind a kernel that runs for tens of milliseconds, launches, and reads the result on that
stream. A launch on any other stream would read the inputs before they are written.
"""
import unittest

import torch

import kiln

CYCLES = 100_000_000  # about 50 ms


def reference(q, k, v):
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2)


def error(got, wanted):
    return ((got.double() - wanted).norm() / wanted.norm()).item()


class Streams(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        capability = torch.cuda.get_device_capability()
        target = "sm_90a" if capability == (9, 0) else "sm_80"
        cls.runtime = kiln.Runtime("cuda:0")
        cls.kernel = cls.runtime.load({"target": target, "operation": "prefill", "dtype": "bf16", "depth": 128, "mask": "none"})
        cls.paged = cls.runtime.load({"target": target, "operation": "decode", "dtype": "bf16", "depth": 128, "lse": False,
                                      "operand": {"kind": "paged", "page_size": 64}})

    def late(self, shape):
        """A tensor that holds NaN, and the values it will get."""
        return torch.full(shape, float("nan"), dtype=torch.bfloat16, device="cuda"), torch.randn(shape, dtype=torch.bfloat16, device="cuda")

    def test_prefill_on_a_side_stream(self):
        for run in range(3):
            tensors = [self.late((2, 512, 8, 128)) for _ in range(3)]
            o = torch.full_like(tensors[0][0], float("nan"))
            side = torch.cuda.Stream()
            torch.cuda.synchronize()
            with torch.cuda.stream(side):
                torch.cuda._sleep(CYCLES)
                for tensor, values in tensors:
                    tensor.copy_(values)
                self.kernel(*(tensor for tensor, _ in tensors), o)
                got = o.clone()
            torch.cuda.synchronize()
            self.assertLess(error(got, reference(*(values for _, values in tensors))), 4e-3)

    def test_the_side_stream_by_name(self):
        tensors = [self.late((1, 256, 4, 128)) for _ in range(3)]
        o = torch.full_like(tensors[0][0], float("nan"))
        side = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(CYCLES)
            for tensor, values in tensors:
                tensor.copy_(values)
        self.kernel(*(tensor for tensor, _ in tensors), o, stream=side)  # from the default stream
        side.synchronize()
        self.assertLess(error(o, reference(*(values for _, values in tensors))), 4e-3)

    def test_paged_decode_on_a_side_stream(self):
        batch, heads, kv_heads, pages = 3, 8, 2, 4
        q, q_values = self.late((batch, heads, 128))
        k, k_values = self.late((batch * pages, 64, kv_heads, 128))
        v, v_values = self.late((batch * pages, 64, kv_heads, 128))
        o = torch.full_like(q, float("nan"))
        table = torch.zeros(batch, pages, dtype=torch.int32, device="cuda")
        lengths = torch.ones(batch, dtype=torch.int32, device="cuda")
        offsets = torch.arange(batch + 1, dtype=torch.int32, device="cuda")
        order = torch.randperm(batch * pages, device="cuda").to(torch.int32).view(batch, pages)
        wanted_lengths = torch.tensor([256, 100, 1], dtype=torch.int32, device="cuda")
        side = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(CYCLES)
            for tensor, values in ((q, q_values), (k, k_values), (v, v_values), (table, order), (lengths, wanted_lengths)):
                tensor.copy_(values)
            self.paged(q, k, v, o, page_table=table, seqlens_k=lengths, cu_seqlens_q=offsets, max_seqlen_q=1)
            got = o.clone()
        torch.cuda.synchronize()
        for i, length in enumerate(wanted_lengths.tolist()):
            keys, values = (x[order[i].long()].reshape(1, -1, kv_heads, 128)[:, :length].repeat_interleave(heads // kv_heads, 2)
                            for x in (k_values, v_values))
            self.assertLess(error(got[i], reference(q_values[i][None, None], keys, values)[0, 0]), 4e-3)

    def test_capture_and_replay(self):
        q, k, v = (torch.randn(1, 256, 4, 128, dtype=torch.bfloat16, device="cuda") for _ in range(3))
        o = torch.empty_like(q)
        self.kernel(q, k, v, o)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.kernel(q, k, v, o)
        for _ in range(2):
            q.copy_(torch.randn_like(q))
            o.fill_(float("nan"))
            graph.replay()
            self.assertLess(error(o, reference(q, k, v)), 4e-3)


    def test_capture_of_paged_decode(self):
        """PyTorch captures on a stream of its own, which the kernel has not seen before."""
        batch, heads, kv_heads, pages = 3, 8, 2, 4
        q = torch.randn(batch, heads, 128, dtype=torch.bfloat16, device="cuda")
        k, v = (torch.randn(batch * pages, 64, kv_heads, 128, dtype=torch.bfloat16, device="cuda") for _ in range(2))
        table = torch.arange(batch * pages, dtype=torch.int32, device="cuda").view(batch, pages)
        lengths = torch.tensor([256, 100, 1], dtype=torch.int32, device="cuda")
        offsets = torch.arange(batch + 1, dtype=torch.int32, device="cuda")
        o = torch.empty_like(q)
        tables = dict(page_table=table, seqlens_k=lengths, cu_seqlens_q=offsets, max_seqlen_q=1)
        self.paged(q, k, v, o, **tables)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.paged(q, k, v, o, **tables)
        for new_lengths in ([10, 256, 77], [1, 1, 200]):  # read from the device at each replay
            lengths.copy_(torch.tensor(new_lengths, dtype=torch.int32))
            o.fill_(float("nan"))
            graph.replay()
            for i, length in enumerate(new_lengths):
                keys, values = (x[table[i].long()].reshape(1, -1, kv_heads, 128)[:, :length].repeat_interleave(heads // kv_heads, 2)
                                for x in (k, v))
                self.assertLess(error(o[i], reference(q[i][None, None], keys, values)[0, 0]), 4e-3)


if __name__ == "__main__":
    unittest.main()
