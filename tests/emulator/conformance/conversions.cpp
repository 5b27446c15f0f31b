// cvt in every direction, rounding mode and modifier.
#include "tests/emulator/conformance/elementwise.hpp"

namespace conformance {

namespace {

const char* const kFloatModes[] = {"rn", "rz", "rm", "rp"};
const char* const kIntegerModes[] = {"rni", "rzi", "rmi", "rpi"};

void between_floats(std::vector<Case>& cases) {
  const auto cvt = [&](const std::string& modifiers, const std::string& to, const std::string& from) {
    add_form(cases, "cvt",
             {"cvt" + modifiers + "." + to + "." + from, to == "tf32" ? "b32" : to, {from}, {}, {}, false});
  };
  for (const std::string mode : kFloatModes) {
    for (const char* suffix : {"", ".ftz", ".sat"}) cvt("." + mode + suffix, "f16", "f32");
    cvt("." + mode, "bf16", "f32");
    cvt("." + mode, "f16", "f64");
    cvt("." + mode, "bf16", "f64");
    for (const char* suffix : {"", ".ftz", ".sat", ".ftz.sat"}) cvt("." + mode + suffix, "f32", "f64");
    cvt("." + mode, "bf16", "f16");
  }
  for (const char* mode : {".rn", ".rz"}) {
    cvt(std::string(mode) + ".relu", "f16", "f32");
    cvt(std::string(mode) + ".relu", "bf16", "f32");
    cvt(mode, "tf32", "f32");
    cvt(std::string(mode) + ".relu", "tf32", "f32");
    cvt(std::string(mode) + ".satfinite", "f16", "f32");
    cvt(std::string(mode) + ".satfinite", "bf16", "f32");
    cvt(std::string(mode) + ".relu.satfinite", "f16", "f32");
  }
  cvt(".rna", "tf32", "f32");
  cvt(".rna.satfinite", "tf32", "f32");
  for (const char* modifiers : {"", ".ftz", ".sat"}) cvt(modifiers, "f32", "f16");
  cvt("", "f32", "bf16");
  cvt("", "f64", "f16");
  cvt("", "f64", "bf16");
  for (const char* modifiers : {"", ".ftz", ".sat"}) cvt(modifiers, "f64", "f32");
  cvt(".sat", "f32", "f32");
  cvt(".ftz", "f32", "f32");
  cvt(".rn", "f16", "bf16");
  for (const std::string mode : kIntegerModes) {
    for (const char* suffix : {"", ".ftz", ".sat"}) cvt("." + mode + suffix, "f32", "f32");
    cvt("." + mode, "f16", "f16");
    cvt("." + mode, "bf16", "bf16");
    cvt("." + mode, "f64", "f64");
    cvt("." + mode + ".sat", "f64", "f64");
  }
}

/// Which part of a NaN survives.
void conversion_nans(std::vector<Case>& cases) {
  const auto cvt = [&](const std::string& name, const std::string& to, const std::string& from) {
    add_form(cases, "cvt of NaN", {name, to, {from}, {}, {}, false});
  };
  for (const char* to : {"f16", "bf16", "f32"}) {
    cvt(std::string("cvt.rn.") + to + ".f64", to, "nan64");
    cvt(std::string("cvt.rz.") + to + ".f64", to, "nan64");
  }
  cvt("cvt.rn.f16.f32", "f16", "nan32");
  cvt("cvt.rn.bf16.f32", "bf16", "nan32");
  cvt("cvt.rn.tf32.f32", "b32", "nan32");
  cvt("cvt.rna.tf32.f32", "b32", "nan32");
  cvt("cvt.rna.satfinite.tf32.f32", "b32", "nan32");
  cvt("cvt.f64.f32", "f64", "nan32");
  cvt("cvt.ftz.f64.f32", "f64", "nan32");
  cvt("cvt.ftz.f32.f32", "f32", "nan32");
  cvt("cvt.rzi.f64.f64", "f64", "nan64");
}

void packed(std::vector<Case>& cases) {
  const auto two = [&](const std::string& modifiers, const std::string& to, const std::string& from) {
    add_form(cases, "cvt", {"cvt" + modifiers + "." + to + "." + from, to, {from, from}, {}, {}, false});
  };
  for (const char* to : {"f16x2", "bf16x2"}) {
    for (const char* modifiers : {".rn", ".rz", ".rn.relu", ".rz.relu", ".rn.satfinite"})
      two(modifiers, to, "f32");
  }
  for (const char* to : {"e4m3x2", "e5m2x2"}) {
    for (const char* modifiers : {".rn.satfinite", ".rn.satfinite.relu"}) {
      two(modifiers, to, "f32");
      const std::string name = std::string("cvt") + modifiers + "." + to + ".f16x2";
      add_form(cases, "cvt", {name, to, {"f16x2"}, {}, {}, false});
    }
    // Every pattern of the 8-bit format, two at a time.
    for (const char* modifiers : {".rn", ".rn.relu"}) {
      const std::string name = std::string("cvt") + modifiers + ".f16x2." + to;
      add_form(cases, "cvt", {name, "f16x2", {to}, {}, {}, false});
      add_form(cases, "cvt every pattern",
               {name,
                "f16x2",
                {},
                "mad.lo.u32 %t, %tx, 257, 0; cvt.u16.u32 %h, %t; " + name + " $d, %h;",
                {},
                false});
    }
  }
}

int width_of(const std::string& integer) {
  return std::stoi(integer.substr(1));
}
bool is_wide(const std::string& integer) {
  return width_of(integer) == 64;
}

/// Whether some value of `from` lies outside `to`: only then PTX allows .sat.
bool may_overflow(const std::string& to, const std::string& from) {
  if (from[0] == 's') return to[0] == 'u' || width_of(to) < width_of(from);
  return width_of(to) - (to[0] == 's') < width_of(from);
}

/// bf16 has no conversions with 8-bit integers.
bool exists(const std::string& integer, const std::string& floating) {
  return floating != "bf16" || width_of(integer) > 8;
}

/// The register that holds `integer` next to a float of this type: bf16 forms insist on 16 bits for the small
/// ones.
std::string carrier(const std::string& integer, const std::string& floating) {
  if (is_wide(integer)) return "b64";
  return floating == "bf16" && width_of(integer) <= 16 ? "b16" : "b32";
}

void with_integers(std::vector<Case>& cases) {
  const char* const integers[] = {"s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"};
  for (const char* integer : integers) {
    const std::string wide = is_wide(integer) ? "b64" : "b32";
    for (const char* from : {"f16", "bf16", "f32", "f64"}) {
      if (!exists(integer, from)) continue;
      for (const std::string mode : kIntegerModes) {
        add_form(cases, "cvt",
                 {"cvt." + mode + "." + integer + "." + from, carrier(integer, from), {from}, {}, {}, false});
      }
    }
    add_form(cases, "cvt", {std::string("cvt.rzi.ftz.") + integer + ".f32", wide, {"f32"}, {}, {}, false});
    add_form(cases, "cvt", {std::string("cvt.rpi.ftz.") + integer + ".f32", wide, {"f32"}, {}, {}, false});
    for (const char* to : {"f16", "bf16", "f32", "f64"}) {
      if (!exists(integer, to)) continue;
      for (const std::string mode : kFloatModes) {
        add_form(cases, "cvt",
                 {"cvt." + mode + "." + to + "." + integer, to, {carrier(integer, to)}, {}, {}, false});
      }
    }
    add_form(cases, "cvt", {std::string("cvt.rn.sat.f32.") + integer, "f32", {wide}, {}, {}, false});
    for (const char* from : integers) {
      const std::string source = is_wide(from) ? "b64" : "b32";
      add_form(cases, "cvt", {std::string("cvt.") + integer + "." + from, wide, {source}, {}, {}, false});
      if (!may_overflow(integer, from)) continue;
      add_form(cases, "cvt", {std::string("cvt.sat.") + integer + "." + from, wide, {source}, {}, {}, false});
    }
  }
}

}  // namespace

void add_conversions(std::vector<Case>& cases) {
  between_floats(cases);
  conversion_nans(cases);
  packed(cases);
  with_integers(cases);
}

}  // namespace conformance
