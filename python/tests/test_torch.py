"""kiln.torch with CPU tensors, on the emulated device."""
import unittest
import weakref
from unittest import mock

import kiln

try:
    import torch
except ImportError:
    torch = None
if torch is not None:
    import kiln.torch as kt


def reference(q, k, v, causal=False, mask=None, scale=None):
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = q @ k.transpose(2, 3) * (scale or q.shape[-1] ** -0.5)
    if causal:
        mask = torch.ones(s.shape[-2:], dtype=torch.bool).tril(s.shape[-1] - s.shape[-2])
    if mask is not None:
        s = s.masked_fill(~mask, float("-inf"))
    return (s.softmax(-1) @ v).transpose(1, 2), s.logsumexp(-1)


@unittest.skipIf(torch is None, "no PyTorch")
class Torch(unittest.TestCase):
    def close(self, got, wanted):
        self.assertEqual(got.shape, wanted.shape)
        self.assertLess(((got.double() - wanted).norm() / wanted.norm()).item(), 4e-3)

    def make(self, *shapes):
        return [torch.randn(shape, dtype=torch.float16) for shape in shapes]

    def test_attention(self):
        q, k, v = self.make((2, 33, 4, 64), (2, 47, 2, 64), (2, 47, 2, 64))
        self.close(kt.attention(q, k, v), reference(q, k, v)[0])
        out, lse = kt.attention(q, k, v, causal=True, scale=0.2, return_lse=True)
        wanted, wanted_lse = reference(q, k, v, causal=True, scale=0.2)
        self.close(out, wanted)
        self.assertLess((lse - wanted_lse).abs().max().item(), 1e-3)
        given = torch.full_like(q, float("nan"))
        self.assertIs(kt.attention(q, k, v, out=given), given)
        self.close(given, reference(q, k, v)[0])
        # Strided operands: heads before rows.
        t = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
        self.close(kt.attention(*t), reference(q, k, v)[0])
        # Few query rows: the kernel that splits keys.
        self.close(kt.attention(q[:, :3], k, v, causal=True), reference(q[:, :3], k, v, causal=True)[0])

    def test_ragged(self):
        q, k, v = self.make((30, 2, 64), (41, 2, 64), (41, 2, 64))
        offsets_q, offsets_k = (torch.tensor(x, dtype=torch.int32) for x in ((0, 10, 30), (0, 20, 41)))
        out = kt.attention(q, k, v, causal=True, cu_seqlens_q=offsets_q, cu_seqlens_k=offsets_k, max_seqlen_q=20, max_seqlen_k=21)
        for i in range(2):
            rows, keys = slice(offsets_q[i], offsets_q[i + 1]), slice(offsets_k[i], offsets_k[i + 1])
            self.close(out[rows], reference(q[None, rows], k[None, keys], v[None, keys], causal=True)[0][0])

    def test_decode(self):
        q, k, v = self.make((2, 4, 64), (6, 16, 2, 64), (6, 16, 2, 64))
        table = torch.tensor([[4, 1, 0], [2, 5, 3]], dtype=torch.int32)
        lengths = torch.tensor([40, 17], dtype=torch.int32)
        out = kt.decode(q, k, v, page_table=table, seqlens_k=lengths)
        for i in range(2):
            keys, values = (x[table[i].long()].reshape(1, 48, 2, 64)[:, :lengths[i]] for x in (k, v))
            self.close(out[i], reference(q[i][None, None], keys, values)[0][0, 0])
        with self.assertRaisesRegex(kiln.Error, "page_table: int64; int32 is needed"):
            kt.decode(q, k, v, page_table=table.long(), seqlens_k=lengths)

    def test_refusals(self):
        q, = self.make((1, 16, 2, 64))
        for call, words in ((lambda: kt.attention(q.float(), q, q), "q: float32; bfloat16 or float16"),
                            (lambda: kt.attention(q[0], q, q), "q: shape"), (lambda: kt.attention(q, q, q, window=0), "window: 0"),
                            (lambda: kt.attention(q, q, q, softcap=3.0, score_mod="alibi"), "softcap")):
            with self.assertRaisesRegex(kiln.Error, words):
                call()
        with self.assertRaisesRegex(NotImplementedError, "no backward"):
            kt.attention(q.requires_grad_(), q, q)
        with torch.no_grad():
            kt.attention(q, q, q)

    def test_calls_like_an_earlier_one(self):
        q, k, v = self.make((1, 12, 2, 64), (1, 20, 1, 64), (1, 20, 1, 64))
        bias, table = torch.randn(2), torch.tensor([[2], [0]], dtype=torch.int32)
        rows, pages, lengths = q[0, :2], torch.randn(3, 16, 1, 64, dtype=torch.float16), torch.tensor([9, 4], dtype=torch.int32)
        choices = [dict(), dict(causal=True), dict(window=9), dict(window=(9, 0)), dict(window=(4, 3)), dict(window=(5, 3)), dict(softcap=7),
                   dict(softcap=7.5), dict(score_mod="score * 2"), dict(score_mod="score * 0.5"), dict(sink=bias), dict(scale=0.3), dict(return_lse=True),
                   dict(score_mod="score + bias[h]", captured=dict(bias=bias)), dict(score_mod="score + bias[h]", captured=dict(bias=bias.half()))]
        calls = [lambda given=given: kt.attention(q, k, v, **given) for given in choices]
        turned = q.transpose(1, 2).contiguous().transpose(1, 2)
        calls += [lambda: kt.attention(q[:, :3], k, v), lambda: kt.attention(q, k, torch.cat((v, v), 3)), lambda: kt.decode(rows, pages, pages, page_table=table, seqlens_k=lengths),
                  lambda: kt.decode(rows[:1], pages, pages, page_table=table[:1], seqlens_k=lengths[:1])]
        with mock.patch.object(kt, "_calls", kt._new_calls()):
            first = [call() for call in calls]
            self.assertEqual(len(kt._calls), len(calls) - 1)  # the scale is of the launch
            self.assertEqual(sum(torch.equal(first[0], out) for out in first[1:12]), 0)
            with mock.patch.object(kt, "_attend", side_effect=AssertionError("in Python")):
                again = [call() for call in calls]
                given, lse = torch.empty_like(q), torch.empty(1, 2, 12)
                self.assertIs(kt.attention(q, k, v, out=given, lse=lse, return_lse=True)[0], given)
                self.assertTrue(kt.attention(turned, k, v).is_contiguous())
            torch.testing.assert_close(again, first, rtol=2e-3, atol=1e-3)
            torch.testing.assert_close((given, lse), first[12], rtol=2e-3, atol=1e-3)
            self.check_refusals_of_known_calls(q, k, v, rows, pages, table, lengths)

    def check_refusals_of_known_calls(self, q, k, v, rows, pages, table, lengths):
        seen = []

        class Mode(torch.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                seen.append(str(function))
                return function(*args, **(kwargs or {}))

        with Mode():
            kt.attention(q, k, v)
        self.assertIn("kiln.attend.default", seen)
        compiled = torch.compile(lambda q: kt.attention(q, k, v), fullgraph=True, backend="aot_eager")
        self.close(compiled(q), kt.attention(q, k, v).double())
        with self.assertRaisesRegex(kiln.Error, "page_table: int64; int32 is needed"):
            kt.decode(rows, pages, pages, page_table=table.long(), seqlens_k=lengths)
        with self.assertRaisesRegex(kiln.Error, "kv_dtype is dtype"):
            kt.attention(q, k.bfloat16(), v)
        with self.assertRaisesRegex(kiln.Error, "window: 0"):
            kt.attention(q, k, v, window=0)
        with self.assertRaisesRegex(NotImplementedError, "no backward"):
            kt.attention(q, k, v.detach().requires_grad_())
        parameter = torch.nn.Parameter(q)
        with torch.no_grad():
            self.close(kt.attention(parameter, k, v), kt.attention(q, k, v).double())

    def test_sdpa(self):
        q, k, v = self.make((1, 4, 20, 64), (1, 2, 20, 64), (1, 2, 20, 64))
        f = torch.nn.functional
        original = f.scaled_dot_product_attention
        mask = torch.rand(1, 1, 20, 20) < 0.7
        mask |= torch.eye(20, dtype=torch.bool)
        for keywords in (dict(is_causal=True), dict(), dict(attn_mask=mask), dict(scale=0.3)):
            wanted = original(*(x.double() for x in (q, k, v)), enable_gqa=True, **keywords)
            with kt.sdpa(strict=True):
                self.close(f.scaled_dot_product_attention(q, k, v, enable_gqa=True, **keywords), wanted)
        self.assertIs(f.scaled_dot_product_attention, original)
        for rows in (1, 3):  # the kernel that splits keys
            wanted = original(*(x.double() for x in (q[:, :, :rows], k, v)), mask[:, :, :rows], enable_gqa=True)
            self.close(kt.scaled_dot_product_attention(q[:, :, :rows], k, v, mask[:, :, :rows], enable_gqa=True), wanted)
        additive = torch.randn(20, 20, dtype=torch.float16)
        additive[:, 3] = torch.finfo(torch.float16).min
        additive[4, 5] = float("-inf")
        for mask in (additive, additive.float()[None, None].expand(-1, q.shape[1], -1, -1), additive[None, :1]):
            with kt.sdpa(strict=True):
                self.close(f.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True).double(),
                           original(*(x.double() for x in (q, k, v)), mask.double(), enable_gqa=True))
        with self.assertRaisesRegex(NotImplementedError, "attn_mask: torch.int32"):
            kt.scaled_dot_product_attention(q, k, v, additive.int(), enable_gqa=True)
        with self.assertRaisesRegex(NotImplementedError, "dropout"):
            kt.scaled_dot_product_attention(q, q, q, dropout_p=0.1)

    def test_operator(self):
        q, k, v = self.make((1, 20, 4, 64), (1, 20, 2, 64), (1, 20, 2, 64))
        arguments = (q, k, v, None, None, None, None, None, None, [], "", 0, 0, None, 0, "prefill", "contiguous", "causal", 0, 0.0, None, True)
        torch.library.opcheck(torch.ops.kiln.attend.default, arguments,
                              test_utils=("test_schema", "test_faketensor", "test_autograd_registration"))
        first = torch.ops.kiln.attend.default(*arguments)
        with mock.patch.object(kt, "_attend", side_effect=AssertionError("in Python")):
            again = torch.ops.kiln.attend.default(*arguments)
        torch.testing.assert_close(again, first, rtol=2e-3, atol=1e-3)
        self.check_nothing_kept()
        compiled = torch.compile(lambda q, k, v: kt.attention(q * 2, k, v, causal=True) + 1, fullgraph=True, backend="aot_eager")
        with torch.no_grad():
            self.close(compiled(q, k, v), reference(q * 2, k, v, causal=True)[0] + 1)
            # Every size a symbol, a window, and a mask of bits.
            mask = torch.ones(1, 1, 20, 20, dtype=torch.bool).tril()
            bias = torch.randn(4, 20, 20, dtype=torch.bfloat16)
            for keywords in (dict(window=7), dict(window=(5, 2)), dict(causal=True, first_keys=torch.tensor([3], dtype=torch.int32)), dict(mask_bits=kt.pack_mask(mask)),
                             dict(score_mod="where(seen[0, 0, q, k] != 0, score + bias[h, q, k], -inf)", captured=dict(bias=bias, seen=mask))):
                compiled = torch.compile(lambda q, k, v: kt.attention(q, k, v, return_lse=True, **keywords), fullgraph=True, backend="aot_eager",
                                         dynamic=True)
                self.close(compiled(q, k, v)[0], kt.attention(q, k, v, **keywords))

        class Model(torch.nn.Module):
            def forward(self, q, k, v):
                return kt.attention(q, k, v, return_lse=True)

        exported = torch.export.export(Model(), (q, k, v))
        self.assertIn("kiln.attend", str(exported.graph))
        self.close(exported.module()(q, k, v)[0], reference(q, k, v)[0])

    def check_nothing_kept(self):
        """Offsets that a call was given, which may lie in the memory of a graph, are the caller's alone."""
        q, pages = torch.randn(2, 2, 64, dtype=torch.float16), torch.randn(3, 16, 1, 64, dtype=torch.float16)
        table, lengths, offsets = (torch.tensor(x, dtype=torch.int32) for x in ([[1], [2]], [9, 4], [0, 1, 2]))
        torch.ops.kiln.attend.default(q, pages, pages, offsets, None, table, lengths, None, None, [], "", 1, 0, None, 0, "decode", "paged", "none", 0, 0.0,
                                      None, False)
        kt.decode(q, pages, pages, page_table=table, seqlens_k=lengths, cu_seqlens_q=offsets, max_seqlen_q=2)
        kept = weakref.ref(offsets)
        del offsets
        self.assertIsNone(kept())

    def test_captured_tensors(self):
        q, k, v = self.make((2, 20, 4, 64), (2, 31, 2, 64), (2, 31, 2, 64))
        bias, documents = torch.randn(4, 20, 31), torch.randint(0, 3, (2, 31), dtype=torch.int32).sort(1).values
        documents[:, 0] = documents[:, -1]
        for rows in (20, 3):  # prefill, decode
            keywords = dict(score_mod="where(of[b, q + seqlen_k - seqlen_q] == of[b, k], score + bias[h, q, k], -inf)",
                            captured=dict(bias=bias[:, :rows], of=documents))
            out = kt.attention(q[:, :rows], k, v, **keywords)
            for i in range(2):
                s = (q[i, :rows].double().transpose(0, 1) @ k[i].double().repeat_interleave(2, 1).permute(1, 2, 0)) / 8 + bias[:, :rows]
                s = s.masked_fill(documents[i, None, 31 - rows:, None] != documents[i, None, None], float("-inf"))
                self.close(out[i], (s.softmax(-1) @ v[i].double().repeat_interleave(2, 1).transpose(0, 1)).transpose(0, 1))
        for wrong, message in ((dict(captured=dict(bias=bias)), "without a score_mod"),
                               (dict(score_mod="score + bias[h]", captured=dict(bias=bias[:, 0, 0].double())), "captured 'bias': float64"),
                               (dict(score_mod="score + bias[h]", captured=dict(bias=bias)), "captured 'bias' has shape"),
                               (dict(score_mod="score + bais[h]", captured=dict(bias=bias[:, 0, 0])), "no tensor is called 'bais'")):
            with self.assertRaisesRegex(kiln.Error, message):
                kt.attention(q, k, v, **wrong)

    def test_warmup(self):
        kt.warmup([dict(dtype=torch.float16, depth=64, causal=True),
                   dict(dtype=torch.float16, depth=64, score_mod="score + bias[h]", captured=dict(bias=torch.float32))], device="cpu", progress=False)
        with self.assertRaisesRegex(kiln.Error, "cases: dept;"):
            kt.warmup([dict(dept=64)], device="cpu")


if __name__ == "__main__":
    unittest.main()
