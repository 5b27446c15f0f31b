// MFMA: register layouts against the recorded tables, results against plain sums over those tables.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "emulator/amdgcn/ops/matrix.hpp"
#include "emulator/amdgcn/ops/minifloat.hpp"
#include "emulator/tensor/numeric.hpp"
#include "harness.hpp"

using namespace amd_test;
using amd::Coordinate;
using amd::MatrixShape;
using amd::Mini;

namespace {

struct Recorded {
  std::string arch, name, type_a, type_b;
  int m, n, k, blocks, a, b, d;
};
using Table = std::vector<std::vector<Coordinate>>;  // [lane][element]

struct Facts {
  std::vector<Recorded> instructions;
  std::map<int, Table> tables;
};

Facts read_facts() {
  std::ifstream in(std::string(KILN_SOURCE_DIR) + "/tests/data/mfma_layouts.json");
  REQUIRE(in.good());
  const auto json = nlohmann::json::parse(in);
  Facts facts;
  for (const auto& i : json.at("instructions")) {
    facts.instructions.push_back({i.at("arch"), i.at("isa"), i.at("in_a"), i.at("in_b"), i.at("M"), i.at("N"),
                                  i.at("K"), i.at("blocks"), i.at("A"), i.at("B"), i.at("D")});
  }
  int number = 0;
  for (const auto& table : json.at("tables")) {
    Table& lanes = facts.tables[number++];
    for (const auto& lane : table) {
      auto& elements = lanes.emplace_back();
      for (const auto& e : lane)
        elements.push_back({e.at(0), e.at(1), e.size() > 2 ? e.at(2).get<int>() : 0});
    }
  }
  return facts;
}

const MatrixShape& shape_of(const std::string& name) {
  for (const MatrixShape& s : amd::matrix_shapes()) {
    if (s.name == name) return s;
  }
  FAIL("no shape " << name);
  throw 0;
}

struct Type {
  int bits;
  float (*decode)(std::uint32_t);
};
Type type_of(const std::string& name) {
  if (name == "bf16")
    return {16, [](std::uint32_t x) { return emu::bf16_to_f32(static_cast<std::uint16_t>(x)); }};
  if (name == "fp16")
    return {16, [](std::uint32_t x) { return emu::f16_to_f32(static_cast<std::uint16_t>(x)); }};
  if (name == "amd_fp8")
    return {8,
            [](std::uint32_t x) { return amd::mini_to_f32(Mini::e4m3fnuz, static_cast<std::uint8_t>(x)); }};
  if (name == "amd_bf8")
    return {8,
            [](std::uint32_t x) { return amd::mini_to_f32(Mini::e5m2fnuz, static_cast<std::uint8_t>(x)); }};
  if (name == "fp8")
    return {8, [](std::uint32_t x) { return amd::mini_to_f32(Mini::e4m3, static_cast<std::uint8_t>(x)); }};
  if (name == "bf8")
    return {8, [](std::uint32_t x) { return amd::mini_to_f32(Mini::e5m2, static_cast<std::uint8_t>(x)); }};
  if (name == "fp6")
    return {6, [](std::uint32_t x) { return amd::mini_to_f32(Mini::e2m3, static_cast<std::uint8_t>(x)); }};
  if (name == "bf6")
    return {6, [](std::uint32_t x) { return amd::mini_to_f32(Mini::e3m2, static_cast<std::uint8_t>(x)); }};
  REQUIRE(name == "fp4");
  return {4, [](std::uint32_t x) { return amd::mini_to_f32(Mini::e2m1, static_cast<std::uint8_t>(x)); }};
}

/// A random pattern of the type whose value is small and not special.
std::uint32_t random_element(Random& r, const std::string& type) {
  const Type t = type_of(type);
  for (;;) {
    const std::uint32_t x =
        t.bits == 16 ? (type == "bf16" ? 0x3f00 : 0x3800) + r.next() % 0x300 + (r.next() & 1) * 0x8000
                     : r.next() % (1U << t.bits);
    const float v = t.decode(x);
    if (std::isfinite(v) && std::fabs(v) <= 8) return x;
  }
}

/// Per lane 64 words in: A (0..7), B (8..15), C (16..47), scales (48, 49); out: D where C was.
std::string kernel_body(const std::string& instruction) {
  std::ostringstream s;
  s << "v_lshlrev_b32 v1, 8, v0\n";
  for (int i = 0; i < 12; ++i)
    s << "global_load_dwordx4 v[" << 8 + 4 * i << ":" << 11 + 4 * i << "], v1, s[2:3] offset:" << 16 * i
      << "\n";
  s << "global_load_dwordx2 v[56:57], v1, s[2:3] offset:192\ns_waitcnt vmcnt(0)\n"
    << instruction << "\ns_nop 15\ns_nop 15\n";
  for (int i = 0; i < 8; ++i)
    s << "global_store_dwordx4 v1, v[" << 24 + 4 * i << ":" << 27 + 4 * i
      << "], s[4:5] offset:" << 64 + 16 * i << "\n";
  return s.str();
}
std::string registers(int first, int bits, int elements) {
  return "v[" + std::to_string(first) + ":" + std::to_string(first + bits * elements / 32 - 1) + "]";
}

using Where = std::function<Coordinate(int lane, int e)>;

/// Runs one instruction on random operands and checks every result against the sum that the coordinates
/// demand.
void check_instruction(const std::string& target, const std::string& text, const MatrixShape& shape,
                       const std::string& type_a, const std::string& type_b, const Where& a_at,
                       const Where& b_at, const Where& d_at, bool scaled = false) {
  CAPTURE(target);
  CAPTURE(text);
  const Type ta = type_of(type_a), tb = type_of(type_b);
  Random random(static_cast<std::uint64_t>(shape.m * 1000 + shape.k));
  std::vector<std::uint32_t> words(64 * 64);
  const auto m = static_cast<std::size_t>(shape.m), n = static_cast<std::size_t>(shape.n),
             k = static_cast<std::size_t>(shape.k), blocks = static_cast<std::size_t>(shape.blocks);
  std::vector<double> a(blocks * m * k), b(blocks * k * n), c(blocks * m * n);
  const auto put = [&](std::size_t lane, int first, int e, int bits, std::uint32_t value) {
    for (int i = 0; i < bits; ++i) {
      if (value >> i & 1)
        words[lane * 64 + static_cast<std::size_t>(first + (e * bits + i) / 32)] |= 1U << (e * bits + i) % 32;
    }
  };
  for (int lane = 0; lane < 64; ++lane) {
    for (int e = 0; e < shape.elements(); ++e) {
      const auto x = random_element(random, type_a), y = random_element(random, type_b);
      put(static_cast<std::size_t>(lane), 0, e, ta.bits, x);
      put(static_cast<std::size_t>(lane), 8, e, tb.bits, y);
      const Coordinate ca = a_at(lane, e), cb = b_at(lane, e);
      a[(static_cast<std::size_t>(ca.block) * m + static_cast<std::size_t>(ca.row)) * k +
        static_cast<std::size_t>(ca.column)] = ta.decode(x);
      b[(static_cast<std::size_t>(cb.block) * k + static_cast<std::size_t>(cb.row)) * n +
        static_cast<std::size_t>(cb.column)] = tb.decode(y);
    }
    for (int e = 0; e < shape.results(); ++e) {
      const float x = random.unit();
      words[static_cast<std::size_t>(lane * 64 + 16 + e)] = std::bit_cast<std::uint32_t>(x);
      const Coordinate cd = d_at(lane, e);
      c[(static_cast<std::size_t>(cd.block) * m + static_cast<std::size_t>(cd.row)) * n +
        static_cast<std::size_t>(cd.column)] = x;
    }
    // Scale bytes: exponents 126..129, another in each byte.
    for (std::size_t s = 0; s < 2; ++s) {
      std::uint32_t word = 0;
      for (int byte = 0; byte < 4; ++byte) word |= (126 + random.next() % 4) << 8 * byte;
      words[static_cast<std::size_t>(lane) * 64 + 48 + s] = word;
    }
  }
  if (scaled) {  // opsel 1 for A, 2 for B; the lane's row and the 32 k of its group
    for (std::size_t lane = 0; lane < 64; ++lane) {
      const auto factor = [&](std::size_t s, int byte) {
        return std::ldexp(1.0, static_cast<int>(words[lane * 64 + 48 + s] >> 8 * byte & 0xff) - 127);
      };
      for (std::size_t kk = lane / m * 32; kk < lane / m * 32 + 32; ++kk) {
        a[lane % m * k + kk] *= factor(0, 1);
        b[kk * n + lane % n] *= factor(1, 2);
      }
    }
  }
  const amd::Module module = kernel_from_assembly(kernel_body(text), target);
  Device d;
  const auto in = d.upload(words, "in"), out = d.upload(words, "out");
  const auto report = amd::launch(d.memory, module, launch_of({}, {64, 1, 1}, {arg(in), arg(out)}));
  CHECK_MESSAGE(report.findings.empty(), describe(report));
  const auto got = d.download<float>(out, 64 * 64);
  for (int lane = 0; lane < 64; ++lane) {
    for (int e = 0; e < shape.results(); ++e) {
      const Coordinate cd = d_at(lane, e);
      const auto block = static_cast<std::size_t>(cd.block), row = static_cast<std::size_t>(cd.row),
                 column = static_cast<std::size_t>(cd.column);
      double want = c[(block * m + row) * n + column];
      for (std::size_t kk = 0; kk < k; ++kk)
        want += a[(block * m + row) * k + kk] * b[(block * k + kk) * n + column];
      CAPTURE(lane);
      CAPTURE(e);
      REQUIRE(static_cast<double>(got[static_cast<std::size_t>(lane * 64 + 16 + e)]) ==
              doctest::Approx(want).epsilon(1e-5).scale(10));
    }
  }
}

}  // namespace

