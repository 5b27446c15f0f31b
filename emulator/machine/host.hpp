// What the emulated device takes of its host: memory and threads, and what it says where there is not enough.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include <kiln/emulator/emulator.hpp>

namespace kiln::emulator {

/// "WHAT needs 6.0 MiB of memory, the address space limit leaves 1.2 MiB", as MissingLibrary: the machine lacks
/// something, and nothing is wrong with the program.
[[noreturn]] void refuse_for_memory(const std::string& what, std::uint64_t bytes);

/// Runs `work` on this thread and on `threads` - 1 more at once, or on fewer where the host gives no more. When memory
/// ends in one of them, `stop` makes the others end, and refuse_for_memory() says so of the launch, which needs `bytes`
/// or more. Nothing else may leave `work`.
void run_on_threads(std::size_t threads, const std::function<void()>& work, const std::function<void()>& stop,
                    std::uint64_t bytes);

}  // namespace kiln::emulator
