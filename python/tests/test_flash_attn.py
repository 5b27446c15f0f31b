"""kiln.compat.flash_attn with CPU tensors, on the emulated device, against the original's documentation."""
import contextlib
import unittest
from unittest import mock

import kiln

try:
    import torch
except ImportError:
    torch = None
if torch is not None:
    import kiln.compat.flash_attn as fa
    import kiln.torch as kt


def reference(q, k, v, causal=False, window=(-1, -1), chunk=0, scale=None, softcap=0.0, mask=None, sink=None, slopes=None):
    """One sequence, [seqlen, heads, depth]: out and log-sum-exp [heads, seqlen]."""
    q, k, v = (x.double().transpose(0, 1) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[0] // x.shape[0], 0) for x in (k, v))
    s = q @ k.transpose(1, 2) * (scale or q.shape[-1] ** -0.5)
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    rows = torch.arange(q.shape[1])[:, None] + k.shape[1] - q.shape[1]
    keys = torch.arange(k.shape[1])[None]
    if slopes is not None:
        s = s - slopes.double()[:, None, None] * (rows - keys).abs()
    seen = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool) if mask is None else mask.clone()
    if causal or window[1] == 0:
        seen &= keys <= rows
    if window[0] >= 0:
        seen &= keys >= rows - window[0]
    if window[1] > 0 and not causal:
        seen &= keys <= rows + window[1]
    if chunk:
        seen &= keys // chunk == rows // chunk
    s = s.masked_fill(~seen, float("-inf"))
    if sink is not None:
        s = torch.cat((s, sink.double()[:, None, None].expand(-1, s.shape[1], 1)), 2)
        v = torch.cat((v, torch.zeros_like(v[:, :1])), 1)
    return (s.softmax(-1).nan_to_num(0.0) @ v).transpose(0, 1), s.logsumexp(-1)


def rotate(x, cos, sin, positions, interleaved):
    """Rows x [rows, heads, depth], the first columns rotated for `positions`."""
    x, half = x.double().clone(), cos.shape[1]
    for j, position in enumerate(positions):
        for pair in range(half):
            a, b = (2 * pair, 2 * pair + 1) if interleaved else (pair, pair + half)
            c, s = (y[position, pair].double() for y in (cos, sin))
            x[j, :, a], x[j, :, b] = x[j, :, a] * c - x[j, :, b] * s, x[j, :, a] * s + x[j, :, b] * c
    return x.half()


