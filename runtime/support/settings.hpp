// Settings that users write: sizes in bytes, whole numbers, and the environment variables that hold them.
// What cannot be read is an error that names the variable, never a default.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kiln {

/// A size in bytes: a decimal number with a binary unit (K, M, G, T in either case, alone or with B or iB),
/// "1000000", "1.5G", "512MiB", "1e9". Nothing when it is none, is negative, does not fit 62 bits, or has a
/// fraction of a byte and no unit.
std::optional<std::uint64_t> parse_size(std::string_view text);

/// What parse_size() reads, for messages.
inline constexpr std::string_view kSizeForm =
    "write bytes, or a number with K, M, G or T: 1000000, 512M, 1.5G";

/// $`name` as a size, `fallback` when it is unset or empty. Throws Error (bad_input), one line.
std::uint64_t size_setting(const char* name, std::uint64_t fallback);
/// $`name` as a whole number from `low` to `high`, `fallback` when it is unset or empty. Throws Error
/// (bad_input), one line.
std::int64_t integer_setting(const char* name, std::int64_t fallback, std::int64_t low, std::int64_t high);

/// Reads every setting of the environment, those too that the work at hand does not ask for. Throws Error (bad_input),
/// one line, for the first that cannot be read.
void check_settings();

}  // namespace kiln
