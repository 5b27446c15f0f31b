// Listings as nvdisasm prints them, with the control bits that a test is about.
#include "workbench/analysis/scoreboards.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace kiln;

namespace {

constexpr unsigned kNone = 7;

/// A section of code, an instruction at a time.
class Code {
 public:
  Code& label(int n) {
    text_ += fmt::format(".L_x_{}:\n", n);
    return *this;
  }
  /// `raises`: the scoreboard that is up until the result is there; `waits`: a mask.
  Code& add(const std::string& instruction, unsigned waits = 0, unsigned raises = kNone) {
    const std::uint64_t control = waits << 11 | kNone << 8 | raises << 5 | 1;
    text_ += fmt::format("        /*{:04x}*/                   {} ;      /* 0x000000000000794d */\n", at_,
                         instruction);
    text_ += fmt::format("                                                  /* {:#018x} */\n", control << 41);
    at_ += 16;
    return *this;
  }
  std::vector<std::string> missing() const {
    return check_waits("\t.section\t.text.kernel,\"ax\",@progbits\n.text.kernel:\n" + text_).missing;
  }

 private:
  std::string text_;
  int at_ = 0;
};

}  // namespace

TEST_CASE("a result is waited for before it is used or written again") {
  CHECK(Code().add("LDS R4, [R2]", 0, 3).add("IADD3 R5, R4, 0x1, RZ", 1 << 3).missing().empty());
  CHECK(Code().add("LDS R4, [R2]", 0, 3).add("IADD3 R5, R6, 0x1, RZ", 0).missing().empty());
  const auto used = Code().add("LDS R4, [R2]", 0, 3).add("IADD3 R5, R4, 0x1, RZ", 1 << 2).missing();
  REQUIRE(used.size() == 1);
  CHECK(used[0] ==
        "R4 of 0000: LDS R4, [R2] (scoreboard 3) is not waited for at 0010: IADD3 R5, R4, 0x1, RZ");
  CHECK(Code().add("LDS R4, [R2]", 0, 3).add("MOV R4, R5").missing().size() == 1);
  // The second half of 64 bits, an address, what is stored, a predicate, a uniform register.
  CHECK(Code().add("LDG.E.64 R4, [R2.64]", 0, 0).add("MOV R7, R5").missing().size() == 1);
  CHECK(Code().add("LDC.64 R4, c[0x0][0x28]", 0, 1).add("LDG.E R8, desc[UR4][R4.64]").missing().size() == 2);
  CHECK(Code().add("LDC R14, c[0x0][0x28]", 0, 1).add("SHF.L.U64.HI R13, R8, 0x2, R9").missing().empty());
  CHECK(Code().add("LDS.128 R4, [R2]", 0, 1).add("STS [R9], R7").missing().size() == 1);
  CHECK(Code()
            .add("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R2], R3", 0, 1)
            .add("@!P0 BRA `(.L_x_1)")
            .missing()
            .size() == 1);
  CHECK(Code().add("S2UR UR8, SR_CgaCtaId", 0, 4).add("R2UR UR9, R3").add("MOV R2, UR8").missing().size() ==
        1);
  CHECK(Code().add("S2UR UR8, SR_CgaCtaId", 0, 4).add("MOV R8, R3").missing().empty());
}

TEST_CASE("a wait holds for what comes after it on the same path") {
  const auto branch = [](unsigned here, unsigned there) {
    return Code()
        .add("LDS R4, [R2]", 0, 3)
        .add("@P0 BRA `(.L_x_1)")
        .add("NOP", here)
        .add("BRA `(.L_x_2)")
        .label(1)
        .add("NOP", there)
        .label(2)
        .add("MOV R5, R4")
        .missing()
        .size();
  };
  CHECK(branch(1 << 3, 1 << 3) == 0);
  CHECK(branch(1 << 3, 0) == 1);
  CHECK(branch(0, 1 << 3) == 1);
}

TEST_CASE("a load at the end of a loop is waited for at its beginning") {
  const auto loop = [](unsigned first) {
    return Code()
        .add("MOV R4, RZ")
        .label(1)
        .add("IADD3 R6, R4, R5, RZ", first)
        .add("LDS.64 R4, [R2]", 0, 2)
        .add("@P0 BRA `(.L_x_1)", 1 << 1 | 1 << 3)
        .add("EXIT")
        .missing();
  };
  CHECK(loop(1 << 2).empty());
  const auto missing = loop(0);
  REQUIRE(missing.size() == 4);  // R4 and R5, used and loaded anew
  CHECK(missing[0].starts_with("R4 of 0020: LDS.64 R4, [R2] (scoreboard 2) is not waited for at 0010"));
}

TEST_CASE("a listing of another form has no instructions, and says so") {
  CHECK(check_waits("").instructions == 0);
  CHECK(check_waits("garbage\n").instructions == 0);
  // As nvdisasm prints it without -hex.
  CHECK(
      check_waits("\t.section\t.text.k,\"ax\",@progbits\n        /*0000*/   LDS R4, [R2] ;\n").instructions ==
      0);
}
