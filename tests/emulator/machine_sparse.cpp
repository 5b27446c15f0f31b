// mma.sp and wgmma.mma_async.sp: against dense products of small integers, and the findings that belong to them.
#include <doctest/doctest.h>

#include <bit>
#include <cstring>
#include <random>

#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

namespace {

/// An integer of -2 to 2 in a type (u8 and u4: 0 to 3).
std::uint32_t encode(const std::string& type, int v) {
  const std::uint32_t sign = v < 0, magnitude = static_cast<std::uint32_t>(v < 0 ? -v : v);
  const auto floating = [&](std::uint32_t one, std::uint32_t two, int bits) {
    return (magnitude == 0 ? 0 : magnitude == 1 ? one : two) | sign << (bits - 1);
  };
  if (type == "f16") return floating(0x3c00, 0x4000, 16);
  if (type == "bf16") return floating(0x3f80, 0x4000, 16);
  if (type == "tf32") return floating(0x3f800000, 0x40000000, 32);
  if (type == "e4m3") return floating(0x38, 0x40, 8);
  if (type == "e5m2") return floating(0x3c, 0x40, 8);
  if (type == "s8" || type == "u8") return static_cast<std::uint32_t>(v) & 0xff;
  return static_cast<std::uint32_t>(v) & 0xf;
}
int bits_of(const std::string& type) {
  return type == "tf32" ? 32 : type.ends_with("16") ? 16 : type.ends_with("4") ? 4 : 8;
}

struct Sparse {
  int rows, k;
  std::vector<int> dense;        ///< rows x k
  std::vector<int> stored;       ///< rows x k / 2
  std::vector<unsigned> nibble;  ///< rows x chunks
  int chunks;
};
/// A random matrix of the sparsity that `type` has.
Sparse make_sparse(const std::string& type, int rows, int k, bool is_signed, std::mt19937& random) {
  const int bits = bits_of(type), wide = bits == 32 ? 2 : bits == 4 ? 8 : 4;
  Sparse s{rows, k, std::vector<int>(static_cast<std::size_t>(rows * k)), {}, {}, k / wide};
  const auto value = [&] {
    return is_signed ? static_cast<int>(random() % 5) - 2 : static_cast<int>(random() % 4);
  };
  for (int r = 0; r < rows; ++r)
    for (int q = 0; q < s.chunks; ++q) {
      const auto put = [&](int column) {
        const int v = value();
        s.dense[static_cast<std::size_t>(r * k + q * wide + column)] = v;
        s.stored.push_back(v);
      };
      if (wide == 2) {
        const int at = static_cast<int>(random() % 2);
        put(at);
        s.nibble.push_back(at == 0 ? 0x4 : 0xe);
        continue;
      }
      const int one = static_cast<int>(random() % 3),
                two = one + 1 + static_cast<int>(random() % (3u - static_cast<unsigned>(one)));
      s.nibble.push_back(static_cast<unsigned>(one | two << 2));
      for (const int index : {one, two})
        for (int i = 0; i < wide / 4; ++i) put(wide / 4 * index + i);
    }
  return s;
}

/// Registers of a warp, [register][lane]: stored elements of 16 rows from `first` on.
std::vector<std::uint32_t> fragment_a(const Sparse& s, int first, const std::string& type) {
  const int bits = bits_of(type), per = 32 / bits, stored = s.k / 2;
  std::vector<std::uint32_t> out(static_cast<std::size_t>(16 * stored / per));
  for (int r = 0; r < 16; ++r)
    for (int c = 0; c < stored; ++c) {
      const int lane = r % 8 * 4 + c / per % 4, reg = r / 8 + 2 * (c / (4 * per));
      out[static_cast<std::size_t>(reg * 32 + lane)] |=
          encode(type, s.stored[static_cast<std::size_t>((first + r) * stored + c)]) << (bits * (c % per));
    }
  return out;
}
/// As PTX's figures have it: with 16 and 32 bits, lane T of a quad holds 16 bits of row g and, above, of row g + 8; with
/// fewer, 32 bits of row g (even lanes) or g + 8 (odd ones).
std::vector<std::uint32_t> metadata(const Sparse& s, int first, const std::string& type, int selector) {
  std::vector<std::uint32_t> out(32, 0x12345678u);
  const bool halves = bits_of(type) >= 16;
  const int words = 16 * s.chunks * 4 / 32 / 8;  // a quad
  for (int g = 0; g < 8; ++g)
    for (int t = 0; t < words; ++t) {
      std::uint32_t word = 0;
      for (int q = 0; q < 8; ++q) {
        const int row = halves ? (q < 4 ? g : g + 8) : t % 2 == 0 ? g : g + 8;
        const int chunk = halves ? 4 * t + q % 4 : 8 * (t / 2) + q;
        word |= s.nibble[static_cast<std::size_t>((first + row) * s.chunks + chunk)] << (4 * q);
      }
      out[static_cast<std::size_t>(4 * g + selector * words + t)] = word;
    }
  return out;
}
std::vector<std::uint32_t> fragment_b(const std::vector<int>& b, int k, const std::string& type) {  // b[k][8]
  const int bits = bits_of(type), per = 32 / bits;
  std::vector<std::uint32_t> out(static_cast<std::size_t>(8 * k / per));
  for (int row = 0; row < k; ++row)
    for (int n = 0; n < 8; ++n)
      out[static_cast<std::size_t>(row / (4 * per) * 32 + n * 4 + row / per % 4)] |=
          encode(type, b[static_cast<std::size_t>(row * 8 + n)]) << (bits * (row % per));
  return out;
}

std::string list(char prefix, int first, std::size_t count) {
  std::string s = "{";
  for (std::size_t i = 0; i < count; ++i)
    s += (i != 0 ? "," : "") + ("%" + std::string(1, prefix)) + std::to_string(first + static_cast<int>(i));
  return s + "}";
}
/// Loads register `reg` + i from row i of the input, from row `from` on.
std::string loads(std::size_t count, int reg, std::size_t from) {
  std::string s;
  for (std::size_t i = 0; i < count; ++i)
    s += "ld.global.u32 %r" + std::to_string(reg + static_cast<int>(i)) + ", [%d1+" +
         std::to_string((from + i) * 128) + "];\n";
  return s;
}

struct SparseForm {
  std::string d, a, b;
  int k, selectors;
};
std::string check_form(const SparseForm& f, int selector, bool ordered, std::mt19937& random) {
  const bool is_signed = f.a[0] != 'u', b_signed = f.b[0] != 'u';
  const Sparse s = make_sparse(f.a, 16, f.k, is_signed, random);
  std::vector<int> b(static_cast<std::size_t>(f.k * 8));
  for (int& v : b) v = b_signed ? static_cast<int>(random() % 5) - 2 : static_cast<int>(random() % 4);
  const auto a_registers = fragment_a(s, 0, f.a), b_registers = fragment_b(b, f.k, f.b),
             meta = metadata(s, 0, f.a, selector);
  std::vector<std::uint32_t> input = a_registers;
  input.insert(input.end(), b_registers.begin(), b_registers.end());
  input.insert(input.end(), meta.begin(), meta.end());
  const std::size_t na = a_registers.size() / 32, nb = b_registers.size() / 32, nd = f.d == "f16" ? 2 : 4;
  std::string body = "mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %in;\n" + loads(na, 1, 0) +
                     loads(nb, 11, na) + loads(1, 21, na + nb);
  for (std::size_t i = 0; i < nd; ++i) body += "mov.b32 %r" + std::to_string(31 + i) + ", 0;\n";
  body += "mma." + std::string(ordered ? "sp::ordered_metadata" : "sp") + ".sync.aligned.m16n8k" +
          std::to_string(f.k) + ".row.col." + f.d + "." + f.a + "." + f.b + "." + f.d + " " +
          list('r', 31, nd) + "," + list('r', 1, na) + "," + list('r', 11, nb) + "," + list('r', 31, nd) +
          ", %r21, " + std::to_string(selector) + ";\n";
  for (std::size_t i = 0; i < nd; ++i)
    body += "st.global.u32 [%o+" + std::to_string(128 * i) + "], %r" + std::to_string(31 + i) + ";\n";
  const Outcome o = run(kernel(body), {.input = input});
  if (!o.text().empty()) return o.text();
  for (int r = 0; r < 16; ++r)
    for (int n = 0; n < 8; ++n) {
      int sum = 0;
      for (int k = 0; k < f.k; ++k)
        sum += s.dense[static_cast<std::size_t>(r * f.k + k)] * b[static_cast<std::size_t>(k * 8 + n)];
      const int lane = r % 8 * 4 + n / 2, i = n % 2 + 2 * (r / 8);
      const std::uint32_t word = o.out[static_cast<std::size_t>((f.d == "f16" ? i / 2 : i) * 32 + lane)];
      double got = 0;
      if (f.d == "s32")
        got = static_cast<std::int32_t>(word);
      else if (f.d == "f32")
        got = std::bit_cast<float>(word);
      else {
        const std::uint32_t h = word >> (16 * (i % 2)) & 0xffff;  // small integers: normal numbers
        got = (h & 0x7fff) == 0
                  ? 0
                  : std::bit_cast<float>(((h & 0x8000) << 16) | (((h & 0x7fff) << 13) + (112u << 23)));
      }
      if (got != sum)
        return "row " + std::to_string(r) + ", column " + std::to_string(n) + ": " + std::to_string(got) +
               ", not " + std::to_string(sum);
    }
  return {};
}

std::vector<SparseForm> forms() {
  std::vector<SparseForm> out;
  for (const auto& [k, n] : {std::pair{16, 4}, {32, 2}}) {
    out.push_back({"f32", "f16", "f16", k, n});
    out.push_back({"f16", "f16", "f16", k, n});
    out.push_back({"f32", "bf16", "bf16", k, n});
    out.push_back({"f32", "tf32", "tf32", k / 2, n});
  }
  for (const char* a : {"e4m3", "e5m2"})
    for (const char* b : {"e4m3", "e5m2"})
      for (const char* d : {"f32", "f16"}) out.push_back({d, a, b, 64, 1});
  for (const char* a : {"s8", "u8"})
    for (const char* b : {"s8", "u8"})
      for (const int k : {32, 64}) out.push_back({"s32", a, b, k, 64 / k});
  for (const char* a : {"s4", "u4"})
    for (const char* b : {"s4", "u4"})
      for (const int k : {64, 128}) out.push_back({"s32", a, b, k, 128 / k});
  return out;
}

/// wgmma.mma_async.sp of 64 x 8, A in registers: what is wrong, or nothing.
std::string check_warpgroup(const SparseForm& f, int selector, std::mt19937& random) {
  const bool is_signed = f.a[0] != 'u', b_signed = f.b[0] != 'u';
  const int b_bytes = bits_of(f.b) / 8;
  const Sparse s = make_sparse(f.a, 64, f.k, is_signed, random);
  std::vector<int> b(static_cast<std::size_t>(f.k * 8));
  for (int& v : b) v = b_signed ? static_cast<int>(random() % 5) - 2 : static_cast<int>(random() % 4);
  // Of each warp four registers of A and one of metadata; then B as core matrices of 8 x 16 bytes.
  std::vector<std::uint32_t> input;
  for (int warp = 0; warp < 4; ++warp)
    for (const auto& part : {fragment_a(s, 16 * warp, f.a), metadata(s, 16 * warp, f.a, selector)})
      input.insert(input.end(), part.begin(), part.end());
  std::vector<std::uint8_t> matrix(512);
  for (int k = 0; k < f.k; ++k)
    for (int n = 0; n < 8; ++n) {
      const std::uint32_t v = encode(f.b, b[static_cast<std::size_t>(k * 8 + n)]);
      const int at = k * b_bytes / 16 * 128 + n * 16 + k * b_bytes % 16;
      std::memcpy(matrix.data() + at, &v, static_cast<std::size_t>(b_bytes));
    }
  const std::size_t before = input.size();
  input.resize(before + 128);
  std::memcpy(input.data() + before, matrix.data(), 512);
  std::string body =
      "mov.u32 %r60, %r1; mov.u32 %r61, %r3; mov.u32 %r62, %r4; shr.u32 %r50, %t, 5; mul.lo.u32 %r50, %r50, 640; and.b32 %r51, %t, 31; shl.b32 %r51, %r51, 2;\n"
      "add.u32 %r50, %r50, %r51; cvt.u64.u32 %d1, %r50; add.u64 %d1, %d1, %in;\n" +
      loads(4, 11, 0) + loads(1, 21, 4) + "add.u64 %d2, %in, " + std::to_string(before * 4) +
      "; cvt.u64.u32 %d3, %r62; add.u64 %d2, %d2, %d3; ld.global.u32 %r52, [%d2]; st.shared.u32 [%r60], %r52;\n"
      "fence.proxy.async; bar.sync 0; shr.u32 %r53, %r61, 4; cvt.u64.u32 %d4, %r53;\n"
      "mov.b64 %d5, 0x0000000800080000; or.b64 %d4, %d4, %d5; mov.b32 %r31, 0; mov.b32 %r32, 0; mov.b32 %r33, 0; "
      "mov.b32 %r34, 0;\n"
      "wgmma.fence.sync.aligned; setp.ne.u32 %p3, %t, %t;\n"
      "wgmma.mma_async.sp.sync.aligned.m64n8k" +
      std::to_string(f.k) + "." + f.d + "." + f.a + "." + f.b + " " + list('r', 31, 4) + ", " +
      list('r', 11, 4) + ", %d4, %r21, " + std::to_string(selector) + ", %p3" +
      (f.d == "s32"           ? ""
       : f.a.ends_with("f16") ? ", 1, 1, 0"
                              : ", 1, 1") +
      ";\nwgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n";
  for (int i = 0; i < 4; ++i)
    body += "st.global.u32 [%o+" + std::to_string(512 * i) + "], %r" + std::to_string(31 + i) + ";\n";
  const Outcome o = run(shared_kernel(body), {.block = {128, 1, 1}, .input = input});
  if (!o.text().empty()) return o.text();
  for (int r = 0; r < 64; ++r)
    for (int n = 0; n < 8; ++n) {
      int sum = 0;
      for (int k = 0; k < f.k; ++k)
        sum += s.dense[static_cast<std::size_t>(r * f.k + k)] * b[static_cast<std::size_t>(k * 8 + n)];
      const int thread = r / 16 * 32 + r % 8 * 4 + n / 2, i = n % 2 + 2 * (r / 8 % 2);
      const std::uint32_t word = o.out[static_cast<std::size_t>(i * 128 + thread)];
      const double got = f.d == "s32" ? static_cast<double>(static_cast<std::int32_t>(word))
                                      : static_cast<double>(std::bit_cast<float>(word));
      if (got != sum)
        return "row " + std::to_string(r) + ", column " + std::to_string(n) + ": " + std::to_string(got) +
               ", not " + std::to_string(sum);
    }
  return {};
}

/// Two warps' worth of a small mma.sp, whose metadata register `declare` sets.
Outcome small(const std::string& metadata_of, const std::string& variant) {
  return run(
      kernel(metadata_of +
             "mov.b32 %r2, 0x3c003c00; mov.b32 %r3, 0x3c003c00; mov.f32 %f1, 0f00000000;\n"
             "mma." +
             variant +
             ".sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f5,%f6,%f7,%f8}, {%r2,%r3}, "
             "{%r2,%r3}, {%f1,%f1,%f1,%f1}, %r1, 0;\nst.global.f32 [%o], %f5; st.global.f32 [%o+128], %f7;"));
}

}  // namespace

