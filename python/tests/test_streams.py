"""The stream of a launch, with stand-ins for PyTorch, CuPy and JAX whose tensors only claim to be on a GPU."""
import types
import unittest

import kiln
from kiln import _native
from stand_ins import CPU, CUDA, HostTensor, exchange_table, gpu_tensor_type, libraries

TorchTensor, CupyTensor, JaxTensor = (gpu_tensor_type(name) for name in ("torch", "cupy", "jaxlib.xla_extension"))


class Subclass(TorchTensor):
    pass


class Streams(unittest.TestCase):
    def test_current_stream_of_the_tensors_device(self):
        with libraries([0x70, 0x71], 0x90):
            for tensors, stream in (
                ([TorchTensor()], 0x70), ([TorchTensor((CUDA, 1))], 0x71), ([Subclass()], 0x70), ([CupyTensor()], 0x90),
                # A host tensor and None say nothing of streams; JAX has no current one.
                ([None, HostTensor("f", (1,)), JaxTensor(), TorchTensor()], 0x70), ([JaxTensor()], 0), ([HostTensor("f", (1,))], 0),
            ):
                self.assertEqual(_native.launch_stream(tensors), stream)

    def test_a_given_stream_is_taken(self):
        with libraries([0x70]):
            given = (0x33, types.SimpleNamespace(cuda_stream=0x33), types.SimpleNamespace(ptr=0x33), types.SimpleNamespace(handle=0x33),
                     types.SimpleNamespace(__cuda_stream__=lambda: (0, 0x33)))
            for stream in given:
                self.assertEqual(_native.launch_stream([TorchTensor()], stream), 0x33)
            self.assertEqual(_native.launch_stream([TorchTensor()], 0), 0)  # the default stream, when it is asked for
            for stream in (-1, True, "side", 1.5, 2**64, 2**200, types.SimpleNamespace(ptr=2**70)):
                with self.assertRaisesRegex(kiln.Error, "stream: "):
                    _native.launch_stream([TorchTensor()], stream)

    def test_the_exporter_waits_only_for_other_streams(self):
        with libraries([0x70], 0x90):
            for tensor, stream, asked in ((TorchTensor(), 0x70, -1), (TorchTensor(), None, -1), (TorchTensor(), 0x33, 0x33),
                                          (TorchTensor(), 0, 1), (CupyTensor(), 0x70, 0x70), (JaxTensor(), None, 1)):
                _native.launch_stream([tensor], stream)
                self.assertEqual(tensor.asked, [asked])
            q, k = TorchTensor(), CupyTensor()
            _native.launch_stream([q, k])  # CuPy's work is on another stream than this launch
            self.assertEqual((q.asked, k.asked), ([-1], [0x70]))

    def test_exchange_table(self):
        tensor_type = gpu_tensor_type("somelib")
        tensor_type.__dlpack_c_exchange_api__, kept = exchange_table([0x70, 0x71])
        tensor = tensor_type((CUDA, 1))
        self.assertEqual(_native.launch_stream([tensor]), 0x71)
        self.assertEqual(_native.launch_stream([tensor_type((CPU, 0))]), 0)
        self.assertEqual(tensor.asked, [])  # nothing but the table was used
        self.assertEqual(_native.launch_stream([tensor], 0x33), 0x33)
        self.assertEqual(tensor.asked, [0x33])  # only the protocol makes another stream wait
        del kept

    def test_a_gpu_tensor_for_the_emulated_device(self):
        kernel = kiln.Runtime("emulated").load({"target": "sm_80", "operation": "prefill", "dtype": "fp16", "depth": 64})
        tensor = TorchTensor()
        with libraries([0x70]), self.assertRaisesRegex(kiln.Error, "q is on cuda:0; host memory .* is needed"):
            kernel(tensor, tensor, tensor, tensor)
        self.assertEqual(tensor.asked, [-1] * 4)


if __name__ == "__main__":
    unittest.main()
