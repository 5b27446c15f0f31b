"""Which stream a launch belongs on: the one given, else the current stream of the library whose tensors it reads."""
from __future__ import annotations

import sys

from ._errors import Error

_CUDA, _CUDA_MANAGED, _ROCM = 2, 13, 10
DEVICES = (_CUDA, _CUDA_MANAGED, _ROCM)


def _torch(index: int) -> int:
    return int(sys.modules["torch"].cuda.current_stream(index).cuda_stream)


def _cupy(index: int) -> int:
    cupy = sys.modules["cupy"]
    with cupy.cuda.Device(index):
        return int(cupy.cuda.get_current_stream().ptr)


# Libraries that have a current stream for each device, by the first part of the tensor type's module.
PROVIDERS = {"torch": _torch, "cupy": _cupy}


def current(tensor) -> int | None:
    """The current stream of a tensor's library on its device; None in host memory and for a library without one (JAX)."""
    device_of = getattr(tensor, "__dlpack_device__", None)
    if device_of is None:
        return None
    kind, index = device_of()
    if int(kind) not in DEVICES:
        return None
    for base in type(tensor).__mro__:  # a subclass belongs to its base's library
        provider = PROVIDERS.get(base.__module__.partition(".")[0])
        if provider is not None:
            return provider(int(index))
    return None


def handle(stream) -> int:
    """A stream object of PyTorch, CuPy or cuda-python, or a CUstream as an integer."""
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        return int((protocol() if callable(protocol) else protocol)[1])
    for attribute in ("cuda_stream", "ptr", "handle"):
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute))
    if isinstance(stream, int) and not isinstance(stream, bool) and 0 <= stream < 2**64:
        return stream
    raise Error("bad_input", f"stream: {stream!r}; a stream of PyTorch, CuPy or cuda-python, a CUstream as an integer, or None is needed")


def choose(tensors, stream=None) -> int:
    """The stream of a launch that uses `tensors`: `stream`, else the first current stream among them, else the default stream."""
    if stream is not None:
        return handle(stream)
    for tensor in tensors:
        found = current(tensor)
        if found is not None:
            return found
    return 0
