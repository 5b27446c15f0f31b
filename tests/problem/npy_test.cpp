// .npy in and out: every type and order, and no damaged file that crashes or is half-read.
#include <doctest/doctest.h>

#include <cstring>
#include <kiln/error.hpp>
#include <random>
#include <system_error>

#include "runtime/support/memory.hpp"
#include "tests/runtime/support.hpp"
#include "workbench/files/npy.hpp"

using namespace kiln;

namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto view = std::as_bytes(std::span(text.data(), text.size()));
  return {view.begin(), view.end()};
}

// A version 1 file with the given dict and body.
std::vector<std::byte> file_of(const std::string& dict, const std::string& body, char version = 1) {
  std::string text("\x93NUMPY");
  text += version;
  text += '\0';
  const std::string header = dict + "\n";
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) text += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return bytes_of(text + header + body);
}

std::string message_of(const std::vector<std::byte>& file) {
  try {
    parse_npy(file, "t.npy");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::bad_input);
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    return error.what();
  }
  return "";
}

std::string floats(std::initializer_list<float> values) {
  std::string text(values.size() * 4, '\0');
  std::memcpy(text.data(), std::data(values), text.size());
  return text;
}

}  // namespace

TEST_CASE("what is written is read back, for every type and rank") {
  for (int type = 0; type <= static_cast<int>(NpyType::f64); ++type) {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{}, {3}, {2, 0, 4}, {2, 3, 4}, {1, 1, 1, 1, 5}}) {
      NpyArray array{static_cast<NpyType>(type), shape, {}};
      for (std::size_t i = 0; i < array.count() * size_of(array.type); ++i)
        array.data.push_back(std::byte(i * 7 + 1));
      const std::vector<std::byte> file = format_npy(array);
      CHECK((file.size() - array.data.size()) % 64 == 0);
      const NpyArray back = parse_npy(file, "t.npy");
      CHECK(back.type == array.type);
      CHECK(back.shape == array.shape);
      CHECK(back.data == array.data);
    }
  }
}

TEST_CASE("Fortran order, byte order, versions 2 and 3") {
  const std::string body = floats({0, 1, 2, 3, 4, 5});
  // Column-major [[0, 2, 4], [1, 3, 5]].
  const NpyArray fortran =
      parse_npy(file_of("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", body), "t");
  CHECK(to_floats(fortran) == std::vector<float>{0, 2, 4, 1, 3, 5});
  for (const char version : {'\1', '\2', '\3'}) {
    const NpyArray c =
        parse_npy(file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", body, version), "t");
    CHECK(to_floats(c) == std::vector<float>{0, 1, 2, 3, 4, 5});
  }
  const NpyArray big = parse_npy(file_of("{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }",
                                         std::string("\x01\x02\xff\xfe", 4)),
                                 "t");
  CHECK(to_integers(big, "t") == std::vector<std::int64_t>{0x102, -2});
}

TEST_CASE("conversions") {
  const NpyArray half = parse_npy(
      file_of("{'shape': (2,), 'descr': '<f2', 'fortran_order': False}", std::string("\x00\x3c\x00\xc0", 4)),
      "t");
  CHECK(to_floats(half) == std::vector<float>{1, -2});
  CHECK_THROWS_WITH_AS(to_integers(half, "t.npy"), "t.npy: holds float16, integers are wanted", Error);
}

TEST_CASE("damaged files say what is wrong in one line") {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  CHECK(message_of({}).find("not a .npy") != std::string::npos);
  CHECK(message_of(bytes_of("PK\x03\x04 zip")).find("not a .npy") != std::string::npos);
  CHECK(message_of(file_of(good, "1234567")).find("truncated") != std::string::npos);
  CHECK(message_of(file_of(good, "123456789")).find("trailing") != std::string::npos);
  CHECK(message_of(file_of(good, "12345678", '\4')).find("version 4") != std::string::npos);
  CHECK(message_of(file_of("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "12345678"))
            .find("<c8") != std::string::npos);
  CHECK(message_of(file_of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "1234")) !=
        "");
  CHECK(message_of(
            file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999, 99999999999999), }",
                    ""))
            .find("too large") != std::string::npos);
  CHECK(message_of(file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "")) != "");
  CHECK(message_of(file_of("{'descr': '<f4', 'shape': (1,), }", "1234")) != "");
  CHECK(message_of(file_of(good, "12345678")) == "");
}

TEST_CASE("a header that promises more than there is takes no memory, and endless files end") {
  const test::Scratch scratch;
  const auto file_of = [&](const std::string& shape, std::size_t body) {
    std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + shape + "), }";
    dict.append(117 - dict.size(), ' ');
    dict += '\n';
    std::string text("\x93NUMPY\1\0", 8);
    text += static_cast<char>(dict.size());
    text += '\0';
    test::write_file(scratch / "a.npy", text + dict + std::string(body, '\0'));
    return scratch / "a.npy";
  };
  std::string message;
  CHECK(test::error_of([&] { read_npy(file_of("100000000000, 64", 64)); }, &message) == ErrorCode::bad_input);
  CHECK(message.find(
            "truncated .npy: shape [100000000000, 64] of float32 needs 25600000000000 bytes, 64 present") !=
        std::string::npos);
  CHECK(test::error_of([&] { read_npy(file_of("4", 20)); }, &message) == ErrorCode::bad_input);
  CHECK(message.find("trailing bytes in .npy: shape [4] of float32 needs 16 bytes, 20 present") !=
        std::string::npos);
  CHECK(read_npy(file_of("4", 16)).data.size() == 16);
  // A file that is there, sparse, and larger than any memory: both figures, no attempt. File systems differ in
  // the largest file (ext4: 16 TiB).
  std::uint64_t rows = 100000000000;
  std::string sparse;
  for (std::error_code error;; rows /= 2) {
    sparse = file_of(std::to_string(rows) + ", 64", 0);
    std::filesystem::resize_file(sparse, 128 + rows * 256, error);
    if (!error) break;
    REQUIRE(error == std::errc::file_too_large);
  }
  REQUIRE(2 * rows * 256 > available_memory().bytes);  // elements, and a float of each
  CHECK(test::error_of([&] { read_npy(sparse); }, &message) == ErrorCode::environment);
  CHECK_MESSAGE(message.find("needs " + size_text(2 * rows * 256) + " of memory, ") != std::string::npos,
                message);
  for (const char* endless : {"/dev/zero", "/dev/urandom"})
    CHECK(test::error_of([&] { read_npy(endless); }) == ErrorCode::bad_input);
}

TEST_CASE("mutated and cut files never crash") {
  NpyArray array{NpyType::f32, {2, 3, 2}, std::vector<std::byte>(48, std::byte{1})};
  const std::vector<std::byte> good = format_npy(array);
  for (std::size_t length = 0; length < good.size(); ++length) {
    CHECK(message_of({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)}) != "");
  }
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> file = good;
    for (unsigned i = 0; i <= random() % 3; ++i) file[random() % 128] = std::byte(random());
    try {
      const NpyArray parsed = parse_npy(file, "t");
      // What is accepted is consistent: exactly the bytes that the shape asks for.
      REQUIRE(parsed.data.size() == parsed.count() * size_of(parsed.type));
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused > 10000);
}
