// atom and red on global and shared memory: every thread has a location of its own, so old values are
// determined.
#include "tests/emulator/conformance/elementwise.hpp"

namespace conformance {

namespace {

void own_location(std::vector<Case>& cases, const std::string& operation, const std::string& suffix,
                  const std::string& type, const std::string& extra = {}) {
  for (const bool shared : {false, true}) {
    const std::string space = shared ? "shared" : "global", address = shared ? "[%sslot]" : "[%slot]";
    const std::string width = "b" + std::to_string(type == "f16" || type == "bf16" ? 16
                                                   : type.ends_with("64")          ? 64
                                                                                   : 32);
    const std::string name = "atom." + space + "." + operation + suffix;
    const std::string setup = "st." + space + "." + width + " " + address + ", $a; ";
    std::string after;
    if (shared) {
      // The location's final value goes to the output as well.
      after = width == "b64"   ? " ld.shared.b64 %w, [%sslot]; st.global.b64 [%slot], %w;"
              : width == "b32" ? " ld.shared.b32 %t, [%sslot]; st.global.b32 [%slot], %t;"
                               : " ld.shared.b16 %h, [%sslot]; st.global.b16 [%slot], %h;";
    }
    add_form(cases, "atomic",
             {name,
              type,
              {type, type},
              setup + name + " $d, " + address + ", $b" + extra + ";" + after,
              {},
              true});
  }
}

}  // namespace

void add_atomics(std::vector<Case>& cases) {
  for (const char* type : {"u32", "s32", "u64"}) own_location(cases, "add", std::string(".") + type, type);
  for (const char* operation : {"min", "max"}) {
    for (const char* type : {"u32", "s32", "u64", "s64"})
      own_location(cases, operation, std::string(".") + type, type);
  }
  for (const char* operation : {"inc", "dec"}) own_location(cases, operation, ".u32", "u32");
  for (const char* operation : {"and", "or", "xor", "exch"}) {
    for (const char* type : {"b32", "b64"}) own_location(cases, operation, std::string(".") + type, type);
  }
  for (const char* type : {"b32", "b64"}) own_location(cases, "cas", std::string(".") + type, type, ", $a");
  own_location(cases, "add", ".f32", "f32");
  own_location(cases, "add", ".f64", "f64");
  own_location(cases, "add", ".f64", "nan64");
  own_location(cases, "add.noftz", ".f16x2", "f16x2");
  own_location(cases, "add.noftz", ".bf16x2", "bf16x2");
  own_location(cases, "add.noftz", ".f16", "f16");
  own_location(cases, "add.noftz", ".bf16", "bf16");
  // All threads on one location: the order of integer updates does not show in the final value.
  for (const char* operation : {"add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32"}) {
    const std::string name = std::string("red.global.") + operation;
    add_form(cases, "atomic",
             {name + " contended",
              "b32",
              {"b32"},
              "cvt.u64.u32 %w, %tx; shl.b64 %w, %w, 3; sub.u64 %w, %slot, %w; " + name +
                  " [%w], $a; mov.b32 $d, 1;",
              {},
              true});
  }
}

}  // namespace conformance
