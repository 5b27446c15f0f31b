"""Random arguments for the Python package on the emulated device: every call returns, or raises kiln.Error with a code and one line, or
what Python raises for arguments of the wrong kind. Nothing else, and no crash: a call is announced before it is made.

python_fuzz.py MINUTES [SEED]      with PYTHONPATH=build/python; prints the count of calls and what was wrong
"""
import json
import os
import pathlib
import random
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python" / "tests"))
import kiln  # noqa: E402
import kiln.serving  # noqa: E402
from stand_ins import HostTensor  # noqa: E402

CONFIGS = [
    {"target": "sm_80", "operation": "prefill", "dtype": "fp16", "depth": 64, "mask": "causal", "lse": True},
    {"target": "sm_80", "operation": "prefill", "dtype": "fp16", "depth": 64, "operand": {"kind": "ragged"}},
    {"target": "sm_80", "operation": "decode", "dtype": "fp16", "depth": 64, "operand": {"kind": "paged", "page_size": 16}},
    {"target": "sm_80", "operation": "prefill", "dtype": "fp16", "depth": 64, "sink": True, "mask": "custom",
     "score_mod": {"expr": "score + bias[h, q]", "tensors": {"bias": "fp16"}}},
]
NUMBERS = [0, 1, -1, 2, 3, 7, 16, 40, 64, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, 2**63 - 1, 2**63, -(2**63), 2**64, 2**200]
EXTENTS = [0, 1, 2, 3, 5, 16, 17, 40, 64, 65]
EXPECTED = (kiln.Error, TypeError, ValueError, OverflowError, BufferError, RecursionError, MemoryError, AttributeError)


class Odd:
    """Speaks DLPack badly."""

    def __init__(self, mode):
        self.mode = mode

    def __dlpack_device__(self):
        if self.mode == 0:
            raise ValueError("no device")
        return [(1, 0), (2, 0), (1, 2**40), "cpu", None, (1,), (99, 0)][self.mode % 7]

    def __dlpack__(self, **_):
        if self.mode % 3 == 0:
            raise BufferError("not exported")
        return [None, 5, "capsule"][self.mode % 3]