TEST_CASE("mma.sp multiplies the elements that the metadata name") {
  std::mt19937 random(7);
  for (const SparseForm& f : forms())
    for (int selector = 0; selector < f.selectors; ++selector)
      for (const bool ordered : {false, true}) {
        INFO(f.d << " " << f.a << " " << f.b << " k " << f.k << " selector " << selector);
        CHECK(check_form(f, selector, ordered, random) == "");
      }
}

TEST_CASE("wgmma.mma_async.sp multiplies the elements that the metadata name") {
  std::mt19937 random(8);
  std::vector<SparseForm> all = {
      {"f32", "f16", "f16", 32, 2}, {"f32", "bf16", "bf16", 32, 2}, {"f32", "tf32", "tf32", 16, 2}};
  for (const char* a : {"e4m3", "e5m2"})
    for (const char* b : {"e4m3", "e5m2"}) all.push_back({"f32", a, b, 64, 1});
  for (const char* a : {"s8", "u8"})
    for (const char* b : {"s8", "u8"}) all.push_back({"s32", a, b, 64, 1});
  for (const SparseForm& f : all)
    for (int selector = 0; selector < f.selectors; ++selector) {
      INFO(f.d << " " << f.a << " " << f.b << " selector " << selector);
      CHECK(check_warpgroup(f, selector, random) == "");
    }
}

TEST_CASE("metadata that mean nothing") {
  clean(small("mov.b32 %r1, 0x44444444;\n", "sp"));
  clean(small("mov.b32 %r1, 0x44444444;\n", "sp::ordered_metadata"));
  finds("bad-metadata", small("mov.b32 %r1, 0x44444044;\n", "sp"));
  clean(small("mov.b32 %r1, 0x44441444;\n", "sp"));  // 1, then 0: a pair in the other order
  finds("bad-metadata", small("mov.b32 %r1, 0x44441444;\n", "sp::ordered_metadata"));
}

TEST_CASE("metadata nobody wrote") {
  finds("uninitialized-register", small("", "sp"));
  // Selector 0: only every fourth lane's count.
  clean(small("and.b32 %r9, %t, 3; setp.eq.u32 %p1, %r9, 0; @%p1 mov.b32 %r1, 0x44444444;\n", "sp"));
}
