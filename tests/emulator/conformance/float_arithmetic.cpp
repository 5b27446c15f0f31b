// Floating-point arithmetic, comparisons and approximations.
#include "tests/emulator/conformance/elementwise.hpp"

namespace conformance {

namespace {

const char* const kModes[] = {"rn", "rz", "rm", "rp"};

void rounded(std::vector<Case>& cases) {
  const auto form = [&](const std::string& name, const std::string& type, std::size_t operands) {
    add_form(cases, "float", {name, type, std::vector<std::string>(operands, type), {}, {}, false});
  };
  for (const std::string mode : kModes) {
    for (const char* suffix : {"", ".ftz", ".sat", ".ftz.sat"}) {
      for (const char* op : {"add", "sub", "mul"})
        form(std::string(op) + "." + mode + suffix + ".f32", "f32", 2);
      form("fma." + mode + suffix + ".f32", "f32", 3);
    }
    for (const char* suffix : {"", ".ftz"}) {
      form("div." + mode + suffix + ".f32", "f32", 2);
      form("rcp." + mode + suffix + ".f32", "f32", 1);
      form("sqrt." + mode + suffix + ".f32", "f32", 1);
    }
    for (const char* op : {"add", "sub", "mul", "div"}) form(std::string(op) + "." + mode + ".f64", "f64", 2);
    form("fma." + mode + ".f64", "f64", 3);
    form("rcp." + mode + ".f64", "f64", 1);
    form("sqrt." + mode + ".f64", "f64", 1);
  }
  for (const std::string type : {"f16", "f16x2"}) {
    for (const char* suffix : {"", ".ftz", ".sat", ".ftz.sat"}) {
      for (const char* op : {"add.rn", "sub.rn", "mul.rn"})
        form(std::string(op) + suffix + "." + type, type, 2);
      form(std::string("fma.rn") + suffix + "." + type, type, 3);
    }
    form("fma.rn.relu." + type, type, 3);
    form("fma.rn.ftz.relu." + type, type, 3);
  }
  for (const std::string type : {"bf16", "bf16x2"}) {
    for (const char* op : {"add.rn", "sub.rn", "mul.rn"}) form(std::string(op) + "." + type, type, 2);
    form("fma.rn." + type, type, 3);
    form("fma.rn.relu." + type, type, 3);
  }
}

/// Which of several NaN operands an f64 result takes after.
void arithmetic_nans(std::vector<Case>& cases) {
  for (const char* op :
       {"add.rn", "add.rz", "sub.rn", "mul.rn", "div.rn", "fma.rn", "fma.rp", "min", "max"}) {
    const std::string name = std::string(op) + ".f64";
    const std::size_t operands = name.starts_with("fma") ? 3 : 2;
    add_form(cases, "float", {name, "f64", std::vector<std::string>(operands, "nan64"), {}, {}, false});
  }
  for (const char* op : {"rcp.rn", "sqrt.rn", "abs", "neg"})
    add_form(cases, "float", {std::string(op) + ".f64", "f64", {"nan64"}, {}, {}, false});
}

void selection(std::vector<Case>& cases) {
  const auto form = [&](const std::string& name, const std::string& type, std::size_t operands) {
    add_form(cases, "float", {name, type, std::vector<std::string>(operands, type), {}, {}, false});
  };
  for (const char* op : {"min", "max"}) {
    for (const char* suffix : {"", ".ftz", ".NaN", ".ftz.NaN", ".xorsign.abs", ".NaN.xorsign.abs"}) {
      for (const char* type : {"f32", "f16", "f16x2"}) form(std::string(op) + suffix + "." + type, type, 2);
    }
    for (const char* suffix : {"", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"}) {
      for (const char* type : {"bf16", "bf16x2"}) form(std::string(op) + suffix + "." + type, type, 2);
    }
    form(std::string(op) + ".f64", "f64", 2);
  }
  for (const char* op : {"abs", "neg"}) {
    for (const char* type : {"f32", "f64", "f16", "f16x2", "bf16", "bf16x2"})
      form(std::string(op) + "." + type, type, 1);
    form(std::string(op) + ".ftz.f32", "f32", 1);
    form(std::string(op) + ".ftz.f16", "f16", 1);
  }
  form("copysign.f32", "f32", 2);
  form("copysign.f64", "f64", 2);
  for (const char* what : {"finite", "infinite", "number", "notanumber", "normal", "subnormal"}) {
    for (const std::string type : {"f32", "f64"}) {
      const std::string name = std::string("testp.") + what + "." + type;
      add_form(cases, "float", {name, "b32", {type}, name + " %p, $a; selp.u32 $d, 1, 0, %p;", {}, false});
    }
  }
  const char* const comparisons[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                     "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
  for (const std::string comparison : comparisons) {
    for (const std::string type : {"f32", "f64", "f16", "bf16", "ftz.f32", "ftz.f16"}) {
      const std::string name = "setp." + comparison + "." + type, operand = type.substr(type.find('.') + 1);
      add_form(cases, "float",
               {name, "b32", {operand, operand}, name + " %p, $a, $b; selp.u32 $d, 1, 0, %p;", {}, false});
    }
    const std::string set = "set." + comparison + ".u32.f32", set_float = "set." + comparison + ".f32.f32";
    add_form(cases, "float", {set, "b32", {"f32", "f32"}, {}, {}, false});
    add_form(cases, "float", {set_float, "b32", {"f32", "f32"}, {}, {}, false});
    add_form(cases, "float",
             {"set." + comparison + ".f16x2.f16x2", "b32", {"f16x2", "f16x2"}, {}, {}, false});
    const std::string pair = "setp." + comparison + ".f16x2";
    add_form(cases, "float",
             {pair,
              "b32",
              {"f16x2", "f16x2"},
              pair + " %p|%q, $a, $b; selp.u32 $d, 1, 0, %p; @%q or.b32 $d, $d, 2;",
              {},
              false});
  }
  add_form(cases, "float",
           {"setp.lt.and.f32",
            "b32",
            {"f32", "f32", "few"},
            "setp.gt.u32 %p, $c, 1; setp.lt.and.f32 %p|%q, $a, $b, %p; selp.u32 $d, 1, 0, %p; @%q or.b32 $d, "
            "$d, 2;",
            {},
            false});
  add_form(cases, "float", {"slct.f32.f32", "f32", {"f32", "f32", "f32"}, {}, {}, false});
}

/// Relative bounds of PTX (2^-22 and the like) with the emulated device's own ulp on top.
void approximations(std::vector<Case>& cases) {
  constexpr double kUlp = 1.2e-7;
  const auto relative = [](Bound::Kind kind, double bound, double absolute = 0) {
    return Bound{kind, absolute, bound};
  };
  const auto f32 = [&](const char* name, double bound, double absolute = 0) {
    for (const char* ftz : {"", ".ftz"}) {
      const std::string full = std::string(name) + ftz + ".f32";
      // Subnormal results are compared in absolute terms.
      const Bound allowed = relative(Bound::Kind::f32, bound, absolute + 3e-45);
      add_form(cases, "approx", {full, "f32", {"f32"}, {}, allowed, false});
      add_form(cases, "approx", {full, "f32", {"unit32"}, {}, allowed, false});
    }
  };
  f32("ex2.approx", 2 * kUlp + 0x1p-22);
  f32("lg2.approx", kUlp, 0x1p-22);
  f32("rcp.approx", 2 * kUlp);
  f32("rsqrt.approx", kUlp + 0x1p-22);
  f32("sqrt.approx", kUlp + 0x1p-22);
  for (const char* name : {"sin.approx.f32", "cos.approx.f32", "sin.approx.ftz.f32"}) {
    add_form(cases, "approx", {name, "f32", {"angle"}, {}, relative(Bound::Kind::f32, 0, 0x1p-19), false});
  }
  add_form(cases, "approx",
           {"tanh.approx.f32", "f32", {"f32"}, {}, relative(Bound::Kind::f32, 0x1p-10, 1e-37), false});
  add_form(cases, "approx",
           {"tanh.approx.f32", "f32", {"angle"}, {}, relative(Bound::Kind::f32, 0x1p-10), false});
  const Bound f16 = relative(Bound::Kind::f16, 0x1p-9, 0x1p-23),
              bf16 = relative(Bound::Kind::bf16, 0x1p-6, 0x1p-132);
  add_form(cases, "approx", {"ex2.approx.f16", "f16", {"f16"}, {}, f16, false});
  add_form(cases, "approx", {"ex2.approx.f16x2", "f16x2", {"f16x2"}, {}, f16, false});
  add_form(cases, "approx", {"ex2.approx.ftz.bf16", "bf16", {"bf16"}, {}, bf16, false});
  add_form(cases, "approx", {"ex2.approx.ftz.bf16x2", "bf16x2", {"bf16x2"}, {}, bf16, false});
  add_form(cases, "approx", {"tanh.approx.f16", "f16", {"f16"}, {}, f16, false});
  add_form(cases, "approx", {"tanh.approx.f16x2", "f16x2", {"f16x2"}, {}, f16, false});
  add_form(cases, "approx", {"tanh.approx.bf16", "bf16", {"bf16"}, {}, bf16, false});
  add_form(cases, "approx", {"tanh.approx.bf16x2", "bf16x2", {"bf16x2"}, {}, bf16, false});
  const Bound f64 = relative(Bound::Kind::f64, 0x1p-19, 1e-300);
  add_form(cases, "approx", {"rcp.approx.ftz.f64", "f64", {"f64"}, {}, f64, false});
  add_form(cases, "approx", {"rsqrt.approx.f64", "f64", {"f64"}, {}, f64, false});
  add_form(cases, "approx", {"rsqrt.approx.ftz.f64", "f64", {"f64"}, {}, f64, false});
  for (const char* name : {"div.full.f32", "div.full.ftz.f32", "div.approx.f32", "div.approx.ftz.f32"}) {
    add_form(cases, "approx",
             {name, "f32", {"unit32", "unit32"}, {}, relative(Bound::Kind::f32, 4 * kUlp), false});
  }
}

}  // namespace

void add_float_arithmetic(std::vector<Case>& cases) {
  rounded(cases);
  arithmetic_nans(cases);
  selection(cases);
  approximations(cases);
}

}  // namespace conformance