class Fuzz:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.runtime = kiln.Runtime("emulated", "")
        self.kernels = [self.runtime.load(config) for config in CONFIGS]
        self.folder = tempfile.mkdtemp()
        os.chdir(self.folder)  # some calls write files by the names that they are given

    def pick(self, choices):
        return self.random.choice(choices)

    def text(self):
        made = "".join(self.pick("abc{}[]\":,0129.-\0\n\\/é\ud800 ") for _ in range(self.random.randrange(12)))
        return self.pick([made, "", "emulated", "llama3_8b_prefill_sm90a", json.dumps(self.pick(CONFIGS)), "/dev/null", "x" * 5000])

    def anything(self, depth=0):
        kinds = [lambda: None, lambda: True, lambda: self.pick(NUMBERS), lambda: self.random.uniform(-10, 10), lambda: float("nan"),
                 lambda: float("inf"), self.text, lambda: b"\0\xff", lambda: object(), lambda: Odd(self.random.randrange(21)), self.tensor]
        if depth < 2:
            kinds += [lambda: [self.anything(depth + 1) for _ in range(self.random.randrange(4))],
                      lambda: tuple(self.anything(depth + 1) for _ in range(self.random.randrange(4))),
                      lambda: {self.pick(["bias", "a", 5]): self.anything(depth + 1) for _ in range(self.random.randrange(3))}]
        return self.pick(kinds)()

    def tensor(self, kind=None, shape=None):
        kind = kind or self.pick("eeefiq")
        if shape is None or self.random.random() < 0.1:
            shape = tuple(self.pick(EXTENTS[:6]) for _ in range(self.random.randrange(5)))
        count = 1
        for extent in shape:
            count *= extent
        low = {"e": -2, "f": -2}.get(kind, self.pick([0, 0, -1, -(2**31)]))
        value = (lambda: self.random.gauss(0, 1)) if kind in "ef" else (lambda: self.random.randint(low, self.pick([1, 3, 40, 2**31 - 1])))
        out = HostTensor(kind, shape, [value() for _ in range(count)] if count < 5000 else None)
        if self.random.random() < 0.05:
            out.view.device_type = self.pick([0, 2, 4, 10, 99])
        if self.random.random() < 0.05:
            out.view.lanes = self.pick([0, 2, 65535])
        if self.random.random() < 0.05:
            out.view.ndim = self.pick([0, 1])
        return out

    def launch(self):
        which = self.random.randrange(len(self.kernels))
        rows, keys, heads = self.pick([1, 2, 17, 40]), self.pick([1, 16, 40]), self.pick([1, 2, 4])
        ragged = which in (1, 2)
        q = self.tensor("e", (rows, heads, 64) if ragged else (1, rows, heads, 64))
        k = self.tensor("e", (3, 16, heads, 64) if which == 2 else (keys, heads, 64) if ragged else (1, keys, heads, 64))
        o = self.tensor("e", (rows, heads, 64) if ragged else (1, rows, heads, 64))
        args = {}
        if which == 0:
            args["lse"] = self.tensor("f", (1, heads, rows))
        if ragged:
            args |= {"cu_seqlens_q": HostTensor("i", (2,), [0, rows]), "max_seqlen_q": rows}
        if which == 1:
            args |= {"cu_seqlens_k": HostTensor("i", (2,), [0, keys]), "max_seqlen_k": keys}
        if which == 2:
            args |= {"page_table": HostTensor("i", (1, 3), [self.pick([0, 1, 2, -1, 3, 2**31 - 1]) for _ in range(3)]),
                     "seqlens_k": HostTensor("i", (1,), [self.pick([0, 1, 40, 48])])}
        if which == 3:
            args |= {"sink": self.tensor("f", (heads,)), "mask_bits": self.tensor("i", (1, 1, rows, (keys + 31) // 32)),
                     "captured": {"bias": self.tensor("e", (heads, rows))}}
        values = [q, k, self.tensor("e", tuple(k.extents)), o]
        names = ["lse", "cu_seqlens_q", "cu_seqlens_k", "page_table", "seqlens_k", "q_scale", "k_scale", "v_scale", "sink", "mask_bits",
                 "k_rope", "captured", "window", "first_keys", "scale", "stream", "max_seqlen_q", "max_seqlen_k", "launch_before",
                 "max_blocks", "residency", "nonsense"]
        for _ in range(self.random.randrange(3)):
            if self.random.random() < 0.3:
                values[self.random.randrange(4)] = self.anything()
            else:
                args[self.pick(names)] = self.anything()
        return "launch", lambda: self.kernels[which](*values, **args)

    def config(self):
        config = json.loads(json.dumps(self.pick(CONFIGS)))
        for _ in range(self.random.randrange(3)):
            key = self.pick([*config, "BM", "BN", "kv_dtype", "rope", "name", "score_mod", self.text()])
            config[key] = self.anything()
        return self.pick([config, self.text(), self.anything(), pathlib.Path("/nonexistent")])

    def other(self):
        config, a, b = self.config(), self.anything(), self.anything()
        lengths = [self.pick(NUMBERS[:12]) for _ in range(self.random.randrange(4))]
        cache = self.runtime.cache
        file = os.path.join(self.folder, "file")
        pick = self.pick([
            ("generate", lambda: kiln.generate(config)),
            ("plan", lambda: kiln.plan(config)),
            ("Runtime", lambda: kiln.Runtime(a, self.pick([b, ""])).device),
            ("load_image", lambda: self.runtime.load_image(a, b)),
            ("load_source", lambda: self.runtime.load_source(self.pick(CONFIGS), self.pick([a, "no kernel\n"]))),
            ("decode_plan", lambda: kiln.serving.decode_plan(self.pick(self.kernels), lengths, self.pick([lengths, b]), heads_q=self.pick(NUMBERS[:12]),
                                                             heads_kv=self.pick(NUMBERS[:12]), max_blocks=self.pick([0, 1, -1, 2**40]),
                                                             num_sms=self.pick([0, 1, 132, -1, 2**31 - 1]))),
            ("export", lambda: cache.export(self.pick([file, file, a]), self.pick([None, a]))),
            ("import", lambda: cache.import_(self.pick([file, a]))),
            ("prune", lambda: cache.prune(a)),
            ("AppendKernel", lambda: kiln.serving.AppendKernel(self.runtime, self.pick(CONFIGS), self.pick(["none", "halves", a]), self.pick([False, b]))),
            ("append", lambda: kiln.serving.AppendKernel(self.runtime, CONFIGS[2])(
                self.tensor("e", (3, 2, 64)), self.tensor("e", (3, 2, 64)), self.tensor("e", (3, 16, 2, 64)), self.pick([self.tensor("e", (3, 16, 2, 64)), a]),
                page_table=self.tensor("i", (1, 3)), seqlens_k=self.tensor("i", (1,)), cu_seqlens_q=self.tensor("i", (2,)), max_rows=self.pick([3, b]))),
        ])
        return pick

    def run(self, minutes):
        calls, wrong, end = 0, [], time.monotonic() + 60 * minutes
        refused = 0
        while time.monotonic() < end:
            seed = self.random.getrandbits(48)
            self.random.seed(seed)
            name, call = self.launch() if self.random.random() < 0.6 else self.other()
            with open(os.path.join(self.folder, "last"), "w") as last:
                last.write(f"{seed} {name}\n")
            try:
                call()
            except EXPECTED as error:
                refused += 1
                text = str(error)
                if isinstance(error, kiln.Error) and (not text or error.code == "internal"):
                    wrong.append(f"{seed} {name}: {error.code}: {text!r}")
                if isinstance(error, (MemoryError, AttributeError)) or (isinstance(error, kiln.Error) and "std::" in text):
                    wrong.append(f"{seed} {name}: {type(error).__name__}: {text[:200]!r}")
            except Exception as error:  # noqa: BLE001
                wrong.append(f"{seed} {name}: {type(error).__name__}: {str(error)[:200]!r}")
            calls += 1
        print(f"{calls} calls, {refused} refused, {len(wrong)} wrong")
        print("\n".join(wrong[:40]))
        return 1 if wrong else 0


if __name__ == "__main__":
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().getrandbits(32)
    print(f"seed {seed}", flush=True)
    fuzz = Fuzz(seed)
    print(f"the last call is in {fuzz.folder}/last", flush=True)
    sys.exit(fuzz.run(float(sys.argv[1])))
