// How much memory this process may still take, so that a request beyond it is refused with both figures
// instead of ending by the kernel's out-of-memory killer.
#pragma once

#include <cstdint>
#include <string>

namespace kiln {

struct MemoryLimit {
  std::uint64_t bytes = 0;
  std::string where;  ///< "the machine has", "the control group leaves", "the address space limit leaves"
};

/// The tightest of: what the machine has free (with swap), what the control groups of the process leave
/// (versions 1 and 2), and what its limits of address space and data leave. `root` stands before /proc and
/// /sys, for tests.
MemoryLimit available_memory(const std::string& root = {});

/// Throws Error (environment), one line with both figures, when `bytes` more are not available. `what` is the
/// subject: "the problem", "reading 'q.npy'". Small requests are let through unlooked at.
void require_memory(std::uint64_t bytes, const std::string& what);
/// The same against a given limit, without exceptions for small ones.
void require_memory(std::uint64_t bytes, const std::string& what, const MemoryLimit& limit);

/// "1.5 GiB".
std::string size_text(std::uint64_t bytes);

}  // namespace kiln
