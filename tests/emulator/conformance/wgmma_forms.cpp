// wgmma: types, shapes, major modes, swizzles, offsets. Shared memory is filled with elements throughout, so
// that a descriptor may point anywhere in it and the product shows which bytes the hardware read.
#include "tests/emulator/conformance/matrix_inputs.hpp"
#include "tests/emulator/conformance/suite.hpp"

namespace conformance {

namespace {

constexpr unsigned kImageBytes = 64 * 1024;  ///< A's operand starts in the first half, B's in the second

struct Descriptor {
  unsigned start = 0, leading = 0, stride = 0, base_offset = 0;
  int layout = 1;  ///< 0 none, 1 128B, 2 64B, 3 32B

  std::uint64_t bits() const {
    return (start >> 4) | static_cast<std::uint64_t>(leading >> 4) << 16 |
           static_cast<std::uint64_t>(stride >> 4) << 32 | static_cast<std::uint64_t>(base_offset) << 49 |
           static_cast<std::uint64_t>(layout) << 62;
  }
};

struct WgmmaForm {
  std::string a = "bf16", b = "bf16", d = "f32";
  int n = 16;
  bool a_in_registers = false;
  int trans_a = 0, trans_b = 0, scale_a = 1, scale_b = 1;
  int scale_d = 1;
  bool satfinite = false;
  Descriptor desc_a{0, 16, 1024}, desc_b{32768, 16, 1024};
  Fill fill = Fill::exact;
  std::string note;
};

bool is_integer(const WgmmaForm& f) {
  return f.d == "s32";
}
bool is_half(const std::string& type) {
  return type == "f16" || type == "bf16";
}

/// See accumulation_bound of mma.sync: terms at most 1, k terms and D.
Bound bound_of(const WgmmaForm& f, int k) {
  if (f.fill == Fill::exact || is_integer(f)) return {};
  if (f.fill == Fill::special) {
    // The largest e4m3 exponent is no infinity but 256: of small terms beside 256 * 256 13 bits are left.
    const bool wide = f.a == "e4m3" && f.b == "e4m3" && f.d == "f32";
    return wide ? Bound{Bound::Kind::f32, (k + 1) * 0x1p16 * 0x1p-13, 0} : Bound{};
  }
  const bool fp8 = f.a == "e4m3" || f.a == "e5m2";
  const double ulp = fp8 ? 0x1p-13 : 0x1p-23;
  return f.d == "f16" ? Bound{Bound::Kind::f16, 2 * (k + 1) * ulp, 0x1p-9}
                      : Bound{Bound::Kind::f32, 2 * (k + 1) * ulp, 0};
}

void add(std::vector<Case>& cases, const WgmmaForm& f) {
  const int element = f.a == "tf32" ? 4 : is_half(f.a) ? 2 : 1, k = 32 / element;
  const int registers = f.d == "f16" ? f.n / 4 : f.n / 2;
  const std::string name = "wgmma.mma_async.sync.aligned.m64n" + std::to_string(f.n) + "k" +
                           std::to_string(k) + (f.satfinite ? ".satfinite" : "") + "." + f.d + "." + f.a +
                           "." + f.b;
  Case c;
  c.name = "wgmma/" + name + (f.note.empty() ? "" : " " + f.note);
  c.threads = 128;
  c.dynamic_shared_bytes = kImageBytes;
  c.bound = bound_of(f, k);
  const std::string n = std::to_string(registers);
  std::string text =
      ".extern .shared .align 1024 .b8 image[];\n.visible .entry ENTRY(.param .u64 p_in, .param .u64 p_out) "
      "{\n"
      "  .reg .b64 %in, %out, %from, %da, %db, %base64;\n  .reg .b32 %tx, %s, %i, %t<4>, %a<4>, %d<" +
      n +
      ">;\n  .reg .pred %p;\n"
      "  ld.param.u64 %in, [p_in];\n  ld.param.u64 %out, [p_out];\n  mov.u32 %tx, %tid.x;\n"
      "  mov.u32 %s, image;\n  shr.u32 %i, %s, 4;\n  cvt.u64.u32 %base64, %i;\n"
      "  mad.lo.u32 %s, %tx, 16, %s;\n  mad.wide.u32 %from, %tx, 16, %in;\n  mov.u32 %i, 0;\n"
      "copy:\n  ld.global.v4.b32 {%t0, %t1, %t2, %t3}, [%from];\n  st.shared.v4.b32 [%s], {%t0, %t1, %t2, "
      "%t3};\n"
      "  add.u64 %from, %from, 2048;\n  add.u32 %s, %s, 2048;\n  add.u32 %i, %i, 2048;\n"
      "  setp.lt.u32 %p, %i, " +
      std::to_string(kImageBytes) +
      ";\n  @%p bra copy;\n"
      "  fence.proxy.async.shared::cta;\n  bar.sync 0;\n"
      "  mad.wide.u32 %from, %tx, 4, %in;\n  mad.wide.u32 %out, %tx, 4, %out;\n";
  for (int i = 0; i < 4 && f.a_in_registers; ++i) {
    text += "  ld.global.b32 %a" + std::to_string(i) + ", [%from+" + std::to_string(kImageBytes + i * 512) +
            "];\n";
  }
  for (int i = 0; i < registers; ++i) {
    text += "  ld.global.b32 %d" + std::to_string(i) + ", [%from+" +
            std::to_string(kImageBytes + 2048 + i * 512) + "];\n";
  }
  text += "  add.u64 %da, %base64, " + std::to_string(static_cast<std::int64_t>(f.desc_a.bits())) + ";\n";
  text += "  add.u64 %db, %base64, " + std::to_string(static_cast<std::int64_t>(f.desc_b.bits())) + ";\n";
  text += "  setp.ne.u32 %p, %tx, 99999;\n";  // scale-d as a predicate that is true
  text += "  wgmma.fence.sync.aligned;\n  " + name + " {";
  for (int i = 0; i < registers; ++i) text += std::string(i ? ", " : "") + "%d" + std::to_string(i);
  text += std::string("}, ") + (f.a_in_registers ? "{%a0, %a1, %a2, %a3}" : "%da") + ", %db, " +
          (f.scale_d ? "%p" : "0");
  if (!is_integer(f)) {
    text += ", " + std::to_string(f.scale_a) + ", " + std::to_string(f.scale_b);
    if (is_half(f.a) && !f.a_in_registers) text += ", " + std::to_string(f.trans_a);
    if (is_half(f.a)) text += ", " + std::to_string(f.trans_b);
  }
  text += ";\n  wgmma.commit_group.sync.aligned;\n  wgmma.wait_group.sync.aligned 0;\n";
  for (int i = 0; i < registers; ++i)
    text += "  st.global.b32 [%out+" + std::to_string(i * 512) + "], %d" + std::to_string(i) + ";\n";
  c.kernel = text + "  ret;\n}\n";

  Random random(seed_of(c.name));
  const auto push = [&](const std::string& type, unsigned bytes, Fill fill) {
    for (unsigned i = 0; i < bytes / 4; ++i) {
      const std::uint32_t word = matrix_word(type, fill, random);
      const auto* p = reinterpret_cast<const std::uint8_t*>(&word);
      c.input.insert(c.input.end(), p, p + 4);
    }
  };
  push(f.a, kImageBytes / 2, f.fill);
  push(f.b, kImageBytes / 2, f.fill == Fill::subnormal ? Fill::exact : f.fill);
  push(f.a, 2048, f.fill);
  push(f.d, static_cast<unsigned>(registers) * 512, f.fill == Fill::random ? Fill::random : Fill::exact);
  c.output.resize(static_cast<std::size_t>(registers) * 512);
  cases.push_back(std::move(c));
}

std::string number(unsigned value) {
  return std::to_string(value);
}

void types(std::vector<Case>& cases) {
  struct Types {
    const char *a, *b, *d;
  };
  const Types all[] = {{"bf16", "bf16", "f32"}, {"f16", "f16", "f32"},   {"f16", "f16", "f16"},
                       {"tf32", "tf32", "f32"}, {"e4m3", "e4m3", "f32"}, {"e4m3", "e5m2", "f32"},
                       {"e5m2", "e4m3", "f32"}, {"e5m2", "e5m2", "f32"}, {"e4m3", "e4m3", "f16"},
                       {"e5m2", "e4m3", "f16"}, {"s8", "s8", "s32"},     {"u8", "u8", "s32"},
                       {"s8", "u8", "s32"},     {"u8", "s8", "s32"}};
  for (const Types& t : all) {
    WgmmaForm base;
    base.a = t.a;
    base.b = t.b;
    base.d = t.d;
    for (const bool registers : {false, true}) {
      base.a_in_registers = registers;
      const std::string source = registers ? "A in registers" : "A in memory";
      for (const int layout : {0, 1, 2, 3}) {
        WgmmaForm f = base;
        const unsigned span = layout == 0 ? 16 : 256u >> layout;
        f.desc_a = {0, layout == 0 ? 1024u : 16u, 8 * span, 0, layout};
        f.desc_b = {32768, layout == 0 ? 256u : 16u, 8 * span, 0, layout};
        f.note = source + " layout " + number(static_cast<unsigned>(layout));
        if (!registers || layout == 1) add(cases, f);
      }
      for (const auto& [fill, name] : {std::pair{Fill::random, "random"}, std::pair{Fill::special, "special"},
                                       std::pair{Fill::subnormal, "subnormal"}}) {
        if (is_integer(base)) continue;
        WgmmaForm f = base;
        f.fill = fill;
        f.note = source + " " + name;
        add(cases, f);
      }
      WgmmaForm f = base;
      f.scale_d = 0;
      f.note = source + " scale-d 0";
      add(cases, f);
      if (is_integer(base)) {
        f.satfinite = true;
        f.note = source + " scale-d 0";
        add(cases, f);
        continue;
      }
      f.scale_d = 1;
      f.scale_a = -1;
      f.note = source + " scale-a -1";
      add(cases, f);
      f.scale_b = -1;
      f.note = source + " scale-a -1 scale-b -1";
      add(cases, f);
    }
  }
}

void shapes(std::vector<Case>& cases) {
  for (int n = 8; n <= 256; n += 8) {
    for (const char* type : {"bf16", "e4m3", "s8", "tf32"}) {
      WgmmaForm f;
      f.a = f.b = type;
      if (std::string(type) == "s8") {
        if (n > 32 && n % 16 != 0) continue;
        f.d = "s32";
      }
      f.n = n;
      f.a_in_registers = n % 16 == 8;
      // 256 rows of 128 bytes fill the second half of the image.
      f.note = "shape";
      add(cases, f);
    }
  }
}

/// Major modes, step offsets inside the swizzle atom, odd strides, base offsets.
void layouts(std::vector<Case>& cases) {
  for (const char* type : {"bf16", "f16"}) {
    for (int trans = 1; trans < 4; ++trans) {
      for (const int layout_a : {0, 1, 2, 3}) {
        for (const int layout_b : {0, 1, 2, 3}) {
          if (!(trans & 1) && layout_a != 1) continue;
          if (!(trans & 2) && layout_b != 1) continue;
          WgmmaForm f;
          f.a = f.b = type;
          f.n = 64;
          f.trans_a = trans & 1;
          f.trans_b = trans >> 1;
          const auto place = [](int layout, int transposed, unsigned start) {
            const unsigned span = layout == 0 ? 16 : 256u >> layout;
            if (!transposed) return Descriptor{start, layout == 0 ? 1024u : 16u, 8 * span, 0, layout};
            return layout == 0 ? Descriptor{start, 128, 384, 0, 0}
                               : Descriptor{start, 16 * span + 1024, 8 * span, 0, layout};
          };
          f.desc_a = place(layout_a, f.trans_a, 0);
          f.desc_b = place(layout_b, f.trans_b, 32768);
          f.note = "major " + number(static_cast<unsigned>(f.trans_a)) +
                   number(static_cast<unsigned>(f.trans_b)) + " layouts " +
                   number(static_cast<unsigned>(layout_a)) + number(static_cast<unsigned>(layout_b));
          add(cases, f);
        }
      }
    }
  }
  for (const char* type : {"bf16", "e4m3", "tf32"}) {
    WgmmaForm f;
    f.a = f.b = type;
    f.n = 24;
    for (const int layout : {1, 2}) {
      for (unsigned step = 1; step < (layout == 1 ? 4u : 2u); ++step) {
        f.desc_a = {step * 32, 16, layout == 1 ? 1024u : 512u, 0, layout};
        f.desc_b = {32768 + step * 32, 16, layout == 1 ? 1024u : 512u, 0, layout};
        f.note = "layout " + number(static_cast<unsigned>(layout)) + " step " + number(step);
        add(cases, f);
      }
    }
    for (const int layout : {0, 1, 2, 3}) {
      const unsigned span = layout == 0 ? 16 : 256u >> layout;
      // Strides wider than the rows need, and the unused leading offset set to nonsense where it is unused.
      f.desc_a = {0, layout == 0 ? 4096u + 128 : 4096u, 16 * span + (layout == 0 ? 128u : 1024u), 0, layout};
      f.desc_b = {32768, layout == 0 ? 2048u + 128 : 48u, 24 * span, 0, layout};
      f.note = "layout " + number(static_cast<unsigned>(layout)) + " wide strides";
      add(cases, f);
    }
    for (unsigned phase = 1; phase < 8; ++phase) {
      // The pattern starts at row `phase` of a 1024-byte block.
      f.desc_a = {0, 16, 1024, 0, 1};
      f.desc_b = {32768 + phase * 128, 16, 1024, phase, 1};
      f.note = "base offset " + number(phase);
      add(cases, f);
      f.desc_b.base_offset = 0;
      f.note = "start at row " + number(phase);
      add(cases, f);
    }
  }
}

}  // namespace

void add_wgmma_forms(std::vector<Case>& cases) {
  types(cases);
  shapes(cases);
  layouts(cases);
}

}  // namespace conformance
