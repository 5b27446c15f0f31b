"""The Python package over the emulated device, with arrays of the standard library, and of NumPy where it is there."""
import gc
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

import kiln
from stand_ins import HostTensor

try:
    import numpy
except ImportError:
    numpy = None

CONFIG = {"target": "sm_80", "operation": "prefill", "dtype": "fp16", "depth": 64, "mask": "causal"}
SHAPE = (1, 40, 2, 64)


def reference(q, k, v, row, head):
    at = lambda r: (r * SHAPE[2] + head) * SHAPE[3]
    columns = range(SHAPE[3])
    weights = [math.exp(sum(q[at(row) + d] * k[at(key) + d] for d in columns) / 8) for key in range(row + 1)]
    return [sum(w * v[at(key) + d] for key, w in enumerate(weights)) / sum(weights) for d in columns]


class Tests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.runtime = kiln.Runtime("emulated")

    def test_generate(self):
        source, manifest = kiln.generate(CONFIG)
        self.assertIn("__global__", source)
        self.assertEqual(manifest["depth"], 64)
        self.assertRegex(kiln.version(), r"^\d+\.\d+\.\d+$")

    def test_refusals(self):
        for config, words in (({**CONFIG, "depth": 0}, "/depth"), ("{", "broken JSON"), ({"targett": 1}, "/targett")):
            with self.assertRaises(kiln.Error) as caught:
                self.runtime.load(config)
            self.assertEqual(caught.exception.code, "bad_config")
            self.assertIn(words, str(caught.exception))
        with self.assertRaises(kiln.Error) as caught:
            kiln.Runtime("abacus").load(CONFIG)
        self.assertIn("abacus", str(caught.exception))

    def test_launch(self):
        kernel = self.runtime.load(CONFIG)
        self.assertIn(kernel.cache, ("miss", "memory", "disk"))
        self.assertEqual(kernel.spill_bytes, 0)
        rng = random.Random(1)
        q, k, v = (HostTensor("e", SHAPE, [rng.gauss(0, 1) for _ in range(math.prod(SHAPE))]) for _ in range(3))
        o = HostTensor("e", SHAPE)
        self.assertIs(kernel(q, k, v, o), o)
        numbers = [x.values() for x in (q, k, v)]
        got = o.values()
        for row, head in ((0, 0), (17, 1), (39, 0)):
            wanted, first = reference(*numbers, row, head), (row * SHAPE[2] + head) * SHAPE[3]
            for d, x in enumerate(wanted):
                self.assertAlmostEqual(got[first + d], x, delta=4e-3)
        kernel(q, k, v, o, scale=1e-9)
        self.assertNotEqual(got, o.values())

    def test_misuse(self):
        kernel = self.runtime.load(CONFIG)
        q, small = HostTensor("e", SHAPE), HostTensor("e", (1, 40, 2, 32))
        for call, words in (
            (lambda: kernel(q, q, q, small), "depth 32"),
            (lambda: kernel(q, q, None, q), "v is NULL"),
            (lambda: kernel(q, q, q, [1.0]), "o: list has no __dlpack__"),
            (lambda: kernel(q, q, q, q, lse=HostTensor("f", (1, 2, 40))), "lse"),
            (lambda: kernel(q, HostTensor("f", SHAPE), q, q), "k: float32; float16 is needed"),
            (lambda: kernel(q, q, q, q, cu_seqlens_q=HostTensor("q", (2,))), "cu_seqlens_q: int64; int32 is needed"),
            (lambda: kernel(q, q, q, q, launch_before="everything"), 'launch_before: \'everything\'; "any"'),
            (lambda: kernel(q, q, q, q, launch_before="\ud800"), "launch_before: '\\ud800'"),
            (lambda: kernel(q, q, q, q, residency=3), "residency: 3;"),
            (lambda: kernel(q, q, q, q, max_blocks=-1), "max_blocks is negative"),
            (lambda: kernel(q, q, q, q, max_seqlen_q=-1), "max_seqlen_q is -1"),
            (lambda: kernel(q, q, q, q, max_seqlen_k=-2), "max_seqlen_k -2"),
        ):
            with self.assertRaises(kiln.Error) as caught:
                call()
            self.assertEqual(caught.exception.code, "bad_input")
            self.assertIn(words, str(caught.exception))
        with self.assertRaises(TypeError):
            kernel(q, q, q, q, lsee=q)
        for device in ((1,), (), (1, 0, 0)):
            odd = HostTensor("e", SHAPE)
            odd.__class__ = type("Odd", (HostTensor,), {"__dlpack_device__": lambda self, device=device: device})
            with self.assertRaises(kiln.Error) as caught:
                kernel(q, q, q, odd)
            self.assertIn("__dlpack_device__ is no pair of numbers", str(caught.exception))

    def test_text_with_a_nul_is_refused_whole(self):
        text = json.dumps(CONFIG)
        for call in (
            lambda: kiln.generate(text + "\0 and more"),
            lambda: self.runtime.load(text[:20] + "\0" + text[20:]),
            lambda: kiln.generate({**CONFIG, "score_mod": {"expr": "score * 2\0 + 1"}}),
            lambda: kiln.Runtime("emulated\0cuda"),
        ):
            with self.assertRaises(kiln.Error) as caught:
                call()
            self.assertIn(caught.exception.code, ("bad_config", "bad_input"))

    def test_values_in_the_rows_of_keys(self):
        kernel = self.runtime.load({"target": "sm_90a", "operation": "decode", "dtype": "fp16", "depth": 576, "ov_depth": 512, "v_from_k": True})
        q, k = HostTensor("e", (1, 1, 2, 576)), HostTensor("e", (1, 5, 1, 576), [1.0] * (5 * 576))
        o = HostTensor("e", (1, 1, 2, 512))
        kernel(q, k, None, o)
        self.assertEqual(set(o.values()), {1.0})

    def test_rotary_columns_in_a_tensor_of_their_own(self):
        config = {"target": "sm_90a", "operation": "decode", "dtype": "fp16", "depth": 192, "ov_depth": 128, "v_from_k": True}
        kernel = self.runtime.load({**config, "rope_depth": 64, "rope": {"layout": "separate"}})
        q = HostTensor("e", (1, 1, 2, 192), ([0.0] * 128 + [1.0] * 64) * 2)
        k = HostTensor("e", (1, 5, 1, 128), [1.0] * 512 + [2.0] * 128)
        k_rope = HostTensor("e", (1, 5, 1, 64), [0.0] * 256 + [3.0] * 64)
        o = HostTensor("e", (1, 1, 2, 128))
        kernel(q, k, None, o, k_rope=k_rope, scale=1.0)
        self.assertEqual(set(o.values()), {2.0})
        with self.assertRaisesRegex(kiln.Error, "needs k_rope"):
            kernel(q, k, None, o)

    def test_configs_of_every_form(self):
        text = kiln.generate(CONFIG)[0]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "config.json"
            path.write_text('{"target": "sm_80", "operation": "prefill", "dtype": "fp16", "depth": 64, "mask": "causal"}')
            for config in (path, str(path), path.read_text()):
                self.assertEqual(kiln.generate(config)[0], text)
        self.assertEqual(kiln.plan("prefill_fp16_d64_sm80")["resolved"]["depth"], 64)
        self.assertIn("llama3_8b_prefill_sm90a", kiln.shipped())
        self.assertIn("properties", kiln.schema())
        with self.assertRaisesRegex(kiln.Error, "near it: .*llama3_8b_prefill_sm90a"):
            kiln.plan("llama3_8b_prefil_sm90a")
        with self.assertRaisesRegex(kiln.Error, "config: int; a dict"):
            kiln.plan(7)
        with self.assertRaises(kiln.Error) as caught:
            kiln.plan({**CONFIG, "depth": 0})
        self.assertEqual(caught.exception.violations[0]["pointer"], "/depth")

    def test_the_machine(self):
        self.assertEqual(self.runtime.device["selector"], "emulated")
        self.assertIsNone(self.runtime.target)
        report = self.runtime.doctor()
        self.assertEqual(report["kiln_version"], kiln.version())
        self.assertIn("emulated", [device["selector"] for device in report["devices"]])
        self.assertIn("nvrtc", [compiler["kind"] for compiler in report["compilers"]])

    def test_cache(self):
        with tempfile.TemporaryDirectory() as folder:
            first = kiln.Runtime("emulated", folder)
            self.assertEqual(first.load(CONFIG).cache, "miss")
            self.assertEqual(first.cache.stats()["compiles"], 1)
            self.assertEqual([entry["target"] for entry in first.cache.list()], ["sm_80"])
            self.assertEqual(first.cache.verify(), (1, []))
            self.assertEqual(first.cache.export(folder + "/all"), 1)
            self.assertEqual(kiln.Runtime("emulated", folder).load(CONFIG).cache, "disk")
            self.assertEqual(first.cache.clear(), 1)
            self.assertEqual(first.cache.import_(folder + "/all"), 1)

    def test_kernels_as_ptx_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            whole, ptx = kiln.Runtime("emulated", folder), kiln.Runtime("emulated", folder, ptx_only=True)
            self.assertGreater(whole.load(CONFIG).registers, 0)
            kernel = ptx.load(CONFIG)  # not the entry of the other
            self.assertEqual((kernel.cache, kernel.registers), ("miss", 0))
            rng = random.Random(2)
            q, k, v = (HostTensor("e", SHAPE, [rng.gauss(0, 1) for _ in range(math.prod(SHAPE))]) for _ in range(3))
            outputs = [HostTensor("e", SHAPE), HostTensor("e", SHAPE)]
            kernel(q, k, v, outputs[0])
            ptx.load(CONFIG)
            self.assertEqual(ptx.cache.stats()["compiles"], 1)
            whole.load(CONFIG)(q, k, v, outputs[1])
            self.assertEqual(outputs[0].values(), outputs[1].values())

    def test_edited_source(self):
        source, _ = kiln.generate(CONFIG)
        q, o = HostTensor("e", SHAPE, [0.5] * math.prod(SHAPE)), HostTensor("e", SHAPE)
        self.runtime.load_source(CONFIG, source)(q, q, q, o)
        self.assertEqual(set(o.values()), {0.5})
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "my.cu"
            path.write_text(source.replace('extern "C"', 'this is no code;\nextern "C"'))
            with self.assertRaises(kiln.Error) as caught:
                self.runtime.load_source(CONFIG, path)
        self.assertEqual(caught.exception.code, "compile")

    def test_what_is_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            binary = pathlib.Path(folder) / "binary"
            binary.write_bytes(b"\xff\xfe\0")
            descriptor = os.open(binary, os.O_RDONLY)
            for source in (descriptor, b"x", None, "", "x" * 5000, "\ud800", folder, binary):
                with self.assertRaises(kiln.Error) as caught:
                    self.runtime.load_source(CONFIG, source)
                self.assertEqual(caught.exception.code, "bad_input")
            os.close(descriptor)  # was left open
            for config in (descriptor, "x" * 5000, "\ud800", "a\0b", binary):
                with self.assertRaises(kiln.Error) as caught:
                    self.runtime.load(config)
                self.assertEqual(caught.exception.code, "bad_input")

    def test_append_and_page_table(self):
        pages = kiln.PageAllocator(8, 16)
        parent = pages.create()
        self.assertEqual(pages.append(parent, 20), [])
        child = pages.fork(parent, 20)
        self.assertEqual(pages.pages(child), pages.pages(parent))
        (copy,) = pages.append(child, 1)
        self.assertEqual((copy[0], copy[2]), (pages.pages(parent)[1], 4))
        with self.assertRaisesRegex(kiln.Error, "page"):
            pages.append(child, 1000)
        config = {"target": "sm_80", "operation": "decode", "dtype": "fp16", "depth": 64, "operand": {"kind": "paged", "page_size": 16}}
        append = kiln.AppendKernel(self.runtime, config)
        pools = [HostTensor("e", (8, 16, 1, 64)) for _ in range(2)]
        new = [HostTensor("e", (3, 1, 64), [x] * 192) for x in (1.0, 2.0)]
        row = pages.pages(parent)
        table = HostTensor("i", (1, 2), row)
        append(*new, *pools, page_table=table, seqlens_k=HostTensor("i", (1,), [18]), cu_seqlens_q=HostTensor("i", (2,), [0, 3]), max_rows=3)
        wanted = {(row[0], 15), (row[1], 0), (row[1], 1)}  # tokens 15, 16 and 17
        for pool, value in zip(pools, (1.0, 2.0)):
            values = pool.values()
            for page in range(8):
                for slot in range(16):
                    first = (page * 16 + slot) * 64
                    self.assertEqual(set(values[first:first + 64]), {value if (page, slot) in wanted else 0.0})
        kernel = self.runtime.load(config)
        q, o = HostTensor("e", (1, 2, 64), [1.0] * 128), HostTensor("e", (1, 2, 64))
        kernel(q, *pools, o, page_table=table, seqlens_k=HostTensor("i", (1,), [18]), cu_seqlens_q=HostTensor("i", (2,), [0, 1]), max_seqlen_q=1,
               scale=10.0, launch_before="keeps_tables")
        self.assertEqual(set(o.values()), {2.0})  # the new keys outweigh those of 0
        plan = kiln.decode_plan(kernel, [1], [18], heads_q=2, heads_kv=1, num_sms=4)
        self.assertEqual(plan["blocks"], len(plan["runs"]))
        # Hundreds of gigabytes: said before it is taken, with what Python needs for each run.
        with self.assertRaisesRegex(kiln.Error, "a decode plan of 503316481 runs as Python objects needs "):
            kiln.decode_plan(kernel, [2**31 - 1], [18], heads_q=15, heads_kv=15, num_sms=4)

    def test_command_and_demo(self):
        run = lambda *args, **env: subprocess.run([sys.executable, "-m", *args], capture_output=True, text=True, env={**os.environ, **env})
        try:
            kiln._command.path()
        except kiln.Error:
            self.skipTest("the kiln command is not built")
        self.assertIn("generate", run("kiln", "--help").stdout)
        self.assertEqual(run("kiln", "plan", "no_such_config").returncode, 2)
        self.assertTrue(kiln.verify(CONFIG, "--quick")["findings"] == [])

    @unittest.skipIf(numpy is None, "no NumPy")
    def test_demo_without_a_compiler(self):
        env = {**os.environ, "KILN_NVRTC": "/nowhere/libnvrtc.so.13", "KILN_CACHE_DIR": "", "KILN_DEVICE": "emulated"}
        demo = subprocess.run([sys.executable, "-m", "kiln.demo"], capture_output=True, text=True, env=env)
        self.assertEqual(demo.returncode, 0, demo.stdout + demo.stderr)
        self.assertIn("no kernel compiler here", demo.stdout)
        self.assertIn("check    passed", demo.stdout)

    def test_a_kernel_keeps_its_runtime(self):
        kernel = kiln.Runtime("emulated").load(CONFIG)
        gc.collect()
        q, o = HostTensor("e", SHAPE, [0.5] * math.prod(SHAPE)), HostTensor("e", SHAPE)
        kernel(q, q, q, o)
        self.assertEqual(set(o.values()), {0.5})

    @unittest.skipIf(numpy is None, "no NumPy")
    def test_numpy(self):
        rng = numpy.random.default_rng(1)
        q, k, v = (rng.standard_normal(SHAPE).astype(numpy.float16) for _ in range(3))
        o = numpy.zeros_like(q)
        self.runtime.load({**CONFIG, "mask": "none"})(q, k, v, o)
        s = numpy.einsum("bqhd,bkhd->bhqk", q.astype(float), k.astype(float)) / 8
        p = numpy.exp(s - s.max(-1, keepdims=True))
        wanted = numpy.einsum("bhqk,bkhd->bqhd", p / p.sum(-1, keepdims=True), v.astype(float))
        self.assertLess(numpy.abs(o - wanted).max(), 4e-3)

    @unittest.skipIf(numpy is None, "no NumPy")
    def test_four_bits_and_scales_of_blocks(self):
        # The formats by their definitions: E2M1 two a byte, an E4M3 for 16 of them, a factor for a tensor.
        rng = numpy.random.default_rng(3)
        magnitudes = numpy.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
        numbers = numpy.concatenate([magnitudes, -magnitudes])

        def cache():
            codes, scales = rng.integers(0, 16, (1, 40, 1, 64)), rng.integers(0x30, 0x40, (1, 40, 1, 4)).astype(numpy.uint8)
            values = (1 + scales % 8 / 8) * 2.0 ** (scales // 8 - 7.0)
            return (codes[..., ::2] | codes[..., 1::2] << 4).astype(numpy.uint8), scales, numbers[codes] * numpy.repeat(values, 16, -1)

        (k, k_scale, keys), (v, v_scale, values) = cache(), cache()
        factors = numpy.array([0.25, 0.5], numpy.float32)
        q = rng.standard_normal((1, 1, 2, 64)).astype(numpy.float16)
        o = numpy.zeros_like(q)
        kernel = self.runtime.load({"target": "sm_100a", "operation": "decode", "dtype": "fp16", "kv_dtype": "fp4_e2m1", "depth": 64,
                                    "operand": {"quantization": {"granularity": 16, "scale_dtype": "fp8_e4m3"}}})
        kernel(q, k, v, o, k_scale=k_scale, v_scale=v_scale, kv_factors=factors)
        s = numpy.einsum("bqhd,bkd->bhqk", q.astype(float), keys[:, :, 0] * factors[0]) / 8
        p = numpy.exp(s - s.max(-1, keepdims=True))
        wanted = numpy.einsum("bhqk,bkd->bqhd", p / p.sum(-1, keepdims=True), values[:, :, 0] * factors[1])
        self.assertLess(numpy.abs(o - wanted).max(), 4e-3 * numpy.abs(wanted).max())
        with self.assertRaisesRegex(kiln.Error, "needs kv_factors"):
            kernel(q, k, v, o, k_scale=k_scale, v_scale=v_scale)

    @unittest.skipIf(numpy is None, "no NumPy")
    def test_captured_tensors(self):
        rng = numpy.random.default_rng(2)
        batch, rows, heads, _ = SHAPE
        q, k, v = (rng.standard_normal(SHAPE).astype(numpy.float16) for _ in range(3))
        bias = rng.standard_normal((rows, heads, rows)).astype(numpy.float32)
        wide = numpy.repeat(rng.standard_normal((heads, 4)).astype(numpy.float32), 3, 1)
        document = rng.integers(0, 2, (batch, rows)).astype(numpy.int32)
        document[:] = numpy.sort(document, 1)
        kernel = self.runtime.load({**CONFIG, "mask": "none", "score_mod": {
            "expr": "where(document[b, q] == document[b, k], score + bias[h, q, k] + slope[h, 1], -inf)",
            "tensors": {"bias": "f32", "slope": "f32", "document": "i32"}}})
        # Any strides: a transposed tensor, every other column.
        given = {"document": document, "bias": bias.transpose(1, 0, 2), "slope": wide[:, ::3]}
        o = numpy.zeros_like(q)
        kernel(q, k, v, o, captured=given)
        s = numpy.einsum("bqhd,bkhd->bhqk", q.astype(float), k.astype(float)) / 8
        s = s + bias.transpose(1, 0, 2)[None] + wide[None, :, 3, None, None]
        s = numpy.where((document[:, :, None] == document[:, None, :])[:, None], s, -numpy.inf)
        p = numpy.exp(s - s.max(-1, keepdims=True))
        wanted = numpy.einsum("bhqk,bkhd->bqhd", p / p.sum(-1, keepdims=True), v.astype(float))
        self.assertLess(numpy.abs(o - wanted).max(), 4e-3)
        in_order = numpy.zeros_like(q)
        kernel(q, k, v, in_order, captured=(given["bias"], given["slope"], document))
        self.assertTrue((in_order == o).all())
        for wrong, message in ((None, "needs captured 'bias'"), ({"bias": bias}, "'slope' is missing"), ((bias,), "1 tensors; the expression has 3"),
                               ({**given, "other": bias}, "'other' is no tensor"), ({**given, "document": document.astype(numpy.int64)}, "int32 is needed"),
                               ({**given, "bias": bias[:, :1, :3]}, "where the index is h|where the index is k"), (3, "a dict of tensors")):
            with self.assertRaisesRegex(kiln.Error, message):
                kernel(q, k, v, o, captured=wrong)


if __name__ == "__main__":
    unittest.main()
