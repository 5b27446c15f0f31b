// Forms of the instructions of sm_100a, as tests/data/ptx_forms_sm100a.txt lists them: what ptxas takes is known, what
// it refuses is refused.
#include <doctest/doctest.h>

#include <fstream>
#include <regex>

#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

namespace {

struct Form {
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

std::vector<Form> read_forms() {
  std::ifstream file(KILN_SOURCE_DIR "/tests/data/ptx_forms_sm100a.txt");
  REQUIRE(file);
  std::vector<Form> forms;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    Form f;
    f.legal = line[0] == '+';
    line.erase(0, 2);
    f.text = expanded(line);
    forms.push_back(std::move(f));
  }
  return forms;
}

std::string error_of(const std::string& form) {
  const std::string text =
      ".version 9.0\n.target sm_100a\n.address_size 64\n"
      ".visible .entry k(.param .u64 p0, .param .align 64 .b8 map[128]) {\n"
      ".reg .b8 %b<8>; .reg .b16 %h<64>; .reg .b32 %r<200>; .reg .f32 %f<200>; .reg .b64 %d<200>; .reg .pred %p<8>;\n"
      ".reg .b128 %q<8>;\n.shared .align 1024 .b8 smem[32768];\n" +
      form + "\nret; }\n";
  try {
    Module::from_ptx(text);
    return {};
  } catch (const Error& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("the forms of sm_100a are those that ptxas takes") {
  std::size_t taken = 0, refused = 0;
  for (const Form& f : read_forms()) {
    const std::string error = error_of(f.text);
    INFO(f.text << "  " << error);
    CHECK(error.empty() == f.legal);
    (f.legal ? taken : refused) += 1;
  }
  CHECK(taken > 700);
  CHECK(refused > 400);
}

TEST_CASE("forms that PTX forbids and ptxas lets pass are refused") {
  CHECK(error_of("tcgen05.mma.cta_group::1.kind::i8 [%r1], %d1, %d2, %r3, %p1, 3;") != "");
}

TEST_CASE("a kernel has one cta_group, and targets before sm_100a have none") {
  const std::string one = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;";
  CHECK(error_of(one + one) == "");
  CHECK(error_of(one + "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;") != "");
  CHECK_THROWS_AS(Module::from_ptx(kernel(one)), Error);
}
