// 128-bit hashes over length-prefixed records: fields can never run into each other.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace kiln {

struct Hash128 {
  std::array<std::uint8_t, 16> bytes{};
  std::string hex() const;
  bool operator==(const Hash128&) const = default;
};

class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  /// Raw bytes, without a length.
  void bytes(std::string_view data);
  /// One field: its length, then its bytes.
  void field(std::string_view data);
  void field(std::uint64_t value);
  Hash128 digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln
