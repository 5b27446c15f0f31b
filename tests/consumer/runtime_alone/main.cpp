// Opens the emulated device and moves some bytes. Status 3 and the error's line when its library is not
// there.
#include <array>
#include <cstdio>

#include <kiln/runtime.hpp>

int main() {
  try {
    kiln::RuntimeOptions options;
    options.device = "emulated";
    options.cache_dir = "";
    kiln::Runtime runtime(options);
    kiln::DeviceBuffer buffer = runtime.allocate(64);
    std::array<std::byte, 64> out{}, in;
    in.fill(std::byte{0x5a});
    buffer.write(in);
    buffer.read(out);
    std::printf("device %s\n", runtime.device().selector.c_str());
    return in == out ? 0 : 1;
  } catch (const kiln::Error& error) {
    std::printf("%s\n", error.what());
    return error.code() == kiln::ErrorCode::environment ? 3 : 1;
  }
}
