// Instructions that exchange data between the lanes of a warp.
#include "tests/emulator/conformance/elementwise.hpp"

namespace conformance {

void add_warp_forms(std::vector<Case>& cases) {
  const auto form = [&](const std::string& name, const std::string& result, std::vector<std::string> operands,
                        const std::string& body) {
    add_form(cases, "warp", {name, result, std::move(operands), body, {}, false});
  };
  const std::string flag = " selp.b32 %t, 0x80000000, 0, %p; xor.b32 $d, $d, %t;";
  for (const std::string mode : {"up", "down", "bfly", "idx"}) {
    // The last operand holds the clamp in bits 0..4 and the segment mask in bits 8..12.
    for (const std::string& control : mode == "up"
                                          ? std::vector<std::string>{"0x0", "0x1800", "0x1c00"}
                                          : std::vector<std::string>{"0x1f", "0x181f", "0x1c1f", "0xf"}) {
      const std::string name = "shfl.sync." + mode + ".b32";
      form(name + " " + control, "b32", {"b32", "lane"},
           name + " $d|%p, $a, $b, " + control + ", 0xffffffff;" + flag);
      form(name + " " + control + " half warp", "b32", {"b32", "lane"},
           "mov.b32 $d, 7; and.b32 %t, %tx, 16; setp.eq.u32 %q, %t, 0; @!%q bra skip; and.b32 $b, $b, 3; " +
               name + " $d|%p, $a, $b, " + (mode == "up" ? "0x1c00" : "0x1c03") + ", 0x0000ffff; skip:");
    }
  }
  const std::string predicate = "and.b32 %t, $a, 1; setp.ne.u32 %p, %t, 0; ";
  for (const std::string mode : {"all", "any", "uni"}) {
    form("vote.sync." + mode + ".pred", "b32", {"b32"},
         predicate + "vote.sync." + mode + ".pred %q, %p, 0xffffffff; selp.b32 $d, 1, 0, %q;");
    form("vote.sync." + mode + ".pred negated", "b32", {"few"},
         "setp.lt.u32 %p, $a, 4; vote.sync." + mode + ".pred %q, !%p, 0xffffffff; selp.b32 $d, 1, 0, %q;");
    form("vote.sync." + mode + ".pred true", "b32", {"few"},
         "setp.lt.u32 %p, $a, 4; vote.sync." + mode + ".pred %q, %p, 0xffffffff; selp.b32 $d, 1, 0, %q;");
  }
  form("vote.sync.ballot.b32", "b32", {"b32"}, predicate + "vote.sync.ballot.b32 $d, %p, 0xffffffff;");
  form("vote.sync.ballot.b32 odd lanes", "b32", {"b32"},
       predicate +
           "mov.b32 $d, 0; and.b32 %u, %tx, 1; setp.eq.u32 %q, %u, 0; @%q bra skip; vote.sync.ballot.b32 "
           "$d, %p, 0xaaaaaaaa; skip:");
  form("match.any.sync.b32", "b32", {"few"}, "match.any.sync.b32 $d, $a, 0xffffffff;");
  form("match.any.sync.b64", "b32", {"few"},
       "cvt.u64.u32 %w, $a; shl.b64 %w, %w, 33; match.any.sync.b64 $d, %w, 0xffffffff;");
  form("match.all.sync.b32 differing", "b32", {"few"}, "match.all.sync.b32 $d|%p, $a, 0xffffffff;" + flag);
  form("match.all.sync.b32 equal", "b32", {"few"},
       "shr.u32 %u, %tx, 5; match.all.sync.b32 $d|%p, %u, 0xffffffff;" + flag);
  for (const char* op :
       {"add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32", "xor.b32"}) {
    const std::string name = std::string("redux.sync.") + op;
    form(name, "b32", {"b32"}, name + " $d, $a, 0xffffffff;");
    form(name + " upper half", "b32", {"b32"},
         "mov.b32 $d, 0; and.b32 %u, %tx, 16; setp.eq.u32 %q, %u, 0; @%q bra skip; " + name +
             " $d, $a, 0xffff0000; skip:");
  }
  form("elect.sync", "b32", {"few"},
       "elect.sync $d|%p, 0xffffffff; selp.b32 %t, 256, 0, %p; add.u32 $d, $d, %t;");
  form("activemask", "b32", {"few"}, "activemask.b32 $d;");
  form("movmatrix.sync.aligned.m8n8.trans.b16", "b32", {"b32"},
       "movmatrix.sync.aligned.m8n8.trans.b16 $d, $a;");
  form("special registers", "b32", {"few"},
       "mov.u32 $d, %laneid; shl.b32 $d, $d, 8; mov.u32 %t, %lanemask_lt; add.u32 $d, $d, %t; mov.u32 %t, "
       "%lanemask_ge; xor.b32 $d, $d, %t; "
       "mov.u32 %t, %lanemask_eq; sub.u32 $d, $d, %t; mov.u32 %t, %ntid.x; add.u32 $d, $d, %t; mov.u32 %t, "
       "%nctaid.x; add.u32 $d, $d, %t;");
}

}  // namespace conformance
