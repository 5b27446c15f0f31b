// The file of recorded outputs: per case its hash and either the output's bytes or, for large outputs, a
// digest of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace conformance {

/// Outputs of more bytes than this are kept as a digest.
inline constexpr std::size_t kMaxRawBytes = 4096;

struct RecordedCase {
  std::uint64_t case_hash = 0;
  std::uint64_t output_bytes = 0;
  std::uint64_t digest = 0;          ///< hash_bytes of the output
  std::vector<std::uint8_t> output;  ///< empty when only the digest was kept
};

struct Recording {
  std::string device;  ///< GPU and driver that made it
  std::map<std::string, RecordedCase> cases;
};

RecordedCase record_output(std::uint64_t case_hash, const std::vector<std::uint8_t>& output,
                           bool needs_bytes);
/// Writes the file; false when that fails.
bool save(const Recording& recording, const std::string& path);
/// Nothing if there is no such file; a message in `error` if it is malformed.
std::optional<Recording> load(const std::string& path, std::string& error);

}  // namespace conformance
