#include "runtime/support/memory.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>

#include <kiln/error.hpp>

namespace kiln {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kSmall = std::uint64_t{32} << 20;

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::optional<std::uint64_t> number_at(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc() ? std::optional(value) : std::nullopt;
}

/// The number behind `key` at the beginning of a line.
std::optional<std::uint64_t> field(std::string_view text, std::string_view key) {
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view line = text.substr(at, text.find('\n', at) - at);
    if (line.starts_with(key)) return number_at(line.substr(key.size()));
    at += line.size() + 1;
  }
  return std::nullopt;
}

std::uint64_t minus(std::uint64_t a, std::uint64_t b) {
  return a > b ? a - b : 0;
}

void tighten(MemoryLimit& limit, std::uint64_t bytes, const char* where) {
  if (bytes < limit.bytes) limit = {bytes, where};
}

/// One group's files; caches of files that are only read count as free.
void tighten_by_group(MemoryLimit& limit, const std::string& folder, const char* max, const char* used,
                      const char* reclaimable) {
  const auto most = number_at(contents(folder + max)), now = number_at(contents(folder + used));
  if (!most || !now) return;
  const std::uint64_t cached = field(contents(folder + "/memory.stat"), reclaimable).value_or(0);
  tighten(limit, minus(*most, minus(*now, cached)), "the control group leaves");
}

/// A group and all above it. Inside a container the path may be one of the host, and the root is the group
/// itself.
template <class Visit>
void each_group(const std::string& base, std::string path, const Visit& visit) {
  for (;;) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    visit(base + path);
    if (path.empty()) return;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

void tighten_by_groups(MemoryLimit& limit, const std::string& root) {
  const std::string groups = contents(root + "/proc/self/cgroup");
  for (std::size_t at = 0; at < groups.size();) {
    const std::string line = groups.substr(at, groups.find('\n', at) - at);
    at += line.size() + 1;
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"})
        each_group(root + mount, path, [&](const std::string& folder) {
          tighten_by_group(limit, folder, "/memory.max", "/memory.current", "inactive_file");
        });
    } else if (controllers.find(",memory,") != std::string::npos) {
      each_group(root + "/sys/fs/cgroup/memory", path, [&](const std::string& folder) {
        tighten_by_group(limit, folder, "/memory.limit_in_bytes", "/memory.usage_in_bytes",
                         "total_inactive_file");
      });
    }
  }
}

void tighten_by_limits(MemoryLimit& limit, const std::string& root) {
  const std::string statm =
      contents(root + "/proc/self/statm");  // pages: size resident shared text lib data dt
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::string_view rest = statm;
  std::uint64_t fields[6] = {};
  for (std::uint64_t& value : fields) {
    value = number_at(rest).value_or(0) * page;
    rest.remove_prefix(std::min(rest.find(' '), rest.size()));
    rest.remove_prefix(std::min<std::size_t>(rest.size(), 1));
  }
  rlimit space{};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    tighten(limit, minus(space.rlim_cur, fields[0]), "the address space limit leaves");
  if (getrlimit(RLIMIT_DATA, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    tighten(limit, minus(space.rlim_cur, fields[5]), "the data limit leaves");
}

}  // namespace

MemoryLimit available_memory(const std::string& root) {
  MemoryLimit limit{kUnlimited, "the machine has"};
  const std::string machine = contents(root + "/proc/meminfo");
  if (const auto free = field(machine, "MemAvailable:"))
    tighten(limit, (*free + field(machine, "SwapFree:").value_or(0)) * 1024, "the machine has");
  tighten_by_groups(limit, root);
  tighten_by_limits(limit, root);
  return limit;
}

void require_memory(std::uint64_t bytes, const std::string& what, const MemoryLimit& limit) {
  if (bytes <= limit.bytes) return;
  throw Error(ErrorCode::environment, fmt::format("{} needs {} of memory, {} {}", what, size_text(bytes),
                                                  limit.where, size_text(limit.bytes)));
}

void require_memory(std::uint64_t bytes, const std::string& what) {
  if (bytes > kSmall) require_memory(bytes, what, available_memory());
}

std::string size_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace kiln
