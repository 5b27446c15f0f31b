#include "driver/change.hpp"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace kiln::driver {

std::uint64_t Change::hash_of(std::string_view ptx) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : ptx) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

Change Change::read(const std::string& path) {
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto j = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!j.is_object()) return {};
  Change c;
  c.length = j.value("length", std::size_t{0});
  c.hash = j.value("hash", std::uint64_t{0});
  c.begin = j.value("begin", std::size_t{0});
  c.end = j.value("end", std::size_t{0});
  c.replacement = j.value("replacement", "");
  return c;
}

void Change::write(const std::string& path) const {
  const nlohmann::ordered_json j = {
      {"length", length}, {"hash", hash}, {"begin", begin}, {"end", end}, {"replacement", replacement}};
  std::ofstream(path) << j.dump();
}

void Change::apply(std::string& ptx) const {
  if (length == 0 || ptx.size() != length || begin > end || end > length || hash_of(ptx) != hash) return;
  ptx.replace(begin, end - begin, replacement);
}

}  // namespace kiln::driver
