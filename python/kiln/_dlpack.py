"""Tensors of other libraries as DLTensors, by the DLPack protocol."""
import ctypes

from ._library import DLTensor, Error

_get = ctypes.pythonapi.PyCapsule_GetPointer
_get.restype, _get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

_CPU, _CUDA, _CUDA_MANAGED, _ROCM = 1, 2, 13, 10


class Borrowed:
    """The DLTensor of an object, valid while this lives. Capsules are not consumed: their own destructor gives them back."""

    def __init__(self, name: str, tensor, stream: int):
        if not hasattr(tensor, "__dlpack__"):
            raise Error("bad_input", f"{name}: {type(tensor).__name__} has no __dlpack__")
        device = int(tensor.__dlpack_device__()[0])
        try:
            if device in (_CUDA, _CUDA_MANAGED):
                # Work that made the tensor is ordered before ours. The protocol has 1 for CUDA's default stream.
                self.capsule = tensor.__dlpack__(stream=stream or 1)
            elif device == _ROCM:
                self.capsule = tensor.__dlpack__(stream=stream)
            else:
                self.capsule = tensor.__dlpack__()
        except (BufferError, TypeError, ValueError) as error:
            raise Error("bad_input", f"{name}: {error}") from None
        # DLManagedTensor begins with its DLTensor.
        self.pointer = ctypes.cast(_get(self.capsule, b"dltensor"), ctypes.POINTER(DLTensor))
