// The process environment, ignored when the process runs with raised privileges.
#pragma once

#include <stdlib.h>

#include <string>

namespace kiln {

/// Value of an environment variable; empty when unset or when the process is set-uid (secure execution).
inline std::string environment(const char* name) {
  const char* value = secure_getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace kiln
