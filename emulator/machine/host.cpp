#include "emulator/machine/host.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <new>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

namespace kiln::emulator {
namespace {

std::string contents(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The first number in `text` from `at` on; 0: none.
std::uint64_t number(std::string_view text, std::size_t at) {
  at = std::min(text.find_first_of("0123456789", std::min(at, text.size())), text.size());
  std::uint64_t value = 0;
  std::from_chars(text.data() + at, text.data() + text.size(), value);
  return value;
}

struct Room {
  std::uint64_t bytes;
  const char* where;
};

/// The tightest of what the machine and the process's limits have left.
Room room() {
  Room best{std::numeric_limits<std::uint64_t>::max(), "the machine has"};
  const std::string machine = contents("/proc/meminfo");
  if (const std::size_t at = machine.find("MemAvailable:"); at != std::string::npos)
    best.bytes = number(machine, at) * 1024;
  const std::string pages = contents("/proc/self/statm");  // size resident shared text lib data dt
  std::uint64_t fields[6] = {};
  std::size_t at = 0;
  for (std::uint64_t& field : fields) {
    field = number(pages, at) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    at = std::min(pages.find(' ', at), pages.size() - 1) + 1;
  }
  const auto limit = [&](auto resource, std::uint64_t used, const char* where) {
    rlimit most{};
    if (getrlimit(resource, &most) != 0 || most.rlim_cur == RLIM_INFINITY) return;
    const std::uint64_t left = most.rlim_cur > used ? most.rlim_cur - used : 0;
    if (left < best.bytes) best = {left, where};
  };
  limit(RLIMIT_AS, fields[0], "the address space limit leaves");
  limit(RLIMIT_DATA, fields[5], "the data limit leaves");
  return best;
}

std::string mebibytes(std::uint64_t bytes) {
  const std::uint64_t tenths = (bytes * 10 + (std::uint64_t{1} << 19)) >> 20;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " MiB";
}

}  // namespace

void refuse_for_memory(const std::string& what, std::uint64_t bytes) {
  const Room left = room();
  throw MissingLibrary(what + " needs " + mebibytes(bytes) + " of memory, " + left.where + " " +
                       mebibytes(left.bytes));
}

void run_on_threads(std::size_t threads, const std::function<void()>& work, const std::function<void()>& stop,
                    std::uint64_t bytes) {
  std::atomic<bool> exhausted{false};
  const auto guarded = [&] {
    try {
      work();
    } catch (const std::bad_alloc&) {
      exhausted = true;
      stop();
    }
  };
  std::vector<std::thread> helpers;
  helpers.reserve(threads);
  try {
    for (std::size_t i = 1; i < threads; ++i) helpers.emplace_back(guarded);
  } catch (
      const std::
          system_error&) {  // no room for one more's stack, or too many threads: those that are there do it
  }
  guarded();
  for (std::thread& t : helpers) t.join();
  if (exhausted) refuse_for_memory("the launch on the emulated device", bytes);
}

}  // namespace kiln::emulator
