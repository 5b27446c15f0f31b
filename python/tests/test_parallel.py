"""Context parallel attention from Python: threads on the emulated device."""
import threading
import unittest

import kiln
import kiln.parallel

try:
    import numpy
except ImportError:
    numpy = None

HEADS_Q, HEADS_KV, DEPTH = 2, 1, 64
PREFILL = {"target": "sm_80", "operation": "prefill", "dtype": "fp16", "depth": DEPTH, "mask": "causal", "operand": {"kind": "ragged"}}
DECODE = {"target": "sm_80", "operation": "decode", "dtype": "fp16", "depth": DEPTH, "operand": {"kind": "ragged"}}


def attend(q, k, v, causal):
    """Of one sequence, in float64."""
    group = q.shape[1] // k.shape[1]
    k, v = (numpy.repeat(x.astype("f8"), group, 1) for x in (k, v))
    scores = numpy.einsum("qhd,khd->hqk", q.astype("f8"), k) / DEPTH**0.5
    if causal:
        scores = numpy.where(numpy.tril(numpy.ones(scores.shape[1:], bool)), scores, -numpy.inf)
    weights = numpy.exp(scores - scores.max(2, keepdims=True))
    return numpy.einsum("hqk,khd->qhd", weights / weights.sum(2, keepdims=True), v)


def attend_with_sink(q, k, v, sink):
    """Causal, with one more logit a head: a key without a value."""
    group = q.shape[1] // k.shape[1]
    k, v = (numpy.repeat(x.astype("f8"), group, 1) for x in (k, v))
    scores = numpy.einsum("qhd,khd->hqk", q.astype("f8"), k) / DEPTH**0.5
    scores = numpy.where(numpy.tril(numpy.ones(scores.shape[1:], bool)), scores, -numpy.inf)
    weights = numpy.exp(scores)
    return numpy.einsum("hqk,khd->qhd", weights / (weights.sum(2, keepdims=True) + numpy.exp(sink.astype("f8"))[:, None, None]), v)


def distance(got, want):
    return numpy.linalg.norm(got.astype("f8") - want) / numpy.linalg.norm(want)


def as_group(size, work, timeout=60.0):
    """`work(transport, runtime)` as every rank; the errors of the ranks."""
    runtime = kiln.Runtime("emulated")
    group, errors = kiln.parallel.LoopbackGroup(size, timeout), [None] * size

    def run(rank):
        transport = group.join(rank, runtime)
        try:
            work(transport, runtime)
        except Exception as error:
            errors[rank] = error
            transport.abort(str(error))

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