TEST_CASE("matrix layouts equal the recorded ones") {
  const Facts facts = read_facts();
  REQUIRE(facts.instructions.size() == 28);
  const auto equal = [](const Coordinate& x, const Coordinate& y) {
    return x.row == y.row && x.column == y.column && x.block == y.block;
  };
  for (const Recorded& r : facts.instructions) {
    CAPTURE(r.name);
    const MatrixShape& s = shape_of(r.name);
    REQUIRE(s.m == r.m);
    REQUIRE(s.n == r.n);
    REQUIRE(s.k == r.k);
    REQUIRE(s.blocks == r.blocks);
    const Table &a = facts.tables.at(r.a), &b = facts.tables.at(r.b), &d = facts.tables.at(r.d);
    for (int lane = 0; lane < 64; ++lane) {
      const auto l = static_cast<std::size_t>(lane);
      REQUIRE(static_cast<int>(a[l].size()) == s.elements());
      REQUIRE(static_cast<int>(d[l].size()) == s.results());
      for (int e = 0; e < s.elements(); ++e) {
        REQUIRE(equal(a[l][static_cast<std::size_t>(e)], amd::a_coordinate(s, lane, e)));
        REQUIRE(equal(b[l][static_cast<std::size_t>(e)], amd::b_coordinate(s, lane, e)));
      }
      for (int e = 0; e < s.results(); ++e)
        REQUIRE(equal(d[l][static_cast<std::size_t>(e)], amd::d_coordinate(s, lane, e)));
    }
  }
}

