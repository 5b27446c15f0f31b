// Requests of a serving trace: JSON lines with input_length, output_length and hash_ids (one for each 512
// tokens of the prompt, equal where prompts share a prefix), or CSV with ContextTokens and GeneratedTokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace replay {

constexpr std::int64_t kHashTokens = 512;

struct Request {
  std::int64_t prompt = 0, output = 0;
  std::vector<std::int64_t> hashes;
};

/// The first `count` requests, lengths cut to `longest` (prompts) and `outputs`. Throws kiln::Error
/// (bad_input).
std::vector<Request> read_requests(const std::string& path, std::int64_t count, std::int64_t longest,
                                   std::int64_t outputs);

}  // namespace replay