@unittest.skipIf(numpy is None, "needs NumPy")
class Tests(unittest.TestCase):
    def setUp(self):
        rng = numpy.random.default_rng(6)
        self.q, self.k, self.v = (rng.standard_normal((90, heads, DEPTH)).astype("f2") for heads in (HEADS_Q, HEADS_KV, HEADS_KV))

    def test_prefill(self):
        want = attend(self.q, self.k, self.v, True)
        for way in ("ring", "gather"):
            distances = []

            def work(transport, runtime):
                prefill = kiln.parallel.Prefill(runtime, PREFILL, transport, heads_q=HEADS_Q, heads_kv=HEADS_KV, way=way)
                prefill.set_batch([90])
                self.assertEqual(prefill.way, way)
                first, second = prefill.rows_of(0)
                mine = lambda x: numpy.concatenate([x[first], x[second]])
                o = numpy.full((prefill.rows, HEADS_Q, DEPTH), numpy.nan, "f2")
                self.assertIs(prefill(mine(self.q), mine(self.k), mine(self.v), o), o)
                distances.append(distance(o, mine(want)))

            self.assertEqual(as_group(3, work), [None] * 3)
            self.assertEqual(len(distances), 3)
            self.assertLess(max(distances), 4e-3)

    def test_decode(self):
        want = attend(self.q[-1:], self.k, self.v, False)
        results = [None, None]

        def work(transport, runtime):
            decode = kiln.parallel.Decode(runtime, DECODE, transport, heads_q=HEADS_Q, max_rows=4)
            rows = slice(0, 50) if transport.rank == 0 else slice(50, 90)
            k, v = self.k[rows].copy(), self.v[rows].copy()
            o = numpy.full((1, HEADS_Q, DEPTH), numpy.nan, "f2")
            decode(self.q[-1:].copy(), k, v, o, cu_seqlens_q=numpy.array([0, 1], "i4"), cu_seqlens_k=numpy.array([0, len(k)], "i4"),
                   max_seqlen_q=1, max_seqlen_k=len(k))
            results[transport.rank] = o

        self.assertEqual(as_group(2, work), [None, None])
        self.assertLess(distance(results[0], want), 4e-3)
        self.assertTrue((results[0] == results[1]).all())

    def test_several_queries_and_sinks(self):
        sink = numpy.array([0.5, 2.0], "f4")
        queries, whole = 3, attend_with_sink(self.q, self.k, self.v, sink)
        distances = []

        def work(transport, runtime):
            config = {**DECODE, "mask": "causal", "sink": True}
            decode = kiln.parallel.Decode(runtime, config, transport, heads_q=HEADS_Q, max_rows=4)
            rows = slice(0, 88) if transport.rank == 0 else slice(88, 90)
            k, v = self.k[rows].copy(), self.v[rows].copy()
            o = numpy.full((queries, HEADS_Q, DEPTH), numpy.nan, "f2")
            decode(self.q[-queries:].copy(), k, v, o, cu_seqlens_q=numpy.array([0, queries], "i4"), cu_seqlens_k=numpy.array([0, len(k)], "i4"),
                   query_ends=numpy.array([90 - rows.start], "i4"), sink=sink, max_seqlen_q=queries, max_seqlen_k=len(k))
            distances.append(distance(o, whole[-queries:]))
            prefill = kiln.parallel.Prefill(runtime, {**PREFILL, "sink": True}, transport, heads_q=HEADS_Q, heads_kv=HEADS_KV, way="ring")
            prefill.set_batch([90])
            first, second = prefill.rows_of(0)
            mine = lambda x: numpy.concatenate([x[first], x[second]])
            o = numpy.full((prefill.rows, HEADS_Q, DEPTH), numpy.nan, "f2")
            distances.append(distance(prefill(mine(self.q), mine(self.k), mine(self.v), o, sink=sink), mine(whole)))

        self.assertEqual(as_group(2, work), [None, None])
        self.assertEqual(len(distances), 4)
        self.assertLess(max(distances), 4e-3)

    def test_results_of_decode(self):
        q = self.q[-2:].copy()  # of two sequences with the same keys
        want = attend(q, self.k, self.v, False)
        for result, way, mine in (("all", "spread", lambda x, rank: x), ("all", "gather", lambda x, rank: x),
                                  ("heads", "auto", lambda x, rank: x[:, rank:rank + 1]),
                                  ("queries", "auto", lambda x, rank: x[rank:rank + 1])):
            distances = []

            def work(transport, runtime):
                decode = kiln.parallel.Decode(runtime, DECODE, transport, heads_q=HEADS_Q, max_rows=2, result=result, way=way)
                if result == "all":
                    self.assertEqual(decode.way(2), way)
                rows = slice(0, 50) if transport.rank == 0 else slice(50, 90)
                k, v = (numpy.concatenate([x[rows], x[rows]]) for x in (self.k, self.v))
                own = mine(want, transport.rank)
                o = numpy.full(own.shape, numpy.nan, "f2")
                decode(mine(q, transport.rank).copy() if result == "queries" else q, k, v, o,
                       cu_seqlens_q=numpy.array([0, 1, 2], "i4"), cu_seqlens_k=numpy.array([0, len(k) // 2, len(k)], "i4"),
                       max_seqlen_q=1, max_seqlen_k=len(k) // 2)
                distances.append(distance(o, own))

            with self.subTest(result=result, way=way):
                self.assertEqual(as_group(2, work), [None, None])
                self.assertEqual(len(distances), 2)
                self.assertLess(max(distances), 4e-3)

    def test_errors(self):
        def work(transport, runtime):
            if transport.rank == 1:
                raise RuntimeError("out of paper")
            prefill = kiln.parallel.Prefill(runtime, PREFILL, transport, heads_q=HEADS_Q, heads_kv=HEADS_KV, way="ring")
            prefill.set_batch([90])
            q, k, v = (numpy.zeros((prefill.rows, heads, DEPTH), "f2") for heads in (HEADS_Q, HEADS_KV, HEADS_KV))
            prefill(q, k, v, numpy.zeros_like(q))

        errors = as_group(2, work)
        self.assertIsInstance(errors[0], kiln.Error)
        self.assertIn("out of paper", str(errors[0]))
        for keywords, words in (({"way": "sideways"}, "sideways"), ({"heads_q": 3, "heads_kv": 2}, "multiple of heads_kv")):
            def refused(transport, runtime, keywords=keywords):
                kiln.parallel.Prefill(runtime, PREFILL, transport, **{"heads_q": 2, "heads_kv": 1, **keywords})
            self.assertIn(words, str(as_group(1, refused)[0]))
        for keywords, words in (({"result": "half"}, "'all', 'heads' or 'queries'"), ({"result": "heads", "way": "spread"}, "of its own")):
            def refused_decode(transport, runtime, keywords=keywords):
                kiln.parallel.Decode(runtime, DECODE, transport, heads_q=2, max_rows=1, **keywords)
            self.assertIn(words, str(as_group(1, refused_decode)[0]))
        with self.assertRaises(kiln.Error) as caught:
            kiln.parallel.nccl_id("/nowhere/libnccl.so.2")
        self.assertEqual(caught.exception.code, "environment")


if __name__ == "__main__":
    unittest.main()
