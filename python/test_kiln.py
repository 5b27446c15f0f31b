"""The Python package over the emulated device, with arrays of the standard library, and of NumPy where it is there."""
import ctypes
import gc
import math
import random
import struct
import unittest

import kiln

try:
    import numpy
except ImportError:
    numpy = None

CONFIG = {"target": "sm_80", "operation": "prefill", "dtype": "fp16", "depth": 64, "mask": "causal"}
SHAPE = (1, 40, 2, 64)


class HostTensor:
    """The least that speaks DLPack: memory of ctypes in a capsule, so that the test needs no tensor library."""

    FORMATS = {"e": (2, 16), "f": (2, 32), "i": (0, 32)}
    pyapi = ctypes.pythonapi.PyCapsule_New
    pyapi.restype, pyapi.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

    def __init__(self, kind, shape, values=None):
        count = math.prod(shape)
        self.kind, self.count = kind, count
        self.memory = ctypes.create_string_buffer(struct.pack(f"{count}{kind}", *(values or [0] * count)), count * struct.calcsize(kind))
        code, bits = self.FORMATS[kind]
        self.extents = (ctypes.c_int64 * len(shape))(*shape)
        self.view = kiln._library.DLTensor(ctypes.addressof(self.memory), 1, 0, len(shape), code, bits, 1, self.extents, None, 0)

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **_):
        return self.pyapi(ctypes.addressof(self.view), b"dltensor", None)

    def values(self):
        return struct.unpack(f"{self.count}{self.kind}", self.memory.raw)


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
        ):
            with self.assertRaises(kiln.Error) as caught:
                call()
            self.assertEqual(caught.exception.code, "bad_input")
            self.assertIn(words, str(caught.exception))
        with self.assertRaises(TypeError):
            kernel(q, q, q, q, lsee=q)

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


if __name__ == "__main__":
    unittest.main()
