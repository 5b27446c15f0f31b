"""Tensors for tests: host memory that speaks DLPack, and stand-ins for tensors of GPU libraries."""
import contextlib
import ctypes
import math
import struct
import sys
import types
from unittest import mock

CPU, CUDA = 1, 2
_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]


class HostTensor:
    """The least that speaks DLPack: memory of ctypes in a capsule, so that the tests need no tensor library."""

    FORMATS = {"e": (2, 16), "f": (2, 32), "i": (0, 32), "q": (0, 64)}

    def __init__(self, kind, shape, values=None):
        count = math.prod(shape)
        self.kind, self.count = kind, count
        self.memory = ctypes.create_string_buffer(struct.pack(f"{count}{kind}", *(values or [0] * count)), count * struct.calcsize(kind))
        code, bits = self.FORMATS[kind]
        self.extents = (ctypes.c_int64 * len(shape))(*shape)
        self.view = DLTensor(ctypes.addressof(self.memory), CPU, 0, len(shape), code, bits, 1, self.extents, None, 0)

    def __dlpack_device__(self):
        return (CPU, 0)

    def __dlpack__(self, **_):
        return _new(ctypes.addressof(self.view), b"dltensor", None)

    def values(self):
        return struct.unpack(f"{self.count}{self.kind}", self.memory.raw)


def gpu_tensor_type(module: str):
    """A tensor type of a library: its tensors claim to be on a GPU and note what `__dlpack__` was asked."""

    class Tensor:
        def __init__(self, device=(CUDA, 0)):
            self.device, self.asked = device, []
            self.extents = (ctypes.c_int64 * 1)(1)
            self.view = DLTensor(0, device[0], device[1], 1, 2, 32, 1, self.extents, None, 0)

        def __dlpack_device__(self):
            return self.device

        def __dlpack__(self, **asked):
            self.asked.append(asked.get("stream"))
            return _new(ctypes.addressof(self.view), b"dltensor", None)

    Tensor.__module__ = module
    return Tensor


def exchange_table(streams):
    """`__dlpack_c_exchange_api__` of a type whose library's current streams are `streams`, by device. Keep what it returns."""
    from_object = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
    work_stream = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))

    class Table(ctypes.Structure):
        _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p), ("allocator", ctypes.c_void_p),
                    ("managed_from_object", ctypes.c_void_p), ("managed_to_object", ctypes.c_void_p),
                    ("tensor_from_object", from_object), ("current_work_stream", work_stream)]

    def view_of(tensor, out):
        out[0] = tensor.view
        return 0

    def stream_of(device_type, device_id, out):
        out[0] = streams[device_id]
        return 0

    table = Table(1, 3, None, None, None, None, from_object(view_of), work_stream(stream_of))
    name = ctypes.create_string_buffer(b"dlpack_exchange_api")
    capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(("PyCapsule_New", ctypes.pythonapi))(
        ctypes.addressof(table), ctypes.addressof(name), None)
    return capsule, (table, name)


def libraries(torch_streams, cupy_stream=0):
    """Stand-ins for the modules torch and cupy whose current streams are those given (torch's by device)."""
    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(current_stream=lambda index: types.SimpleNamespace(cuda_stream=torch_streams[index]))
    cupy = types.ModuleType("cupy")
    cupy.cuda = types.SimpleNamespace(
        Device=lambda index: contextlib.nullcontext(), get_current_stream=lambda: types.SimpleNamespace(ptr=cupy_stream))
    return mock.patch.dict(sys.modules, {"torch": torch, "cupy": cupy})
