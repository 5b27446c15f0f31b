// The cache entry format: what goes in comes out, and no bytes whatever break the reader.
#include <doctest/doctest.h>

#include <cstring>
#include <random>

#include "runtime/cache/entry.hpp"
#include "tests/runtime/support.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {

Binary sample() {
  Binary binary;
  binary.name = "name";
  binary.entry = "kernel";
  binary.target = "sm_90a";
  binary.compiler = "nvrtc 13.0 abc";
  binary.image = std::string(
                     "\x7f"
                     "ELF\0\1\2\3",
                     8) +
                 std::string(5000, 'x');
  binary.ptx = ".version 9.0\n";
  binary.log = "ptxas info \xff not UTF-8";
  binary.warnings = {"one", "two"};
  binary.registers = 168;
  binary.spill_bytes = 8;
  binary.stack_bytes = 16;
  binary.static_smem_bytes = 32;
  binary.compile_ms = 12.5;
  return binary;
}

Hash128 sample_key() {
  Hash128 key;
  for (std::size_t i = 0; i < 16; ++i) key.bytes[i] = static_cast<std::uint8_t>(i * 17);
  return key;
}

}  // namespace

TEST_CASE("an entry round-trips") {
  const Binary in = sample();
  const std::string bytes = write_entry(in, sample_key(), 1234);
  const auto out = read_entry(bytes);
  REQUIRE(out.value);
  CHECK(out.value->name == in.name);
  CHECK(out.value->entry == in.entry);
  CHECK(out.value->target == in.target);
  CHECK(out.value->compiler == in.compiler);
  CHECK(out.value->image == in.image);
  CHECK(out.value->ptx == in.ptx);
  CHECK(out.value->log == in.log);
  CHECK(out.value->warnings == in.warnings);
  CHECK(out.value->registers == in.registers);
  CHECK(out.value->spill_bytes == in.spill_bytes);
  CHECK(out.value->stack_bytes == in.stack_bytes);
  CHECK(out.value->static_smem_bytes == in.static_smem_bytes);
  CHECK(out.value->compile_ms == in.compile_ms);
  CHECK(out.value->key == "00112233445566778899aabbccddeeff");
  CHECK(out.value->cache == CacheState::disk);
  CHECK(write_entry(in, sample_key(), 1234) == bytes);
  const auto info = read_entry_info(std::string_view(bytes).substr(0, 1000));
  REQUIRE(info.value);
  CHECK(info.value->info.created == 1234);
  CHECK(info.value->info.bytes == bytes.size());
  CHECK(entry_bytes(bytes) == bytes.size());
}

TEST_CASE("every truncation and every flipped byte is refused") {
  const std::string bytes = write_entry(sample(), sample_key(), 1234);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CHECK_FALSE(read_entry(std::string_view(bytes).substr(0, size)).value);
    read_entry_info(std::string_view(bytes).substr(0, size));
  }
  CHECK_FALSE(read_entry(bytes + "x").value);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x20);
    const auto result = read_entry(flipped);
    CHECK_FALSE(result.value);
    CHECK_FALSE(result.problem.empty());
  }
}

TEST_CASE("mutated entries with a valid hash never break the reader") {
  const std::string bytes = write_entry(sample(), sample_key(), 1234);
  std::mt19937 random(20261121);
  const char interesting[] = {0, 1, 0x7f, -1, -128, '{', '}', '"', '9', '-', ','};
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string mutant = bytes;
    for (auto edits = 1 + random() % 6; edits > 0; --edits) {
      const std::size_t limit = random() % 3 == 0 ? mutant.size() : std::min<std::size_t>(mutant.size(), 500);
      const std::size_t at = random() % limit;
      switch (random() % 4) {
        case 0:
          mutant[at] = static_cast<char>(random());
          break;
        case 1:
          mutant[at] = interesting[random() % sizeof interesting];
          break;
        case 2:
          mutant.erase(at, random() % 9);
          break;
        default:
          mutant.insert(at, mutant.substr(random() % mutant.size(), random() % 9));
          break;
      }
      if (mutant.empty()) mutant = "k";
    }
    reseal_entry(mutant);
    accepted += read_entry(mutant).value ? 1 : 0;
    read_entry_info(mutant);
    entry_bytes(mutant);
  }
  CHECK(accepted > 0);  // behind the hash: mutants that change only a name are entries
  CHECK(accepted < 20000);
}

TEST_CASE("sizes that lie are refused before memory is taken") {
  std::string bytes = write_entry(sample(), sample_key(), 1234);
  for (const std::size_t field : {32, 40, 48}) {
    for (const char value : {char(0x01), char(0x7f), char(0xff)}) {
      std::string lying = bytes;
      lying[field + 7] = value;
      reseal_entry(lying);
      CHECK_FALSE(read_entry(lying).value);
      CHECK_FALSE(read_entry_info(lying).value.has_value());
      CHECK_FALSE(entry_bytes(lying).has_value());
    }
  }
}

TEST_CASE("of keys and nested values no more are kept than entries have") {
  const std::string good = write_entry(sample(), sample_key(), 1234);
  std::uint64_t length = 0;
  std::memcpy(&length, good.data() + 32, sizeof length);
  const auto accepts = [&](const std::string& first) {  // members before those of the entry
    std::string bytes = good;
    bytes.insert(kEntryHeaderBytes + 1, first);
    const std::uint64_t longer = length + first.size();
    std::memcpy(bytes.data() + 32, &longer, sizeof longer);
    reseal_entry(bytes);
    CHECK(read_entry_info(bytes).value.has_value() == read_entry(bytes).value.has_value());
    return read_entry(bytes).value.has_value();
  };
  const auto keys = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += "\"" + std::to_string(100000 + i) + "\":1,";
    return text;
  };
  CHECK(accepts(keys(40)));
  CHECK_FALSE(accepts(keys(300000)));
  for (const char* nested : {"{},", "[],", "{\"a\":1},"}) {
    std::string text = "\"x\":[";
    for (int i = 0; i < 300000; ++i) text += nested;
    const bool has_keys = text.back() == ',' && text.find(":1") != std::string::npos;
    CHECK(accepts(text + "1],") != has_keys);
  }
}
