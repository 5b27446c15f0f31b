#include "trace.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <kiln/error.hpp>
#include <nlohmann/json.hpp>

namespace replay {
namespace {

[[noreturn]] void fail(const std::string& path, std::int64_t line, const std::string& what) {
  throw kiln::Error(kiln::ErrorCode::bad_input, path + ":" + std::to_string(line) + ": " + what);
}

Request from_json(const std::string& text, const std::string& path, std::int64_t line) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto number = [&](const char* key) {
    if (!json.is_object() || !json.contains(key) || !json[key].is_number_integer())
      fail(path, line, std::string("no integer '") + key + "'");
    return json[key].get<std::int64_t>();
  };
  Request request{number("input_length"), number("output_length"), {}};
  if (!json.contains("hash_ids")) return request;
  for (const auto& id : json["hash_ids"]) {
    if (!id.is_number_integer()) fail(path, line, "'hash_ids' is not a list of integers");
    request.hashes.push_back(id.get<std::int64_t>());
  }
  return request;
}

Request from_csv(const std::string& text, const std::string& path, std::int64_t line) {
  std::istringstream cells(text);
  std::string time, prompt, output;
  std::getline(cells, time, ',');
  std::getline(cells, prompt, ',');
  std::getline(cells, output, ',');
  try {
    return {std::stoll(prompt), std::stoll(output), {}};
  } catch (const std::exception&) {
    fail(path, line, "not 'time,ContextTokens,GeneratedTokens'");
  }
}

}  // namespace

std::vector<Request> read_requests(const std::string& path, std::int64_t count, std::int64_t longest,
                                   std::int64_t outputs) {
  std::ifstream in(path);
  if (!in) throw kiln::Error(kiln::ErrorCode::bad_input, "cannot read '" + path + "'");
  std::vector<Request> requests;
  std::string text;
  for (std::int64_t line = 1; static_cast<std::int64_t>(requests.size()) < count && std::getline(in, text);
       ++line) {
    if (text.empty() || (line == 1 && text[0] != '{')) continue;  // the head of a CSV
    Request request = text[0] == '{' ? from_json(text, path, line) : from_csv(text, path, line);
    if (request.prompt < 0 || request.output < 0) fail(path, line, "a negative length");
    request.prompt = std::clamp<std::int64_t>(request.prompt, 1, longest);
    request.output = std::clamp<std::int64_t>(request.output, 1, outputs);
    // Only whole blocks can be shared.
    request.hashes.resize(
        std::min(request.hashes.size(), static_cast<std::size_t>(request.prompt / kHashTokens)));
    requests.push_back(std::move(request));
  }
  if (requests.empty()) throw kiln::Error(kiln::ErrorCode::bad_input, path + ": no requests");
  return requests;
}

}  // namespace replay