TEST_CASE("matrix instructions compute what the recorded layouts say") {
  if (!toolchain()) return;
  const Facts facts = read_facts();
  for (const Recorded& r : facts.instructions) {
    const MatrixShape& s = shape_of(r.name);
    const auto at = [&](int table) -> Where {
      return [&facts, table](int lane, int e) {
        return facts.tables.at(table)[static_cast<std::size_t>(lane)][static_cast<std::size_t>(e)];
      };
    };
    const std::string d = registers(24, 32, s.results());
    check_instruction(r.arch,
                      r.name + " " + d + ", " + registers(8, type_of(r.type_a).bits, s.elements()) + ", " +
                          registers(16, type_of(r.type_b).bits, s.elements()) + ", " + d,
                      s, r.type_a, r.type_b, at(r.a), at(r.b), at(r.d));
  }
}

TEST_CASE("matrix instructions of gfx950 follow the derived layouts") {
  if (!toolchain()) return;
  const auto d_at = [](int size) -> Where {
    return [size](int l, int e) {
      return size == 32 ? Coordinate{8 * (e / 4) + 4 * (l / 32) + e % 4, l % 32, 0}
                        : Coordinate{4 * (l / 16) + e, l % 16, 0};
    };
  };
  // k owned by lane group g: one run of `run` values, or two that lie half of K apart.
  const auto a_at = [](int size, int k, int run) -> Where {
    return [=](int l, int e) {
      return Coordinate{l % size, k / 2 * (e / run) * (run == 16) + run * (l / size) + e % run, 0};
    };
  };
  const auto b_at = [&](int size, int k, int run) -> Where {
    const Where a = a_at(size, k, run);
    return [a](int l, int e) {
      const Coordinate c = a(l, e);
      return Coordinate{c.column, c.row, 0};
    };
  };
  const auto check = [&](const std::string& name, const std::string& type_a, const std::string& type_b,
                         const std::string& suffix, bool scaled) {
    const MatrixShape& s = shape_of(name);
    const bool f8f6f4 = name.find("f8f6f4") != std::string::npos;
    const auto run = [&](const std::string& type) { return !f8f6f4 ? 8 : type_of(type).bits == 8 ? 16 : 32; };
    const std::string d = registers(24, 32, s.results());
    check_instruction("gfx950",
                      name + " " + d + ", " + registers(8, type_of(type_a).bits, s.elements()) + ", " +
                          registers(16, type_of(type_b).bits, s.elements()) + ", " + d + suffix,
                      s, type_a, type_b, a_at(s.m, s.k, run(type_a)), b_at(s.m, s.k, run(type_b)), d_at(s.m),
                      scaled);
  };
  check("v_mfma_f32_32x32x16_bf16", "bf16", "bf16", "", false);
  check("v_mfma_f32_16x16x32_bf16", "bf16", "bf16", "", false);
  check("v_mfma_f32_32x32x16_f16", "fp16", "fp16", "", false);
  check("v_mfma_f32_16x16x32_f16", "fp16", "fp16", "", false);
  check("v_mfma_f32_32x32x16_fp8_bf8", "fp8", "bf8", "", false);  // OCP here
  check("v_mfma_f32_16x16x32_fp8_fp8", "fp8", "fp8", "", false);
  const char* types[] = {"fp8", "bf8", "fp6", "bf6", "fp4"};
  for (int a = 0; a < 5; ++a) {
    const int b = (a * 2 + 1) % 5;
    const std::string formats =
        (a ? " cbsz:" + std::to_string(a) : "") + (b ? " blgp:" + std::to_string(b) : "");
    for (const char* name : {"32x32x64_f8f6f4", "16x16x128_f8f6f4"}) {
      check(std::string("v_mfma_f32_") + name, types[a], types[b], formats, false);
      check(std::string("v_mfma_scale_f32_") + name, types[a], types[b],
            ", v56, v57 op_sel:[1,0,0] op_sel_hi:[0,1,0]" + formats, true);
    }
  }
}

TEST_CASE("an undefined row of A makes exactly its row of D undefined") {
  if (!toolchain()) return;
  // Lane 5 of A is never written: row 5 of D, register 1 of lanes 16..31.
  const auto run = [](int lane_stored) {
    const std::string body = R"(
      v_mov_b32 v2, 0
      v_mov_b32 v3, 0
      s_mov_b32 exec_lo, 0xffffffdf
      v_mov_b32 v4, 0
      v_mov_b32 v5, 0
      s_mov_b64 exec, -1
      v_mfma_f32_16x16x16f16 v[8:11], v[4:5], v[2:3], 0
      s_nop 15
      v_lshlrev_b32 v1, 2, v0
      s_mov_b64 exec, )" + std::to_string(1LL << lane_stored) +
                             R"(
      global_store_dword v1, v9, s[4:5])";
    Device d;
    const auto out = d.reserve<float>(64, "out");
    return amd::launch(d.memory, kernel_from_assembly(body, "gfx942"),
                       launch_of({}, {64, 1, 1}, {arg(out), arg(out)}));
  };
  CHECK(run(3).findings.empty());
  const auto report = run(17);
  CHECK_MESSAGE(has_finding(report, "uninitialized-register"), describe(report));
}
