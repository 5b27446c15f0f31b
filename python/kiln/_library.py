"""libkiln by ctypes: its structs, functions and errors (include/kiln/kiln.h)."""
import ctypes
import os
import pathlib
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint8, c_uint16, c_int32, c_uint64, c_void_p

CODES = {1: "bad_config", 2: "bad_input", 3: "environment", 4: "compile", 5: "device", 6: "internal"}


class Error(Exception):
    """A failure of kiln: `code` is bad_config, bad_input, environment, compile, device or internal; the text says what, where, what to do."""

    def __init__(self, code: str, text: str):
        super().__init__(text)
        self.code = code


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class RuntimeOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("device", c_char_p), ("cache_dir", c_char_p)]


class KernelInfo(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("manifest", c_char_p),
        ("cache", c_char_p),
        ("compile_ms", c_double),
        ("registers", c_int),
        ("spill_bytes", c_int),
        ("smem_bytes", c_int),
    ]


# Members of kiln_attention_args that are tensors, in order, by the numbers between them.
FIRST_TENSORS = ("q", "k", "v", "o", "lse", "cu_seqlens_q", "cu_seqlens_k")
LATER_TENSORS = ("page_table", "seqlens_k", "q_scale", "k_scale", "v_scale", "sink", "mask_bits")
LAST_TENSORS = ("k_rope",)


class AttentionArgs(ctypes.Structure):
    _fields_ = (
        [("size", c_size_t)]
        + [(name, POINTER(DLTensor)) for name in FIRST_TENSORS]
        + [("max_seqlen_q", c_int64), ("max_seqlen_k", c_int64), ("scale", POINTER(c_double))]
        + [(name, POINTER(DLTensor)) for name in LATER_TENSORS]
        + [("launch_before", c_int), ("max_blocks", c_int)]
        + [(name, POINTER(DLTensor)) for name in LAST_TENSORS]
    )


def _open() -> ctypes.CDLL:
    here = pathlib.Path(__file__).resolve().parent
    chosen = os.environ.get("KILN_LIBRARY")
    # Beside the package, where `cmake --install` puts it, in the checkout's build; else the loader's.
    places = [here / "libkiln.so", here.parent.parent / "libkiln.so", here.parent.parent / "build" / "libkiln.so"]
    name = chosen or next((str(place) for place in places if place.exists()), "libkiln.so")
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise Error("environment", f"{error}; build kiln (scripts/build.sh), or name libkiln.so in KILN_LIBRARY") from None
    prototypes = {
        "kiln_version": ([], c_char_p),
        "kiln_last_error": ([], c_char_p),
        "kiln_free": ([c_void_p], None),
        "kiln_generate": ([c_char_p, POINTER(c_void_p), POINTER(c_void_p)], c_int),
        "kiln_runtime_create": ([POINTER(RuntimeOptions), POINTER(c_void_p)], c_int),
        "kiln_runtime_destroy": ([c_void_p], None),
        "kiln_kernel_load": ([c_void_p, c_char_p, POINTER(c_void_p)], c_int),
        "kiln_kernel_destroy": ([c_void_p], None),
        "kiln_kernel_get_info": ([c_void_p, POINTER(KernelInfo)], c_int),
        "kiln_kernel_launch": ([c_void_p, POINTER(AttentionArgs), c_uint64], c_int),
    }
    for function, (arguments, result) in prototypes.items():
        getattr(library, function).argtypes = arguments
        getattr(library, function).restype = result
    return library


library = _open()


def check(status: int) -> None:
    if status != 0:
        raise Error(CODES.get(status, "internal"), library.kiln_last_error().decode(errors="replace"))


def version() -> str:
    return library.kiln_version().decode()
