// Any bytes are a module or an Error of the PTX front end, and a module runs to its end, to a finding or to
// an Error, never to a crash: one block of one warp, whose arguments point at a small buffer.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <kiln/emulator/emulator.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace emu = kiln::emulator;
  try {
    const emu::Module module = emu::Module::from_ptx({reinterpret_cast<const char*>(data), size});
    for (const std::string& kernel : module.kernels()) {
      emu::GlobalMemory memory(std::size_t{1} << 24);
      const std::uint64_t buffer = memory.allocate(4096, "buffer");
      emu::Launch launch;
      launch.kernel = kernel;
      launch.block = {32, 1, 1};
      launch.dynamic_smem_bytes = 4096;
      launch.policy = static_cast<emu::Policy>(size % 3);
      launch.instruction_budget = 2000;
      launch.host_threads = 1;
      for (const emu::Parameter& param : module.params(kernel)) {
        std::vector<std::byte> bytes(param.bytes);
        if (param.bytes == sizeof buffer) std::memcpy(bytes.data(), &buffer, sizeof buffer);
        launch.args.push_back(std::move(bytes));
      }
      emu::launch(memory, module, launch);
    }
  } catch (const emu::Error&) {
  }
  return 0;
}