@unittest.skipIf(torch is None, "no PyTorch")
class FlashAttention(unittest.TestCase):
    def close(self, got, wanted):
        self.assertEqual(got.shape, wanted.shape)
        self.assertLess(((got.double() - wanted).norm() / wanted.norm()).item(), 4e-3)

    def make(self, *shapes):
        return [torch.randn(shape, dtype=torch.float16) for shape in shapes]

    def test_func(self):
        q, k, v = self.make((2, 20, 4, 64), (2, 35, 2, 64), (2, 35, 2, 64))
        slopes = torch.tensor([0.5, 0.1, 0.03, 0.25])
        for keywords, wanted in (({}, {}), (dict(causal=True, softmax_scale=0.2), dict(causal=True, scale=0.2)),
                                 (dict(window_size=(7, 0)), dict(window=(7, 0))), (dict(window_size=(-1, 0)), dict(causal=True)),
                                 (dict(causal=True, window_size=(5, 9)), dict(causal=True, window=(5, 0))),
                                 (dict(causal=True, attention_chunk=8), dict(causal=True, chunk=8)),
                                 (dict(window_size=(3, 5)), dict(window=(3, 5))), (dict(window_size=(-1, 4)), dict(window=(-1, 4))),
                                 (dict(window_size=(6, -1), softcap=1.5), dict(window=(6, -1), softcap=1.5)),
                                 (dict(attention_chunk=8), dict(chunk=8)),
                                 (dict(causal=True, attention_chunk=8, window_size=(2, 0)), dict(causal=True, chunk=8, window=(2, 0))),
                                 (dict(attention_chunk=16, window_size=(4, 2)), dict(chunk=16, window=(4, 2))),
                                 (dict(causal=True, alibi_slopes=slopes), dict(causal=True, slopes=slopes)),
                                 (dict(alibi_slopes=slopes, softcap=2.0), dict(slopes=slopes, softcap=2.0)),
                                 (dict(softcap=2.0, deterministic=True, pack_gqa=True), dict(softcap=2.0))):
            out = fa.flash_attn_func(q, k, v, **keywords)
            self.close(out, torch.stack([reference(*x, **wanted)[0] for x in zip(q, k, v)]))
        each = torch.stack((slopes, 2 * slopes))
        out = fa.flash_attn_func(q, k, v, causal=True, alibi_slopes=each)
        self.close(out, torch.stack([reference(*x, causal=True, slopes=s)[0] for *x, s in zip(q, k, v, each)]))
        out, lse = fa.flash_attn_func(q, k, v, None, True, return_attn_probs=True)
        self.assertLess((lse - torch.stack([reference(*x, causal=True)[1] for x in zip(q, k, v)])).abs().max().item(), 1e-3)
        qkv = torch.cat((q, q[:, :, :2], q[:, :, 2:]), 2)
        self.close(fa.flash_attn_qkvpacked_func(qkv, num_heads_q=4), torch.stack([reference(x, x[:, :2], x[:, 2:])[0] for x in q]))

    def test_out_of_scope(self):
        q, = self.make((1, 4, 2, 64))
        qv, = self.make((1, 4, 2, 48))
        for keywords, error, words in ((dict(qv=qv), (NotImplementedError, kiln.Error), "qv: "), (dict(k_descale=q), kiln.Error, "k_descale: given, k is float16"),
                                       (dict(dropout_p=0.5), NotImplementedError, "dropout"), (dict(num_splits=-3), kiln.Error, "num_splits: -3"),
                                       (dict(window_size=(-7, 2)), kiln.Error, None)):
            if words is None:  # any negative side is no bound
                fa.flash_attn_func(q, q, q, **keywords)
                continue
            with self.assertRaisesRegex(error, words):
                fa.flash_attn_func(q, q, q, **keywords)

    def test_sides_of_a_window_are_parameters(self):
        q, k, v = self.make((1, 20, 2, 64), (1, 90, 2, 64), (1, 90, 2, 64))
        before = len(kt._by_text)
        for window, chunk in (((50, 3), 0), ((2, 11), 0), ((0, 1), 0), ((40, 30), 0), ((40, 30), 17), ((5, 6), 70)):
            out = fa.flash_attn_func(q, k, v, window_size=window, attention_chunk=chunk)
            self.close(out[0], reference(q[0], k[0], v[0], window=window, chunk=chunk)[0])
        self.assertLessEqual(len(kt._by_text) - before, 2)  # one kernel for all windows, one for those with chunks

    def test_splits(self):
        q, k, v = self.make((2, 1, 4, 64), (2, 200, 2, 64), (2, 200, 2, 64))
        wanted = torch.stack([reference(*x)[0] for x in zip(q, k, v)])
        for splits in (0, 1, 3):
            self.close(fa.flash_attn_func(q, k, v, num_splits=splits), wanted)
            self.close(fa.flash_attn_with_kvcache(q, k, v, num_splits=splits), wanted)

    @contextlib.contextmanager
    def hopper(self):
        """CPU tensors as on sm_90a."""
        with mock.patch.multiple(kt, EMULATED_TARGET="sm_90a", _kernels={}, _by_text={}, _calls=kt._new_calls()):
            yield

    def test_fp8(self):
        q, k, v = ((x / 2).to(torch.float8_e4m3fn) for x in self.make((2, 20, 4, 64), (2, 35, 2, 64), (2, 35, 2, 64)))
        scales = [0.5 + torch.rand(2, 2) for _ in range(3)]
        scales[1] = torch.cat((scales[1], scales[1]), 1)[:, ::2]  # strided
        exact = [x.float() * (s.repeat_interleave(x.shape[2] // 2, 1))[:, None, :, None] for x, s in zip((q, k, v), scales)]
        with self.hopper():
            for rows in (20, 1):  # the kernels of long and of few rows
                out = fa.flash_attn_func(q[:, :rows], k, v, causal=True, q_descale=scales[0], k_descale=scales[1], v_descale=scales[2])
                self.assertEqual(out.dtype, torch.bfloat16)
                wanted = torch.stack([reference(a[:rows], b, c, causal=True)[0] for a, b, c in zip(*exact)])
                self.assertLess(((out.double() - wanted).norm() / wanted.norm()).item(), 4e-2)
            with self.assertRaisesRegex(kiln.Error, r"k_descale: shape \[2\]"):
                fa.flash_attn_func(q, k, v, k_descale=scales[1][0])

    def test_second_pair_of_operands(self):
        q, k, v, qv = (x.bfloat16() for x in self.make((2, 3, 4, 64), (2, 70, 1, 64), (2, 70, 1, 512), (2, 3, 4, 512)))
        with self.hopper():
            out, lse = fa.flash_attn_func(q, k, v, qv=qv, causal=True, return_attn_probs=True)
            lengths = torch.tensor([70, 41], dtype=torch.int32)
            cached = fa.flash_attn_with_kvcache(q, k, v, qv=qv, cache_seqlens=lengths, causal=True)
            slopes = torch.tensor([[0.5, 0.1, 0.03, 0.25], [0.2, 0.4, 0.1, 0.3]])
            sloped = fa.flash_attn_func(q, k, v, qv=qv, causal=True, softcap=3.0, alibi_slopes=slopes)
            with self.assertRaisesRegex(kiln.Error, "qv: shape"):
                fa.flash_attn_func(q, k, v, qv=qv[:, :2])
        for i in range(2):
            both, keys = torch.cat((q, qv), -1)[i], torch.cat((k, v), -1)[i]
            wanted, wanted_lse = reference(both, keys, v[i], causal=True)
            self.close(out[i], wanted)
            self.assertLess((lse[i] - wanted_lse).abs().max().item(), 5e-3)
            self.close(sloped[i], reference(both, keys, v[i], causal=True, softcap=3.0, slopes=slopes[i])[0])
            self.close(cached[i], reference(both, keys[:lengths[i]], v[i, :lengths[i]], causal=True)[0])

    def test_varlen(self):
        q, k, v = self.make((30, 4, 64), (41, 2, 64), (41, 2, 64))
        offsets_q, offsets_k = (torch.tensor(x, dtype=torch.int32) for x in ((0, 10, 30), (0, 20, 41)))
        out, lse = fa.flash_attn_varlen_func(q, k, v, offsets_q, offsets_k, 20, 21, causal=True, return_attn_probs=True)
        for i in range(2):
            rows, keys = slice(offsets_q[i], offsets_q[i + 1]), slice(offsets_k[i], offsets_k[i + 1])
            wanted, wanted_lse = reference(q[rows], k[keys], v[keys], causal=True)
            self.close(out[rows], wanted)
            self.assertLess((lse[:, rows] - wanted_lse).abs().max().item(), 1e-3)
        # Fewer rows and keys than there are: rows past them are anything.
        used_q, used_k = (torch.tensor(x, dtype=torch.int32) for x in ((7, 20), (15, 9)))
        for keywords in (dict(causal=True), dict(), dict(window_size=(4, 2))):
            for given in (dict(seqused_k=used_k), dict(seqused_q=used_q, seqused_k=used_k)):
                out = fa.flash_attn_varlen_func(q, k, v, offsets_q, offsets_k, 20, 21, **keywords, **given)
                for i in range(2):
                    begin, end = int(offsets_q[i]), int(offsets_q[i] + used_q[i]) if "seqused_q" in given else int(offsets_q[i + 1])
                    mine = slice(int(offsets_k[i]), int(offsets_k[i] + used_k[i]))
                    wanted, _ = reference(q[begin:end], k[mine], v[mine], causal="causal" in keywords, window=keywords.get("window_size", (-1, -1)))
                    self.close(out[begin:end], wanted)

    def test_kvcache(self):
        q, k_cache, v_cache, k, v = self.make((2, 3, 4, 64), (5, 40, 2, 64), (5, 40, 2, 64), (2, 3, 2, 64), (2, 3, 2, 64))
        lengths, rows = torch.tensor([30, 17], dtype=torch.int32), torch.tensor([4, 1], dtype=torch.int32)
        out, lse = fa.flash_attn_with_kvcache(q, k_cache, v_cache, cache_seqlens=lengths, cache_batch_idx=rows, causal=True,
                                              return_softmax_lse=True)
        for i in range(2):
            wanted, wanted_lse = reference(q[i], k_cache[rows[i], :lengths[i]], v_cache[rows[i], :lengths[i]], causal=True)
            self.close(out[i], wanted)
            self.assertLess((lse[i] - wanted_lse).abs().max().item(), 1e-3)
        # New keys are written at the lengths first.
        before = k_cache.clone()
        out = fa.flash_attn_with_kvcache(q, k_cache, v_cache, k, v, cache_seqlens=lengths, cache_batch_idx=rows, causal=True)
        for i in range(2):
            row, end = rows[i], lengths[i] + 3
            self.assertTrue(torch.equal(k_cache[row, lengths[i]:end], k[i]) and torch.equal(v_cache[row, lengths[i]:end], v[i]))
            self.assertTrue(torch.equal(k_cache[row, :lengths[i]], before[row, :lengths[i]]))
            self.close(out[i], reference(q[i], k_cache[row, :end], v_cache[row, :end], causal=True)[0])
        self.assertTrue(torch.equal(k_cache[0], before[0]))
        # One length for all, and whole caches.
        out = fa.flash_attn_with_kvcache(q, k_cache[:2], v_cache[:2], cache_seqlens=25)
        self.close(out, torch.stack([reference(q[i], k_cache[i, :25], v_cache[i, :25])[0] for i in range(2)]))

    def test_pages_and_rotary(self):
        q, k_pages, v_pages, k, v = self.make((2, 2, 4, 64), (8, 16, 2, 64), (8, 16, 2, 64), (2, 2, 2, 64), (2, 2, 2, 64))
        table = torch.tensor([[4, 1, 0], [2, 5, 3]], dtype=torch.int32)
        lengths = torch.tensor([31, 17], dtype=torch.int32)
        angles = torch.rand(48, 16).double() * 6
        cos, sin = angles.cos().half(), angles.sin().half()
        for interleaved in (True, False):
            out = fa.flash_attn_with_kvcache(q, k_pages, v_pages, k, v, cache_seqlens=lengths, page_table=table, causal=True, rotary_cos=cos,
                                             rotary_sin=sin, rotary_interleaved=interleaved)
            for i in range(2):
                def turn(x):
                    return rotate(x, cos, sin, [int(lengths[i]) + j for j in range(2)], interleaved)

                keys, values = (x[table[i].long()].reshape(48, 2, 64)[: lengths[i] + 2] for x in (k_pages, v_pages))
                self.assertLess((keys[lengths[i]:].double() - turn(k[i]).double()).abs().max().item(), 4e-3)
                self.close(out[i], reference(turn(q[i]), keys, values, causal=True)[0])
        pad = torch.tensor([5, 12], dtype=torch.int32)
        for keywords in (dict(causal=True), dict(), dict(window_size=(9, 1))):
            out = fa.flash_attn_with_kvcache(q, k_pages, v_pages, cache_seqlens=lengths, page_table=table, cache_leftpad=pad, **keywords)
            for i in range(2):
                keys, values = (x[table[i].long()].reshape(48, 2, 64)[pad[i]: lengths[i]] for x in (k_pages, v_pages))
                self.close(out[i], reference(q[i], keys, values, causal="causal" in keywords, window=keywords.get("window_size", (-1, -1)))[0])
            if "causal" in keywords:  # chunks begin with the first key
                out = fa.flash_attn_with_kvcache(q, k_pages, v_pages, cache_seqlens=lengths, page_table=table, cache_leftpad=pad, causal=True,
                                                 attention_chunk=4)
                for i in range(2):
                    keys, values = (x[table[i].long()].reshape(48, 2, 64)[pad[i]: lengths[i]] for x in (k_pages, v_pages))
                    self.close(out[i], reference(q[i], keys, values, causal=True, chunk=4)[0])
        # Ragged rows, of queries and of new keys.
        cu, rows = torch.tensor([0, 1, 4], dtype=torch.int32), (1, 3)
        q, k, v = self.make((4, 4, 64), (4, 2, 64), (4, 2, 64))
        for causal in (True, False):
            out = fa.flash_attn_with_kvcache(q, k_pages, v_pages, k, v, cache_seqlens=lengths, page_table=table, causal=causal, rotary_cos=cos,
                                             rotary_sin=sin, rotary_seqlens=lengths // 2, rotary_interleaved=False, cu_seqlens_q=cu,
                                             cu_seqlens_k_new=cu, max_seqlen_q=3)
            for i in range(2):
                mine, start = slice(cu[i], cu[i + 1]), int(lengths[i]) // 2
                turned = [rotate(x[mine], cos, sin, [start + (j if step else 0) for j in range(rows[i])], False) for x, step in ((q, causal), (k, True))]
                keys, values = (x[table[i].long()].reshape(48, 2, 64)[: lengths[i] + rows[i]] for x in (k_pages, v_pages))
                self.assertLess((keys[lengths[i]:].double() - turned[1].double()).abs().max().item(), 4e-3)
                self.close(out[mine], reference(turned[0], keys, values, causal=causal)[0])
        with self.assertRaisesRegex(kiln.Error, "rotary_cos.*shape"):
            fa.flash_attn_with_kvcache(q, k_pages, v_pages, k, v, cache_seqlens=lengths, page_table=table, rotary_cos=cos[:, :5].contiguous(),
                                       rotary_sin=sin[:, :5].contiguous(), cu_seqlens_q=cu, cu_seqlens_k_new=cu, max_seqlen_q=3)
        q, = self.make((2, 2, 4, 64))
        with self.assertRaisesRegex(kiln.Error, "page_table: int64; int32 is needed"):
            fa.flash_attn_with_kvcache(q, k_pages, v_pages, cache_seqlens=lengths, page_table=table.long())

    def test_depths_between_those_of_kernels(self):
        q, k, v = self.make((2, 20, 4, 40), (2, 35, 2, 40), (2, 35, 2, 40))
        out, lse = fa.flash_attn_func(q, k, v, causal=True, return_attn_probs=True)
        for i in range(2):
            wanted, wanted_lse = reference(q[i], k[i], v[i], causal=True)
            self.close(out[i], wanted)
            self.assertLess((lse[i] - wanted_lse).abs().max().item(), 1e-3)
        offsets = torch.tensor([0, 20], dtype=torch.int32)
        into = torch.zeros_like(q[0])
        self.assertIs(fa.flash_attn_varlen_func(q[0], k[0, :20], v[0, :20], offsets, offsets, 20, 20, out=into), into)
        self.close(into, reference(q[0], k[0, :20], v[0, :20])[0])

    def test_sides_from_a_tensor(self):
        q, k, v = self.make((1, 20, 2, 64), (1, 30, 2, 64), (1, 30, 2, 64))
        self.close(fa.flash_attn_func(q, k, v, window_size=torch.tensor([4, 3]))[0], reference(q[0], k[0], v[0], window=(4, 3))[0])

    def test_used_rows_with_second_pair(self):
        q, qv, k, v = (x.bfloat16() for x in self.make((9, 4, 64), (9, 4, 512), (60, 1, 64), (60, 1, 512)))
        offsets_q, offsets_k = (torch.tensor(x, dtype=torch.int32) for x in ((0, 4, 4, 9), (0, 25, 35, 60)))
        used_q, used_k = (torch.tensor(x, dtype=torch.int32) for x in ((3, 0, 5), (20, 7, 0)))
        with self.hopper():
            out, lse = fa.flash_attn_varlen_func(q, k, v, offsets_q, offsets_k, 5, 25, used_q, used_k, qv=qv, causal=True, return_attn_probs=True)
        mine, keys = slice(0, 3), slice(0, 20)
        wanted, wanted_lse = reference(torch.cat((q, qv), -1)[mine], torch.cat((k, v), -1)[keys], v[keys], causal=True)
        self.close(out[mine], wanted)
        self.assertLess((lse[:, mine] - wanted_lse).abs().max().item(), 5e-3)
        self.assertEqual(out[4:].abs().max().item(), 0.0)  # a sequence without keys

    def test_pages_of_some_sequences(self):
        q, k_pages, v_pages = self.make((2, 1, 4, 64), (8, 16, 2, 64), (8, 16, 2, 64))
        table = torch.tensor([[4, 1], [7, 6], [2, 5]], dtype=torch.int32)
        lengths, which = torch.tensor([31, 17], dtype=torch.int32), torch.tensor([2, 0], dtype=torch.int32)
        out = fa.flash_attn_with_kvcache(q, k_pages, v_pages, cache_seqlens=lengths, page_table=table, cache_batch_idx=which)
        for i in range(2):
            keys, values = (x[table[which[i]].long()].reshape(32, 2, 64)[: lengths[i]] for x in (k_pages, v_pages))
            self.close(out[i], reference(q[i], keys, values)[0])

    def test_rotary_of_bytes(self):
        q, k_cache, v_cache, k, v = ((x / 2).to(torch.float8_e4m3fn) for x in
                                     self.make((2, 2, 4, 64), (2, 40, 2, 64), (2, 40, 2, 64), (2, 2, 2, 64), (2, 2, 2, 64)))
        angles = torch.rand(48, 16).double() * 6
        cos, sin = (x.to(torch.float8_e4m3fn) for x in (angles.cos(), angles.sin()))
        lengths = torch.tensor([30, 17], dtype=torch.int32)
        with self.hopper():
            out = fa.flash_attn_with_kvcache(q, k_cache, v_cache, k, v, cache_seqlens=lengths, causal=True, rotary_cos=cos, rotary_sin=sin)
        for i in range(2):
            at, end = [int(lengths[i]) + j for j in range(2)], int(lengths[i]) + 2
            turned = rotate(k[i].float(), cos.float(), sin.float(), at, True)
            self.assertLess((k_cache[i, lengths[i]:end].double() - turned.double()).abs().max().item(), 0.13)  # eight bits
            self.assertTrue(torch.equal(v_cache[i, lengths[i]:end].float(), v[i].float()))
            queries = rotate(q[i].float(), cos.float(), sin.float(), at, True).to(torch.float8_e4m3fn).float()
            wanted = reference(queries, k_cache[i, :end].float(), v_cache[i, :end].float(), causal=True)[0]
            self.assertLess(((out[i].double() - wanted).norm() / wanted.norm()).item(), 4e-2)

    def test_combine(self):
        q, k, v = self.make((20, 2, 64), (40, 2, 64), (40, 2, 64))
        halves = [reference(q, k[part], v[part]) for part in (slice(0, 13), slice(13, 40))]
        out, lse = fa.flash_attn_combine(torch.stack([x[0][None] for x in halves]), torch.stack([x[1].T[None] for x in halves]))
        wanted, wanted_lse = reference(q, k, v)
        self.close(out[0], wanted)
        self.assertLess((lse[0].T - wanted_lse).abs().max().item(), 1e-5)


if __name__ == "__main__":
    unittest.main()
