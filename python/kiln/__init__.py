"""Attention kernels from JSON configs, on tensors of any library that speaks DLPack.

    import kiln
    runtime = kiln.Runtime()                       # the first GPU, else the emulated device
    attend = runtime.load({"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "depth": 128})
    attend(q, k, v, o)                             # PyTorch, CuPy, JAX, NumPy, ...: [batch, seqlen, heads, depth]

Tensors on the runtime's device are used in place, asynchronously on `stream`; tensors in host memory (all of them, then) are copied
there and back. Nothing but the standard library is imported.
"""
from ._library import Error, version
from .runtime import Kernel, Runtime, generate

__all__ = ["Error", "Kernel", "Runtime", "generate", "version"]
