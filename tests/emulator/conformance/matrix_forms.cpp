// mma.sync in every shape and type, ldmatrix and stmatrix.
#include <cstring>

#include "tests/emulator/conformance/matrix_inputs.hpp"
#include "tests/emulator/conformance/suite.hpp"

namespace conformance {

namespace {

struct Shape {
  int m, k;
  std::string a, b, d;  ///< element types
  std::string suffix;   ///< after the types: ".xor.popc" and the like
  bool satfinite = false;
};

int element_bits(const std::string& type) {
  if (type == "b1") return 1;
  if (type == "s4" || type == "u4") return 4;
  if (type == "e4m3" || type == "e5m2" || type == "s8" || type == "u8") return 8;
  if (type == "f16" || type == "bf16") return 16;
  return type == "f64" ? 64 : 32;
}

std::string list(char name, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += std::string(i ? ", " : "") + "%" + name + std::to_string(i);
  return text + "}";
}

/// Bound of the accumulation: each of the k + 1 terms may lose what lies below the accumulator's last place.
/// Terms are at most 1 and C at most 1, so sums stay below k + 1. Tensor cores truncate; for fp8 they keep
/// about 13 bits below the largest term.
Bound accumulation_bound(const Shape& s, Fill fill) {
  if (fill == Fill::exact || fill == Fill::special || element_bits(s.a) < 8 || s.a == "s8" || s.a == "u8" ||
      s.a == "f64")
    return {};
  const bool fp8 = s.a == "e4m3" || s.a == "e5m2";
  const double ulp = fp8 ? 0x1p-13 : 0x1p-23;
  if (s.d == "f16") return {Bound::Kind::f16, 2 * (s.k + 1) * ulp, 0x1p-9};
  return {Bound::Kind::f32, 2 * (s.k + 1) * ulp, 0};
}

void add_mma(std::vector<Case>& cases, const Shape& s, Fill fill, const char* fill_name) {
  const bool wide = s.a == "f64";
  const int unit = wide ? 64 : 32;  // bits of a register
  const int a = s.m * s.k * element_bits(s.a) / 32 / unit, b = 8 * s.k * element_bits(s.b) / 32 / unit;
  const int d = s.m * 8 * element_bits(s.d) / 32 / unit;
  const std::string width = std::to_string(unit), step = std::to_string(unit / 8);
  const std::string name = "mma.sync.aligned.m" + std::to_string(s.m) + "n8k" + std::to_string(s.k) +
                           ".row.col" + (s.satfinite ? ".satfinite" : "") + "." + s.d + "." + s.a + "." +
                           s.b + "." + s.d + s.suffix;
  Case c;
  c.name = "mma/" + name + " " + fill_name;
  c.threads = 32;
  c.bound = accumulation_bound(s, fill);
  std::string text =
      ".visible .entry ENTRY(.param .u64 p_in, .param .u64 p_out) {\n  .reg .b64 %in, %out;\n  .reg .b32 "
      "%tx;\n";
  const auto declare = [&](char reg, int count) {
    text += "  .reg .b" + width + " %" + reg + "<" + std::to_string(count) + ">;\n";
  };
  declare('a', a);
  declare('b', b);
  declare('c', d);
  declare('d', d);
  text += "  ld.param.u64 %in, [p_in];\n  ld.param.u64 %out, [p_out];\n  mov.u32 %tx, %tid.x;\n";
  text += "  mad.wide.u32 %in, %tx, " + step + ", %in;\n  mad.wide.u32 %out, %tx, " + step + ", %out;\n";
  int slot = 0;
  const auto load = [&](char reg, int count) {
    for (int i = 0; i < count; ++i, ++slot) {
      text += "  ld.global.b" + width + " %" + reg + std::to_string(i) + ", [%in+" +
              std::to_string(slot * 4 * unit) + "];\n";
    }
  };
  load('a', a);
  load('b', b);
  load('c', d);
  text += "  " + name + " " + list('d', d) + ", " + list('a', a) + ", " + list('b', b) + ", " + list('c', d) +
          ";\n";
  for (int i = 0; i < d; ++i)
    text += "  st.global.b" + width + " [%out+" + std::to_string(i * 4 * unit) + "], %d" + std::to_string(i) +
            ";\n";
  c.kernel = text + "  ret;\n}\n";

  Random random(seed_of(c.name));
  const auto push = [&](const std::string& type, int count, Fill how) {
    for (int i = 0; i < count * 32; ++i) {
      std::uint64_t bits = 0;
      if (wide) {
        const double value = how == Fill::exact
                                 ? static_cast<int>(random.below(9)) - 4
                                 : static_cast<double>(static_cast<std::int64_t>(random.next())) * 0x1p-63;
        std::memcpy(&bits, &value, sizeof bits);
      } else {
        bits = matrix_word(type, how, random);
      }
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(&bits);
      c.input.insert(c.input.end(), bytes, bytes + unit / 8);
    }
  };
  push(s.a, a, fill);
  push(s.b, b, fill == Fill::subnormal ? Fill::exact : fill);
  push(s.d, d, fill == Fill::random ? Fill::random : Fill::exact);
  c.output.resize(static_cast<std::size_t>(d * 4 * unit));
  cases.push_back(std::move(c));
}

void add_all_mma(std::vector<Case>& cases) {
  std::vector<Shape> floats, integers;
  for (const int k : {8, 16}) {
    floats.push_back({16, k, "f16", "f16", "f32", ""});
    floats.push_back({16, k, "f16", "f16", "f16", ""});
    floats.push_back({16, k, "bf16", "bf16", "f32", ""});
    floats.push_back({16, k / 2, "tf32", "tf32", "f32", ""});
    for (const char* a : {"e4m3", "e5m2"}) {
      for (const char* b : {"e4m3", "e5m2"}) {
        for (const char* d : {"f32", "f16"}) floats.push_back({16, 2 * k, a, b, d, ""});
      }
    }
  }
  for (const Shape& s : floats) {
    add_mma(cases, s, Fill::exact, "exact");
    add_mma(cases, s, Fill::random, "random");
    add_mma(cases, s, Fill::special, "special");
    add_mma(cases, s, Fill::subnormal, "subnormal");
  }
  for (const bool satfinite : {false, true}) {
    for (const auto& [first, second] : {std::pair{"s8", "u8"}, std::pair{"s4", "u4"}}) {
      const int unit = std::string(first) == "s8" ? 16 : 32;
      for (const char* a : {first, second}) {
        for (const char* b : {first, second}) {
          integers.push_back({8, unit, a, b, "s32", "", satfinite});
          integers.push_back({16, unit, a, b, "s32", "", satfinite});
          integers.push_back({16, 2 * unit, a, b, "s32", "", satfinite});
        }
      }
    }
  }
  for (const char* op : {".xor.popc", ".and.popc"}) {
    integers.push_back({8, 128, "b1", "b1", "s32", op});
    integers.push_back({16, 128, "b1", "b1", "s32", op});
    integers.push_back({16, 256, "b1", "b1", "s32", op});
  }
  for (const Shape& s : integers) add_mma(cases, s, Fill::exact, "random");
  for (const auto& [m, k] : {std::pair{8, 4}, std::pair{16, 4}, std::pair{16, 8}, std::pair{16, 16}}) {
    add_mma(cases, {m, k, "f64", "f64", "f64", ""}, Fill::exact, "exact");
    add_mma(cases, {m, k, "f64", "f64", "f64", ""}, Fill::random, "random");
  }
}

/// ldmatrix and stmatrix through shuffled row addresses in 1 KiB of shared memory.
void add_matrix_moves(std::vector<Case>& cases) {
  for (const bool store : {false, true}) {
    for (const int count : {1, 2, 4}) {
      for (const char* trans : {"", ".trans"}) {
        const std::string name = std::string(store ? "stmatrix" : "ldmatrix") + ".sync.aligned.m8n8.x" +
                                 std::to_string(count) + trans + ".shared.b16";
        Case c;
        c.name = "matrix move/" + name;
        c.threads = 32;
        std::string text =
            ".visible .entry ENTRY(.param .u64 p_in, .param .u64 p_out) {\n  .reg .b64 %in, %out;\n"
            "  .reg .b32 %tx, %s, %row, %t<8>, %r<4>;\n  .shared .align 16 .b8 tile[1024];\n"
            "  ld.param.u64 %in, [p_in];\n  ld.param.u64 %out, [p_out];\n  mov.u32 %tx, %tid.x;\n  mov.u32 "
            "%s, tile;\n"
            // Lane l names row (5 l + 3) mod 64 of 16 bytes: rows in no order.
            "  mad.lo.u32 %row, %tx, 5, 3;\n  and.b32 %row, %row, 63;\n  mad.lo.u32 %row, %row, 16, %s;\n"
            "  mad.wide.u32 %in, %tx, 4, %in;\n  mad.wide.u32 %out, %tx, 4, %out;\n  mad.lo.u32 %s, %tx, "
            "4, %s;\n";
        for (int i = 0; i < 8; ++i) {
          const std::string n = std::to_string(i), at = std::to_string(i * 128);
          text += "  ld.global.b32 %t" + n + ", [%in+" + at + "];\n  st.shared.b32 [%s+" + at + "], %t" + n +
                  ";\n";
        }
        text += "  bar.sync 0;\n";
        if (store) {
          for (int i = 0; i < count; ++i)
            text += "  ld.global.b32 %r" + std::to_string(i) + ", [%in+" + std::to_string(1024 + i * 128) +
                    "];\n";
          text += "  " + name + " [%row], " + list('r', count) + ";\n  bar.sync 0;\n";
          for (int i = 0; i < 8; ++i) {
            const std::string n = std::to_string(i), at = std::to_string(i * 128);
            text += "  ld.shared.b32 %t" + n + ", [%s+" + at + "];\n  st.global.b32 [%out+" + at + "], %t" +
                    n + ";\n";
          }
        } else {
          text += "  " + name + " " + list('r', count) + ", [%row];\n";
          for (int i = 0; i < count; ++i)
            text += "  st.global.b32 [%out+" + std::to_string(i * 128) + "], %r" + std::to_string(i) + ";\n";
        }
        c.kernel = text + "  ret;\n}\n";
        Random random(seed_of(c.name));
        for (int i = 0; i < 1024 + 512; ++i) c.input.push_back(static_cast<std::uint8_t>(random.next()));
        c.output.resize(store ? 1024 : static_cast<std::size_t>(count * 128));
        cases.push_back(std::move(c));
      }
    }
  }
}

}  // namespace

void add_matrix_forms(std::vector<Case>& cases) {
  add_all_mma(cases);
  add_matrix_moves(cases);
}

}  // namespace conformance
