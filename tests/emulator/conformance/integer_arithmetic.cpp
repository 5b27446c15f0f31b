// Integer arithmetic, shifts, bit fields, logic.
#include "tests/emulator/conformance/elementwise.hpp"

namespace conformance {

namespace {

class Forms {
 public:
  explicit Forms(std::vector<Case>& cases) : cases_(cases) {}
  void operator()(const std::string& name, const std::string& result, std::vector<std::string> operands,
                  const std::string& body = {}) {
    add_form(cases_, "integer", {name, result, std::move(operands), body, {}, false});
  }

 private:
  std::vector<Case>& cases_;
};

/// Type with the generic name of its width.
std::string bits_type_of(const std::string& type) {
  return "b" + type.substr(1);
}

void plain(Forms& form) {
  for (const std::string type : {"s16", "u16", "s32", "u32", "s64", "u64"}) {
    const std::string b = bits_type_of(type);
    for (const char* op : {"add", "sub", "mul.lo", "mul.hi", "min", "max"})
      form(std::string(op) + "." + type, b, {b, b});
    for (const char* op : {"mad.lo", "mad.hi"}) form(std::string(op) + "." + type, b, {b, b, b});
    for (const char* op : {"div", "rem"}) {
      // Division by zero has no defined result, and the least value over -1 overflows.
      const std::string divisor = type[0] == 's' ? "shr.u" + type.substr(1) + " $b, $b, 1; " : "";
      form(std::string(op) + "." + type, b, {b, b},
           divisor + "max.u" + type.substr(1) + " $b, $b, 1; " + op + "." + type + " $d, $a, $b;");
    }
    if (type[0] == 's') {
      form("abs." + type, b, {b});
      form("neg." + type, b, {b});
    }
    for (const char* comparison : {"eq", "ne", "lt", "le", "gt", "ge"}) {
      form("setp." + std::string(comparison) + "." + type, "b32", {b, b},
           "setp." + std::string(comparison) + "." + type + " %p, $a, $b; selp.u32 $d, 1, 0, %p;");
    }
  }
  for (const char* comparison : {"lo", "ls", "hi", "hs"}) {
    form("setp." + std::string(comparison) + ".u32", "b32", {"b32", "b32"},
         "setp." + std::string(comparison) + ".u32 %p, $a, $b; selp.u32 $d, 1, 0, %p;");
  }
  for (const std::string type : {"s16", "u16", "s32", "u32"}) {
    const std::string b = bits_type_of(type), wide = type.substr(1) == "16" ? "b32" : "b64";
    form("mul.wide." + type, wide, {b, b});
    form("mad.wide." + type, wide, {b, b, wide});
  }
  form("add.sat.s32", "b32", {"b32", "b32"});
  form("sub.sat.s32", "b32", {"b32", "b32"});
  form("mad.hi.sat.s32", "b32", {"b32", "b32", "b32"});
  for (const char* name : {"mul24.lo.s32", "mul24.lo.u32", "mul24.hi.s32", "mul24.hi.u32"})
    form(name, "b32", {"b32", "b32"});
  for (const char* name : {"mad24.lo.s32", "mad24.lo.u32", "mad24.hi.u32", "mad24.hi.sat.s32"})
    form(name, "b32", {"b32", "b32", "b32"});
  for (const char* type : {"u16", "s16", "u32", "s32", "u64", "s64"}) {
    form(std::string("sad.") + type, bits_type_of(type),
         {bits_type_of(type), bits_type_of(type), bits_type_of(type)});
  }
  form("add.u16x2", "b32", {"b32", "b32"});
  for (const char* name : {"min.u16x2", "max.s16x2", "min.s16x2", "max.u16x2", "min.relu.s16x2",
                           "max.relu.s16x2", "min.relu.s32", "max.relu.s32"}) {
    form(name, "b32", {"b32", "b32"});
  }
  form("slct.u32.s32", "b32", {"b32", "b32", "b32"});
  form("slct.b64.f32", "b64", {"b64", "b64", "f32"});
}

void carries(Forms& form) {
  form("add.cc addc", "b64", {"b32", "b32", "b32"},
       "add.cc.u32 %t, $a, $b; addc.cc.u32 %u, $b, $c; addc.u32 %u, %u, 0; mov.b64 $d, {%t, %u};");
  form("sub.cc subc", "b64", {"b32", "b32", "b32"},
       "sub.cc.u32 %t, $a, $b; subc.cc.u32 %u, $b, $c; subc.u32 %u, %u, 0; mov.b64 $d, {%t, %u};");
  form("mad.lo.cc madc.hi", "b64", {"b32", "b32", "b32"},
       "mad.lo.cc.u32 %t, $a, $b, $c; madc.hi.u32 %u, $a, $b, 0; mov.b64 $d, {%t, %u};");
  form("add.cc.u64 addc.u64", "b64", {"b64", "b64"}, "add.cc.u64 %w, $a, $b; addc.u64 $d, $a, 0;");
  form("sub.cc.u64 subc.u64", "b64", {"b64", "b64"}, "sub.cc.u64 %w, $a, $b; subc.u64 $d, $a, 0;");
}

void bits(Forms& form) {
  for (const char* width : {"32", "64"}) {
    const std::string b = std::string("b") + width;
    for (const char* op : {"popc", "clz"}) form(std::string(op) + "." + b, "b32", {b});
    form("brev." + b, b, {b});
    for (const char* op : {"bfind.u", "bfind.s", "bfind.shiftamt.u", "bfind.shiftamt.s"})
      form(op + std::string(width), "b32", {b});
    for (const char* op : {"bfe.u", "bfe.s"}) form(op + std::string(width), b, {b, "shift", "shift"});
    const std::string insert = "bfi." + b;
    form(insert, b, {b, b, "shift"},
         "and.b32 %t, $c, 15; mul.lo.u32 %u, $c, 3; and.b32 %u, %u, 63; " + insert + " $d, $a, $b, %u, %t;");
    for (const char* op : {"shl.b", "shr.u", "shr.s"}) form(op + std::string(width), b, {b, "shift"});
    form("not." + b, b, {b});
    form("cnot." + b, b, {b});
    for (const char* op : {"and", "or", "xor"}) form(std::string(op) + "." + b, b, {b, b});
    form("selp." + b, b, {b, b, "few"}, "setp.ne.u32 %p, $c, 0; selp." + b + " $d, $a, $b, %p;");
  }
  for (const char* op : {"shl.b16", "shr.u16", "shr.s16"}) form(op, "b16", {"b16", "shift"});
  for (const char* op : {"and.b16", "or.b16", "xor.b16"}) form(op, "b16", {"b16", "b16"});
  for (const char* op : {"shf.l.wrap.b32", "shf.l.clamp.b32", "shf.r.wrap.b32", "shf.r.clamp.b32"})
    form(op, "b32", {"b32", "b32", "shift"});
  for (const char* op : {"szext.wrap.s32", "szext.clamp.s32", "szext.wrap.u32", "szext.clamp.u32"})
    form(op, "b32", {"b32", "shift"});
  for (const char* op : {"bmsk.wrap.b32", "bmsk.clamp.b32"}) form(op, "b32", {"shift", "shift"});
  form("fns.b32", "b32", {"b32", "lane", "few"}, "sub.u32 %t, $c, 1; fns.b32 $d, $a, $b, %t;");
  for (const char* mode : {"", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"})
    form(std::string("prmt.b32") + mode, "b32", {"b32", "b32", "b32"});
  for (const int table : {0x00, 0x01, 0x1b, 0x80, 0x96, 0xca, 0xe8, 0xfe, 0x3c, 0xff}) {
    form("lop3.b32 " + std::to_string(table), "b32", {"b32", "b32", "b32"},
         "lop3.b32 $d, $a, $b, $c, " + std::to_string(table) + ";");
  }
  for (const char* op : {"dp4a.u32.u32", "dp4a.u32.s32", "dp4a.s32.u32", "dp4a.s32.s32", "dp2a.lo.u32.u32",
                         "dp2a.hi.s32.s32", "dp2a.lo.s32.u32", "dp2a.hi.u32.s32"}) {
    form(op, "b32", {"b32", "b32", "b32"});
  }
  form("cvt.pack.sat.s8.s32.b32", "b32", {"b32", "b32", "b32"});
  form("cvt.pack.sat.u8.s32.b32", "b32", {"b32", "b32", "b32"});
  form("cvt.pack.sat.s16.s32", "b32", {"b32", "b32"});
  form("cvt.pack.sat.u16.s32", "b32", {"b32", "b32"});
}

}  // namespace

void add_integer_arithmetic(std::vector<Case>& cases) {
  Forms form(cases);
  plain(form);
  carries(form);
  bits(form);
}

}  // namespace conformance
