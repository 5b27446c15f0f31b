"""kiln.compat.flashinfer with CPU tensors, on the emulated device, against the original's documentation."""
import math
import unittest

import kiln
import test_flash_attn

try:
    import torch
except ImportError:
    torch = None
if torch is not None:
    import kiln.compat.flashinfer as fi


def reference(q, k, v, window=-1, **keywords):
    """One sequence, q [rows, heads, depth]: out, and log-sum-exp of base 2 [rows, heads]."""
    out, lse = test_flash_attn.reference(q, k, v, window=(window, -1), **keywords)
    return out, lse.T / math.log(2)


@unittest.skipIf(torch is None, "no PyTorch")
class FlashInfer(unittest.TestCase):
    lengths = (40, 17, 1)

    def setUp(self):
        torch.manual_seed(5)
        self.workspace = torch.empty(1, dtype=torch.uint8)
        counts = [-(-n // 16) for n in self.lengths]
        self.indptr = torch.tensor([0, *torch.tensor(counts).cumsum(0)], dtype=torch.int32)
        self.indices = torch.randperm(9)[: sum(counts)].int()
        self.last = torch.tensor([n - (c - 1) * 16 for n, c in zip(self.lengths, counts)], dtype=torch.int32)

    def close(self, got, wanted):
        self.assertEqual(got.shape, wanted.shape)
        self.assertLess(((got.double() - wanted).norm() / wanted.norm()).item(), 4e-3)

    def pages(self, layout="NHD"):
        return torch.randn((9, 2, 16, 2, 64) if layout == "NHD" else (9, 2, 2, 16, 64), dtype=torch.float16)

    def keys(self, cache, layout, i):
        k, v = (x if layout == "NHD" else x.transpose(1, 2) for x in cache.unbind(1))
        mine = self.indices[self.indptr[i]:self.indptr[i + 1]].long()
        return (x[mine].reshape(-1, 2, 64)[: self.lengths[i]] for x in (k, v))

    def test_decode(self):
        for layout in ("NHD", "HND"):
            cache, q = self.pages(layout), torch.randn(3, 4, 64, dtype=torch.float16)
            wrapper = fi.BatchDecodeWithPagedKVCacheWrapper(self.workspace, layout)
            for plan, run, wanted in ((dict(), dict(), dict()), (dict(window_left=8, sm_scale=0.2), dict(), dict(window=8, scale=0.2)),
                                      (dict(logits_soft_cap=2.0), dict(), dict(softcap=2.0)), (dict(), dict(k_scale=2.0), dict(scale=0.25)),
                                      (dict(), dict(sinks=torch.randn(4)), None)):
                wrapper.plan(self.indptr, self.indices, self.last, 4, 2, 64, 16, **plan)
                out, lse = wrapper.run(q, cache, return_lse=True, **run)
                wanted = dict(sink=run["sinks"]) if wanted is None else wanted
                for i in range(3):
                    w, w_lse = reference(q[i][None], *self.keys(cache, layout, i), **wanted)
                    self.close(out[i], w[0])
                    self.assertLess((lse[i] - w_lse[0]).abs().max().item(), 1e-3)
        self.close(wrapper.run(q, tuple(cache.unbind(1)), v_scale=3.0), 3 * wrapper.run(q, cache).double())
        with self.assertRaisesRegex(kiln.Error, "plan"):
            fi.BatchDecodeWithPagedKVCacheWrapper(self.workspace).run(q, cache)
        with self.assertRaisesRegex(kiln.Error, "pos_encoding_mode: 'ROPE'"):
            wrapper.plan(self.indptr, self.indices, self.last, 4, 2, 64, 16, pos_encoding_mode="ROPE")
            wrapper.run(q, cache)
        with self.assertRaisesRegex(kiln.Error, "kv_layout: 'DHN'"):
            fi.BatchDecodeWithPagedKVCacheWrapper(self.workspace, "DHN")

    def turn(self, x, positions):
        """Rows x [rows, heads, depth] with columns (i, i + depth / 2) rotated by positions."""
        angle = torch.tensor(positions).double()[:, None, None] * 1e4 ** (-torch.arange(32).double() / 32)
        a, b = x.double().split(32, -1)
        return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)

    def test_rotated_on_the_fly(self):
        cache, q, starts = self.pages(), torch.randn(6, 4, 64, dtype=torch.float16), torch.tensor([0, 3, 5, 6], dtype=torch.int32)
        before, lengths = cache.clone(), self.lengths
        decode, prefill = fi.BatchDecodeWithPagedKVCacheWrapper(self.workspace), fi.BatchPrefillWithPagedKVCacheWrapper(self.workspace)
        decode.plan(self.indptr, self.indices, self.last, 4, 2, 64, 16, pos_encoding_mode="ROPE_LLAMA")
        prefill.plan(starts, self.indptr, self.indices, self.last, 4, 2, 64, 16, causal=True, pos_encoding_mode="ROPE_LLAMA")
        got, got_rows = decode.run(q[:3], cache), prefill.run(q, cache)
        for i in range(3):
            keys, values = self.keys(cache, "NHD", i)
            keys = self.turn(keys, range(lengths[i]))
            self.close(got[i], reference(self.turn(q[i][None], [lengths[i] - 1]), keys, values)[0][0])
            rows = slice(starts[i], starts[i + 1])
            count = int(starts[i + 1] - starts[i])
            turned = self.turn(q[rows], range(lengths[i] - count, lengths[i]))
            self.close(got_rows[rows], reference(turned, keys, values, causal=True)[0])
        self.assertTrue(torch.equal(cache, before))
        k, v = self.keys(cache, "NHD", 0)
        out = fi.single_prefill_with_kv_cache(q, k, v, causal=True, pos_encoding_mode="ROPE_LLAMA")
        self.close(out, reference(self.turn(q, range(34, 40)), self.turn(k, range(40)), v, causal=True)[0])

    def test_caches_of_bytes(self):
        cache, q = self.pages(), torch.randn(3, 4, 64, dtype=torch.float16)
        stored = (cache / 2).to(torch.float8_e4m3fn)
        wrapper = fi.BatchDecodeWithPagedKVCacheWrapper(self.workspace)
        wrapper.plan(self.indptr, self.indices, self.last, 4, 2, 64, 16, q_data_type=torch.float16, kv_data_type=torch.float8_e4m3fn)
        out = wrapper.run(q, stored, k_scale=1.5, v_scale=3.0)
        for i in range(3):
            keys, values = (x.double() for x in self.keys(stored.float(), "NHD", i))
            self.close(out[i], reference(q[i][None], 1.5 * keys, 3 * values)[0][0])

    def test_decode_in_a_graph_keeps_its_buffers(self):
        cache, q = self.pages(), torch.randn(3, 4, 64, dtype=torch.float16)
        wrapper = fi.CUDAGraphBatchDecodeWithPagedKVCacheWrapper(self.workspace, torch.empty(4, dtype=torch.int32), torch.empty(12, dtype=torch.int32),
                                                                 torch.empty(3, dtype=torch.int32))
        wrapper.plan(self.indptr, self.indices, self.last, 4, 2, 64, 16)
        before = wrapper._pages.table.data_ptr(), wrapper._pages.lengths.data_ptr()
        indptr, indices, last = (torch.tensor(x, dtype=torch.int32) for x in ((0, 1, 2, 4), (8, 3, 5, 0), (16, 2, 7)))
        wrapper.plan(indptr, indices, last, 4, 2, 64, 16)
        self.assertEqual(before, (wrapper._pages.table.data_ptr(), wrapper._pages.lengths.data_ptr()))
        self.indptr, self.indices, self.lengths = indptr, indices, (16, 2, 23)
        out = wrapper.run(q, cache)
        for i in range(3):
            self.close(out[i], reference(q[i][None], *self.keys(cache, "NHD", i))[0][0])

    def test_prefill(self):
        cache, starts = self.pages(), torch.tensor([0, 11, 14, 15], dtype=torch.int32)
        q = torch.randn(15, 4, 64, dtype=torch.float16)
        wrapper = fi.BatchPrefillWithPagedKVCacheWrapper(self.workspace)
        for plan, wanted in ((dict(causal=True), dict(causal=True)), (dict(), dict()), (dict(causal=True, window_left=4), dict(causal=True, window=4))):
            wrapper.plan(starts, self.indptr, self.indices, self.last, 4, 2, 64, 16, **plan)
            out, lse = wrapper.run(q, cache, return_lse=True)
            for i in range(3):
                rows = slice(starts[i], starts[i + 1])
                w, w_lse = reference(q[rows], *self.keys(cache, "NHD", i), **wanted)
                self.close(out[rows], w)
                self.assertLess((lse[rows] - w_lse).abs().max().item(), 1e-3)
        wrapper.plan(starts, self.indptr, self.indices, self.last, 4, 2, 64, 16, window_left=6)
        out = wrapper.run(q, cache)
        for i in range(3):
            rows = slice(starts[i], starts[i + 1])
            self.close(out[rows], reference(q[rows], *self.keys(cache, "NHD", i), window=6)[0])
        masks = [torch.rand(int(starts[i + 1] - starts[i]), self.lengths[i]) < 0.5 for i in range(3)]
        for mask in masks:
            mask[:, 0] = True
        bits = [torch.nn.functional.pad(mask.flatten(), (0, -mask.numel() % 8)).view(-1, 8) for mask in masks]
        packed = torch.cat([(one.int() << torch.arange(8)).sum(1).to(torch.uint8) for one in bits])
        for given in (dict(custom_mask=torch.cat([mask.flatten() for mask in masks])), dict(packed_custom_mask=packed)):
            wrapper.plan(starts, self.indptr, self.indices, self.last, 4, 2, 64, 16, causal=True, logits_soft_cap=3.0, **given)
            out = wrapper.run(q, cache)
            for i in range(3):
                rows = slice(starts[i], starts[i + 1])
                self.close(out[rows], reference(q[rows], *self.keys(cache, "NHD", i), mask=masks[i], softcap=3.0)[0])
        with self.assertRaisesRegex(kiln.Error, "custom_mask: 3 elements"):
            wrapper.plan(starts, self.indptr, self.indices, self.last, 4, 2, 64, 16, custom_mask=torch.ones(3, dtype=torch.bool))
        ragged = fi.BatchPrefillWithRaggedKVCacheWrapper(self.workspace)
        keys = torch.tensor([0, 20, 29, 30], dtype=torch.int32)
        k, v = (torch.randn(30, 2, 64, dtype=torch.float16) for _ in range(2))
        ragged.plan(starts, keys, 4, 2, 64, causal=True)
        out, lse = ragged.run(q, k, v, return_lse=True)
        for i in range(3):
            rows, mine = slice(starts[i], starts[i + 1]), slice(keys[i], keys[i + 1])
            w, w_lse = reference(q[rows], k[mine], v[mine], causal=True)
            self.close(out[rows], w)
            self.assertLess((lse[rows] - w_lse).abs().max().item(), 1e-3)

    def test_single_requests(self):
        q, k, v = (torch.randn(n, h, 64, dtype=torch.float16) for n, h in ((13, 4), (29, 2), (29, 2)))
        mask = torch.rand(13, 29) < 0.6
        mask[:, 0] = True
        padded = torch.nn.functional.pad(mask.flatten(), (0, -mask.numel() % 8)).view(-1, 8)
        packed = (padded.int() << torch.arange(8)).sum(1).to(torch.uint8)
        for keywords, wanted in ((dict(causal=True), dict(causal=True)), (dict(custom_mask=mask), dict(mask=mask)),
                                 (dict(packed_custom_mask=packed), dict(mask=mask)), (dict(logits_soft_cap=1.5), dict(softcap=1.5))):
            out, lse = fi.single_prefill_with_kv_cache(q, k, v, return_lse=True, **keywords)
            w, w_lse = reference(q, k, v, **wanted)
            self.close(out, w)
            self.assertLess((lse - w_lse).abs().max().item(), 1e-3)
        out, lse = fi.single_decode_with_kv_cache(q[0], k.transpose(0, 1), v.transpose(0, 1), "HND", window_left=6, return_lse=True)
        w, w_lse = reference(q[:1], k, v, window=6)
        self.close(out, w[0])
        self.assertLess((lse - w_lse[0]).abs().max().item(), 1e-3)
        self.close(fi.single_decode_with_kv_cache(q[0], k, v), reference(q[:1], k, v)[0][0])

    def test_slopes_beside_masks_and_caps(self):
        q, k, v = (torch.randn(n, h, 64, dtype=torch.float16) for n, h in ((13, 4), (29, 2), (29, 2)))
        slopes = torch.tensor([2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8])
        self.assertTrue(torch.equal(fi.slopes(4, slopes.device), slopes))
        self.assertTrue(torch.allclose(fi.slopes(6, slopes.device)[4:], torch.tensor([2.0**-1, 2.0**-3])))
        plain = fi.single_prefill_with_kv_cache(q, k, v, causal=True, pos_encoding_mode="ALIBI")
        self.close(plain, reference(q, k, v, causal=True, slopes=slopes)[0])
        starts, keys = (torch.tensor(x, dtype=torch.int32) for x in ((0, 13), (0, 29)))
        wrapper = fi.BatchPrefillWithRaggedKVCacheWrapper(self.workspace)
        below = torch.ones(13, 29, dtype=torch.bool).tril(16)
        results = []
        for cap in (0.0, 2.0):
            for rule in (dict(causal=True), dict(custom_mask=below.flatten())):
                wrapper.plan(starts, keys, 4, 2, 64, pos_encoding_mode="ALIBI", logits_soft_cap=cap, **rule)
                results.append(wrapper.run(q, k, v))
        self.close(results[1], results[0].double())
        self.close(results[3], results[2].double())
        # Slopes are inside the cap.
        heads = [x.double().repeat_interleave(2, 1).transpose(0, 1) for x in (k, v)]
        distance = torch.arange(29)[None] - torch.arange(16, 29)[:, None]
        s = q.double().transpose(0, 1) @ heads[0].transpose(1, 2) / 8 + slopes.double()[:, None, None] * distance
        s = (2 * torch.tanh(s / 2)).masked_fill(~below, float("-inf"))
        self.close(results[2], (s.softmax(-1) @ heads[1]).transpose(0, 1))

    def test_older_forms_and_options(self):
        self.assertIs(fi.decode.BatchDecodeWithPagedKVCacheWrapper, fi.BatchDecodeWithPagedKVCacheWrapper)
        cache, q = self.pages(), torch.randn(3, 4, 64, dtype=torch.float16)
        wrapper, planned = fi.BatchDecodeWithPagedKVCacheWrapper(self.workspace), (self.indptr, self.indices, self.last, 4, 2, 64, 16)
        fi.fast_decode_plan(wrapper, *planned, non_blocking=True, global_override_indptr_cpu=self.indptr)
        lse, other = torch.empty(3, 4), torch.empty(3, 4)
        out = wrapper.run(q, cache, lse=lse)
        self.close(out, wrapper.run(q, cache, lse=other, return_lse=True)[0].double())
        self.assertTrue(torch.equal(lse, other))
        for keywords in (dict(prefix_len_ptr=self.indptr), dict(token_pos_in_items_len=3)):
            with self.assertRaisesRegex(NotImplementedError, next(iter(keywords))):
                fi.BatchPrefillWithPagedKVCacheWrapper(self.workspace).plan(torch.arange(4), *planned, **keywords)
        with self.assertRaisesRegex(NotImplementedError, "kv_cache_sf"):
            wrapper.run(q, cache, kv_cache_sf=lse)
        # A prefix of all sequences in front of their pages.
        k, v = (torch.randn(20, 2, 64, dtype=torch.float16) for _ in range(2))
        for kind, rows, starts in ((fi.BatchDecodeWithSharedPrefixPagedKVCacheWrapper, 3, ()),
                                   (fi.BatchPrefillWithSharedPrefixPagedKVCacheWrapper, 5, (torch.tensor([0, 2, 4, 5], dtype=torch.int32),))):
            q = torch.randn(rows, 4, 64, dtype=torch.float16)
            shared = kind(self.workspace)
            shared.begin_forward(*starts, *planned)
            out = shared.forward(q, k, v, cache, **(dict(causal=True) if starts else {}))
            for i in range(3):
                mine = slice(i, i + 1) if not starts else slice(starts[0][i], starts[0][i + 1])
                keys, values = (torch.cat(x) for x in zip((k, v), self.keys(cache, "NHD", i)))
                self.close(out[mine], reference(q[mine], keys, values, causal=True)[0])

    def test_merge_and_cascade(self):
        q, k, v = (torch.randn(n, h, 64, dtype=torch.float16) for n, h in ((5, 4), (40, 2), (40, 2)))
        parts = [reference(q, k[part], v[part]) for part in (slice(0, 13), slice(13, 30), slice(30, 40))]
        wanted, wanted_lse = reference(q, k, v)
        out, lse = fi.merge_states(torch.stack([x[0] for x in parts], 1), torch.stack([x[1] for x in parts], 1))
        self.close(out, wanted)
        self.assertLess((lse - wanted_lse).abs().max().item(), 1e-5)
        empty = torch.full_like(lse, float("-inf"))
        out, lse = fi.merge_state(*(x.clone() for x in parts[0]), torch.zeros_like(out), empty)
        self.close(out, parts[0][0])
        a = [x.clone() for x in parts[0]]
        keep = torch.tensor([True, False, True, True, True])
        fi.merge_state_in_place(*a, *parts[1], mask=keep)
        both = reference(q, k[:30], v[:30])[0]
        self.close(a[0], torch.where(keep[:, None, None], both, parts[0][0]))
        # A prefix of two pages for all, and each sequence's own pages behind it.
        cache, rows = self.pages(), torch.randn(3, 4, 64, dtype=torch.float16)
        prefix = torch.tensor([7, 8], dtype=torch.int32)
        own = [torch.tensor(x, dtype=torch.int32) for x in ((0, 1, 3, 4), (0, 2, 5, 3), (9, 16, 4))]
        cascade = fi.MultiLevelCascadeAttentionWrapper(2, self.workspace)
        cascade.plan([torch.tensor([0, 3], dtype=torch.int32), torch.arange(4, dtype=torch.int32)], [torch.tensor([0, 2], dtype=torch.int32), own[0]],
                     [prefix, own[1]], [torch.tensor([16], dtype=torch.int32), own[2]], 4, 2, 64, 16, causal=True)
        out = cascade.run(rows, cache)
        k, v = cache.unbind(1)
        for i in range(3):
            mine = own[1][own[0][i]:own[0][i + 1]].long()
            n = 32 + (len(mine) - 1) * 16 + int(own[2][i])
            keys, values = (x[torch.cat((prefix.long(), mine))].reshape(-1, 2, 64)[:n] for x in (k, v))
            self.close(out[i], reference(rows[i][None], keys, values)[0][0])

    def test_append(self):
        new = torch.tensor([0, 3, 4, 5], dtype=torch.int32)
        lengths = fi.get_seq_lens(self.indptr, self.last, 16)
        self.assertEqual(lengths.tolist(), list(self.lengths))
        batch, positions = fi.get_batch_indices_positions(new, lengths, 5)
        self.assertEqual(batch.tolist(), [0, 0, 0, 1, 2])
        self.assertEqual(positions.tolist(), [37, 38, 39, 16, 0])
        k, v = (torch.randn(5, 2, 64, dtype=torch.float16) for _ in range(2))
        for layout in ("NHD", "HND"):
            cache = self.pages(layout)
            before = cache.clone()
            fi.append_paged_kv_cache(k, v, batch, positions, cache, self.indices, self.indptr, self.last, layout)
            for i, row in zip((0, 1, 2), (slice(0, 3), slice(3, 4), slice(4, 5))):
                keys, values = self.keys(cache, layout, i)
                self.assertTrue(torch.equal(keys[positions[row].long()], k[row]) and torch.equal(values[positions[row].long()], v[row]))
            changed = (cache != before).sum().item()  # nothing but the new rows
            self.assertTrue(k.numel() < changed <= 2 * k.numel(), changed)

    def test_latent_attention(self):
        starts = torch.arange(4, dtype=torch.int32)
        ckv, kpe = torch.randn(9, 16, 512, dtype=torch.bfloat16), torch.randn(9, 16, 64, dtype=torch.bfloat16)
        q_nope, q_pe = torch.randn(3, 16, 512, dtype=torch.bfloat16), torch.randn(3, 16, 64, dtype=torch.bfloat16)
        wrapper = fi.BatchMLAPagedAttentionWrapper(self.workspace)
        wrapper.plan(starts, self.indptr, self.indices, torch.tensor(self.lengths, dtype=torch.int32), 16, 512, 64, 16, False, 192**-0.5, torch.bfloat16,
                     torch.bfloat16)
        out, lse = wrapper.run(q_nope, q_pe, ckv, kpe, return_lse=True)
        for i in range(3):
            mine = self.indices[self.indptr[i]:self.indptr[i + 1]].long()
            latent, rotary = (x[mine].reshape(-1, 1, x.shape[-1])[: self.lengths[i]] for x in (ckv, kpe))
            w, w_lse = reference(torch.cat((q_nope, q_pe), -1)[i][None], torch.cat((latent, rotary), -1), latent, scale=192**-0.5)
            self.close(out[i], w[0])
            self.assertLess((lse[i] - w_lse[0]).abs().max().item(), 2e-3)
        # Without rotary columns.
        wrapper.plan(starts, self.indptr, self.indices, torch.tensor(self.lengths, dtype=torch.int32), 16, 512, 0, 16, False, 128**-0.5, torch.bfloat16,
                     torch.bfloat16)
        out = wrapper.run(q_nope, None, ckv, None)
        for i in range(3):
            latent = ckv[self.indices[self.indptr[i]:self.indptr[i + 1]].long()].reshape(-1, 1, 512)[: self.lengths[i]]
            self.close(out[i], reference(q_nope[i][None], latent, latent, scale=128**-0.5)[0][0])

    def test_heads_of_512(self):
        cache, q = torch.randn(9, 2, 16, 1, 512, dtype=torch.float16), torch.randn(15, 4, 512, dtype=torch.float16)
        starts = torch.tensor([0, 11, 14, 15], dtype=torch.int32)
        decode, prefill = fi.BatchDecodeWithPagedKVCacheWrapper(self.workspace), fi.BatchPrefillWithPagedKVCacheWrapper(self.workspace)
        decode.plan(self.indptr, self.indices, self.last, 4, 1, 512, 16)
        prefill.plan(starts, self.indptr, self.indices, self.last, 4, 1, 512, 16, causal=True)
        one, several = decode.run(q[:3], cache), prefill.run(q, cache)
        for i in range(3):
            keys = [x[self.indices[self.indptr[i]:self.indptr[i + 1]].long()].reshape(-1, 1, 512)[: self.lengths[i]] for x in cache.unbind(1)]
            rows = slice(starts[i], starts[i + 1])
            self.close(one[i], reference(q[i][None], *keys)[0][0])
            self.close(several[rows], reference(q[rows], *keys, causal=True)[0])
        k, v = cache[:2, 0].reshape(-1, 1, 512), cache[:2, 1].reshape(-1, 1, 512)
        self.close(fi.single_prefill_with_kv_cache(q, k, v, causal=True), reference(q, k, v, causal=True)[0])
        self.close(fi.single_decode_with_kv_cache(q[0], k, v), reference(q[:1], k, v)[0][0])


if __name__ == "__main__":
    unittest.main()
