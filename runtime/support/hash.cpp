#include "runtime/support/hash.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <cstring>
#include <new>

namespace kiln {

struct Hasher::State {
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> xxh{XXH3_createState()};
};

std::string Hash128::hex() const {
  std::string text;
  text.reserve(32);
  for (std::uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

Hasher::Hasher() : state_(std::make_unique<State>()) {
  if (!state_->xxh) throw std::bad_alloc();
  XXH3_128bits_reset(state_->xxh.get());
}
Hasher::~Hasher() = default;

void Hasher::bytes(std::string_view data) {
  XXH3_128bits_update(state_->xxh.get(), data.data(), data.size());
}

void Hasher::field(std::uint64_t value) {
  char little[8];
  for (int i = 0; i < 8; ++i) little[i] = static_cast<char>(value >> (8 * i) & 0xff);
  bytes({little, sizeof little});
}

void Hasher::field(std::string_view data) {
  field(static_cast<std::uint64_t>(data.size()));
  bytes(data);
}

Hash128 Hasher::digest() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_->xxh.get()));
  Hash128 hash;
  std::memcpy(hash.bytes.data(), canonical.digest, hash.bytes.size());
  return hash;
}

}  // namespace kiln
