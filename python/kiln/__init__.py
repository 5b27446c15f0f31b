"""Attention kernels from JSON configs, on tensors of any library that speaks DLPack.

    import kiln
    runtime = kiln.Runtime()                       # the first GPU, else the emulated device
    attend = runtime.load({"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "depth": 128})
    attend(q, k, v, o)                             # PyTorch, CuPy, JAX, NumPy, ...: [batch, seqlen, heads, depth]

Tensors on the runtime's device are used in place, asynchronously on the current stream of their library (PyTorch, CuPy) or on `stream`;
tensors in host memory (all of them, then) are copied there and back. Nothing but the standard library is imported.
"""
from ._configs import schema, shipped
from ._errors import Error
from ._native import Kernel, PageAllocator, version
from .runtime import Cache, Runtime, generate, plan, tune, verify
from .serving import AppendKernel, decode_plan

__version__ = version()
__all__ = ["AppendKernel", "Cache", "Error", "Kernel", "PageAllocator", "Runtime", "decode_plan", "generate", "plan", "schema", "shipped",
           "tune", "verify", "version"]
