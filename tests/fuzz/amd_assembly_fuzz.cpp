// Any bytes are a module or an Error of the assembly reader, and a module runs to its end, to a finding or to
// an Error, never to a crash: one workgroup of one wave, whose arguments point at a small buffer.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <kiln/emulator/amdgcn.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace emu = kiln::emulator;
  try {
    const auto module = emu::amdgcn::Module::from_assembly({reinterpret_cast<const char*>(data), size});
    for (const std::string& kernel : module.kernels()) {
      emu::GlobalMemory memory(std::size_t{1} << 24);
      const std::uint64_t buffer = memory.allocate(4096, "buffer");
      emu::amdgcn::Launch launch;
      launch.kernel = kernel;
      launch.block = {64, 1, 1};
      launch.dynamic_lds_bytes = 4096;
      launch.policy = static_cast<emu::Policy>(size % 3);
      launch.instruction_budget = 2000;
      launch.host_threads = 1;
      for (const auto& argument : module.kernel(kernel).args) {
        if (argument.hidden()) continue;
        std::vector<std::byte> bytes(argument.bytes);
        if (argument.bytes == sizeof buffer) std::memcpy(bytes.data(), &buffer, sizeof buffer);
        launch.args.push_back(std::move(bytes));
      }
      emu::amdgcn::launch(memory, module, launch);
    }
  } catch (const emu::Error&) {
  }
  return 0;
}
