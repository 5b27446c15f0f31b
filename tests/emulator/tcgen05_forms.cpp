// Forms of the instructions of sm_100a, as tests/data/ptx_forms_sm100a.txt lists them: what ptxas takes is known, what
// it refuses is refused.
#include <doctest/doctest.h>

#include <fstream>
#include <regex>

#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

namespace {

struct Sm100aForm {
  std::string text;
  bool legal = true;  ///< ptxas takes it
};

std::string expanded(std::string text) {
  static const std::regex range(R"(\{(%[a-z]+)(\d+)\.\.(\d+)\})");
  for (std::smatch m; std::regex_search(text, m, range);) {
    std::string list = "{";
    for (int i = std::stoi(m[2]); i <= std::stoi(m[3]); ++i)
      list += (list.size() > 1 ? "," : "") + m[1].str() + std::to_string(i);
    text.replace(static_cast<std::size_t>(m.position()), static_cast<std::size_t>(m.length()), list + "}");
  }
  return text;
}

std::vector<Sm100aForm> read_sm100a_forms() {
  std::ifstream file(KILN_SOURCE_DIR "/tests/data/ptx_forms_sm100a.txt");
  REQUIRE(file);
  std::vector<Sm100aForm> forms;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    Sm100aForm f;
    f.legal = line[0] == '+';
    line.erase(0, 2);
    f.text = expanded(line);
    forms.push_back(std::move(f));
  }
  return forms;
}

std::string error_of_form(const std::string& form, const std::string& target = "sm_100a") {
  return error_of(
      ".version 9.0\n.target " + target +
      "\n.address_size 64\n"
      ".visible .entry k(.param .u64 p0, .param .align 64 .b8 map[128]) {\n"
      ".reg .b8 %b<8>; .reg .b16 %h<64>; .reg .b32 %r<200>; .reg .f32 %f<200>; .reg .b64 %d<200>; .reg .pred %p<8>;\n"
      ".reg .b128 %q<8>;\n.shared .align 1024 .b8 smem[32768];\n" +
      form + "\nret; }\n");
}

}  // namespace

TEST_CASE("the forms of sm_100a are those that ptxas takes") {
  std::size_t taken = 0, refused = 0;
  for (const Sm100aForm& f : read_sm100a_forms()) {
    const std::string error = error_of_form(f.text);
    INFO(f.text << "  " << error);
    CHECK(error.empty() == f.legal);
    (f.legal ? taken : refused) += 1;
  }
  CHECK(taken > 700);
  CHECK(refused > 400);
}

TEST_CASE("forms that PTX forbids and ptxas lets pass are refused") {
  CHECK(error_of_form("tcgen05.mma.cta_group::1.kind::i8 [%r1], %d1, %d2, %r3, %p1, 3;") != "");
}

TEST_CASE("sm_103a has no kind::i8, and the other kinds") {
  const auto product = [](const std::string& kind) {
    return "tcgen05.mma.cta_group::1.kind::" + kind + " [%r1], %d1, %d2, %r3, %p1;";
  };
  CHECK(error_of_form(product("i8")) == "");
  CHECK(error_of_form(product("i8"), "sm_103a").find("sm_103 has no kind::i8") != std::string::npos);
  for (const char* kind : {"f16", "tf32", "f8f6f4"}) CHECK(error_of_form(product(kind), "sm_103a") == "");
}

TEST_CASE("tcgen05.ld.red: the forms that ptxas takes for sm_103a, and none for sm_100a") {
  const auto list = [](int n) {
    std::string text;
    for (int i = 1; i <= n; ++i) text += (i > 1 ? ",%r" : "{%r") + std::to_string(i);
    return text + "}";
  };
  const auto load = [&](const std::string& rest, int n = 2, const std::string& tail = "") {
    return "tcgen05.ld.red.sync.aligned." + rest + " " + list(n) + ", %r190, [%r191]" + tail + ";";
  };
  for (int n = 2; n <= 128; n *= 2) {
    const std::string count = "x" + std::to_string(n);
    CHECK(error_of_form(load("32x32b." + count + ".max.f32", n), "sm_103a") == "");
    CHECK(error_of_form(load("16x32bx2." + count + ".min.u32", n, ", 4"), "sm_103a") == "");
    CHECK(error_of_form(load("32x32b." + count + ".max.f32", n)).find("sm_100a has no") != std::string::npos);
  }
  for (const char* right :
       {"32x32b.x2.min.f32", "32x32b.x2.f32.max", "32x32b.x2.max.abs.f32", "32x32b.x2.max.NaN.f32",
        "32x32b.x2.min.abs.NaN.f32", "32x32b.x2.max.u32", "32x32b.x2.min.s32"})
    CHECK_MESSAGE(error_of_form(load(right), "sm_103a") == "", std::string(right));
  for (const char* wrong :
       {"32x32b.x2.max.b32", "32x32b.x2.add.f32", "32x32b.x2.max.min.f32", "32x32b.x2.f32", "32x32b.x2.max",
        "32x32b.x2.max.abs.s32", "32x32b.x2.max.NaN.u32", "32x32b.x2.pack::16b.max.f32", "16x64b.x2.max.f32",
        "16x128b.x1.max.f32", "16x32bx2.x2.max.f32"})
    CHECK_MESSAGE(error_of_form(load(wrong), "sm_103a") != "", std::string(wrong));
  CHECK(error_of_form(load("32x32b.x1.max.f32", 1), "sm_103a") != "");
  for (const char* wrong : {"tcgen05.ld.red.sync.aligned.32x32b.x2.max.f32 %r10, {%r1,%r2}, [%r3];",
                            "tcgen05.ld.sync.aligned.red.32x32b.x2.max.f32 {%r1,%r2}, %r10, [%r3];",
                            "tcgen05.ld.red.sync.aligned.32x32b.x2.max.f32 {%r1,_}, %r10, [%r3];",
                            "tcgen05.ld.red.sync.aligned.32x32b.x2.max.f32 {%r1,%r2}, _, [%r3];",
                            "tcgen05.ld.red.sync.aligned.32x32b.x2.max.f32 {%r1,%r2}, [%r3];",
                            "tcgen05.st.red.sync.aligned.32x32b.x2.max.f32 [%r3], {%r1,%r2}, %r10;"})
    CHECK_MESSAGE(error_of_form(wrong, "sm_103a") != "", std::string(wrong));
}

TEST_CASE("a kernel has one cta_group, and targets before sm_100a have none") {
  const std::string one = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;";
  CHECK(error_of_form(one + one) == "");
  CHECK(error_of_form(one + "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;") != "");
  CHECK_THROWS_AS(Module::from_ptx(kernel(one)), Error);
}
