// NumPy .npy files: the only tensor format kiln reads and writes. Versions 1 to 3, C and Fortran order,
// either byte order. Malformed files are an Error (bad_input) of one line that names the file and the defect;
// nothing is ever half-read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

enum class NpyType { b1, i8, u8, i16, u16, i32, u32, i64, u64, f16, f32, f64 };

std::string_view to_string(NpyType type);  ///< NumPy's own name: "float32", "int64", ...
std::size_t size_of(NpyType type);

/// A dense array: little-endian elements in C order, whatever the file had.
struct NpyArray {
  NpyType type = NpyType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;

  std::size_t count() const;  ///< elements
};

/// Parses the bytes of one file; `name` stands in messages.
NpyArray parse_npy(std::span<const std::byte> file, std::string_view name);
/// Reads a file. Errors: missing, unreadable, not a regular file, malformed.
NpyArray read_npy(const std::filesystem::path& path);
/// The bytes of a version 1 file (version 2 when the header is too long for 1).
std::vector<std::byte> format_npy(const NpyArray& array);
/// Writes a file atomically: the name appears only with all its bytes.
void write_npy(const std::filesystem::path& path, const NpyArray& array);

/// Elements as float. Integers and float64 are rounded to the nearest float; float64 beyond float's range
/// becomes infinite.
std::vector<float> to_floats(const NpyArray& array);
/// Elements of an integer array, checked against `int64`. Errors: floating-point array, uint64 value over the
/// range.
std::vector<std::int64_t> to_integers(const NpyArray& array, std::string_view name);
NpyArray npy_from_floats(std::vector<std::int64_t> shape, std::span<const float> values);

/// "[2, 128, 8, 64]", for messages.
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace kiln
