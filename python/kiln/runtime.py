"""Runtime and Kernel: the C interface as objects."""
import ctypes
import json

from . import _library
from ._dlpack import Borrowed
from ._library import AttentionArgs, KernelInfo, RuntimeOptions, check, library


def _config_text(config) -> bytes:
    return (config if isinstance(config, str) else json.dumps(config)).encode()


def generate(config) -> tuple[str, dict]:
    """Source and manifest of a config (a dict, or JSON text). Needs no compiler and no device."""
    source, manifest = ctypes.c_void_p(), ctypes.c_void_p()
    check(library.kiln_generate(_config_text(config), ctypes.byref(source), ctypes.byref(manifest)))
    try:
        return ctypes.string_at(source).decode(), json.loads(ctypes.string_at(manifest))
    finally:
        library.kiln_free(source)
        library.kiln_free(manifest)


class Runtime:
    """A device with its compilers and kernel cache. Safe to use from several threads."""

    def __init__(self, device: str | None = None, cache_dir: str | None = None):
        """`device`: auto, cuda[:n], hip[:n], emulated (default: $KILN_DEVICE, else auto); `cache_dir`: "" for memory only."""
        options = RuntimeOptions(ctypes.sizeof(RuntimeOptions), device and device.encode(), None if cache_dir is None else cache_dir.encode())
        self._handle = ctypes.c_void_p()
        check(library.kiln_runtime_create(ctypes.byref(options), ctypes.byref(self._handle)))

    def __del__(self):
        if getattr(self, "_handle", None):
            library.kiln_runtime_destroy(self._handle)

    def load(self, config) -> "Kernel":
        """The kernel of a config (a dict, or JSON text), compiled or from the cache."""
        return Kernel(self, config)


class Kernel:
    """A loaded kernel; call it to launch it. `manifest` is a dict, `cache` miss, memory or disk."""

    def __init__(self, runtime: Runtime, config):
        self._runtime = runtime  # which must outlive it
        self._handle = ctypes.c_void_p()
        check(library.kiln_kernel_load(runtime._handle, _config_text(config), ctypes.byref(self._handle)))
        info = KernelInfo(ctypes.sizeof(KernelInfo))
        check(library.kiln_kernel_get_info(self._handle, ctypes.byref(info)))
        self.name, self.cache = info.name.decode(), info.cache.decode()
        self.manifest = json.loads(info.manifest)
        self.compile_ms, self.registers = info.compile_ms, info.registers
        self.spill_bytes, self.smem_bytes = info.spill_bytes, info.smem_bytes

    def __del__(self):
        if getattr(self, "_handle", None):
            library.kiln_kernel_destroy(self._handle)

    def __call__(self, q, k, v, o, *, scale: float | None = None, stream: int = 0, max_seqlen_q: int = 0, max_seqlen_k: int = 0,
                 launch_before: int = 0, max_blocks: int = 0, **tensors):
        """Launches: `o` (and `lse`) are written. Further tensors by name: lse, cu_seqlens_q, cu_seqlens_k, page_table, seqlens_k,
        q_scale, k_scale, v_scale, sink, mask_bits, k_rope; what each is, kiln/kiln.h says. `v` is None where V lies in K's rows. `stream` is a
        CUstream as an integer. Returns `o`."""
        given = {"q": q, "k": k, "v": v, "o": o, **tensors}
        args = AttentionArgs(ctypes.sizeof(AttentionArgs))
        borrowed = []
        for name, tensor in given.items():
            if name not in _library.FIRST_TENSORS + _library.LATER_TENSORS + _library.LAST_TENSORS:
                raise TypeError(f"kiln has no argument {name!r}")
            if tensor is None:
                continue
            borrowed.append(Borrowed(name, tensor, stream))
            setattr(args, name, borrowed[-1].pointer)
        if scale is not None:
            args.scale = ctypes.pointer(ctypes.c_double(scale))
        args.max_seqlen_q, args.max_seqlen_k = max_seqlen_q, max_seqlen_k
        args.launch_before, args.max_blocks = launch_before, max_blocks
        check(library.kiln_kernel_launch(self._handle, ctypes.byref(args), stream))
        return o
