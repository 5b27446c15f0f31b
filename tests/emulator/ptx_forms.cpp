// Every form of every instruction of sm_75 to sm_90a, as tests/data/ptx_forms.txt lists them, is known:
// parsed and decoded. What the forms do is held by the conformance suite and the tests beside this one.
#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

namespace {

struct PtxForm {
  std::string arch, text;
  bool known = true;
};

/// The texts that {{a|b}} stand for.
void unfold(const std::string& text, std::vector<std::string>& out) {
  const std::size_t begin = text.find("{{"),
                    end = begin == std::string::npos ? begin : text.find("}}", begin);
  if (end == std::string::npos || text.find('|', begin) > end) return out.push_back(text);
  std::istringstream choices(text.substr(begin + 2, end - begin - 2));
  for (std::string one; std::getline(choices, one, '|');)
    unfold(text.substr(0, begin) + one + text.substr(end + 2), out);
}

/// Lines "ARCH TEXT", or "ARCH ! TEXT" of what is known to be missing; {%r1..4} is {%r1,%r2,%r3,%r4}, {{a|b}} either.
std::vector<PtxForm> read_ptx_forms() {
  std::ifstream file(KILN_SOURCE_DIR "/tests/data/ptx_forms.txt");
  REQUIRE(file);
  std::vector<PtxForm> forms;
  static const std::regex range(R"(\{(%[a-z]+)(\d+)\.\.(\d+)\})");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    PtxForm f;
    std::istringstream in(line);
    in >> f.arch >> std::ws;
    f.known = in.peek() != '!';
    if (!f.known) in.get(), in >> std::ws;
    std::getline(in, f.text);
    for (std::smatch m; std::regex_search(f.text, m, range);) {
      std::string list = "{";
      for (int i = std::stoi(m[2]); i <= std::stoi(m[3]); ++i)
        list += (list.size() > 1 ? "," : "") + m[1].str() + std::to_string(i);
      f.text.replace(static_cast<std::size_t>(m.position()), static_cast<std::size_t>(m.length()),
                     list + "}");
    }
    std::vector<std::string> texts;
    unfold(f.text, texts);
    for (std::string& text : texts) forms.push_back({f.arch, std::move(text), f.known});
  }
  return forms;
}

/// A kernel of `forms`, which nobody runs.
std::string program_of_forms(const std::string& arch, std::span<const std::string> forms) {
  std::string text = ".version 9.0\n.target " + arch + R"(
.address_size 64
.file 1 "a.cu"
.global .texref tref;
.global .surfref sref;
.visible .global .align 16 .b8 gvar[64];
.const .align 16 .b8 cvar[64];
.func nothing() { ret; }
.func (.reg .b32 r) addreg(.reg .b32 a, .reg .b32 b) { add.u32 r, a, b; ret; }
.func (.param .b32 r) same(.param .b32 p) { .reg .b32 %a; ld.param.b32 %a, [p]; st.param.b32 [r], %a; ret; }
.func (.param .align 16 .b8 r[32]) packed(.param .align 16 .b8 p[32])
{ .reg .b32 %a; ld.param.b32 %a, [p]; st.param.b32 [r+8], %a; ret; }
.visible .entry k(.param .u64 p0, .param .align 64 .b8 map[128]) {
.reg .b8 %b<8>; .reg .b16 %h<64>; .reg .b32 %r<200>; .reg .f32 %f<200>; .reg .b64 %d<200>; .reg .pred %p<8>;
.reg .b128 %q<8>;
.shared .align 1024 .b8 smem[32768];
.local .align 16 .b8 loc[256];
)";
  for (const std::string& f : forms) text += "{ " + f + " }\n";
  return text + "ret; }\n";
}

}  // namespace

TEST_CASE("every form of every instruction is known") {
  std::map<std::string, std::vector<std::string>> by_arch;
  std::size_t count = 0;
  for (const PtxForm& f : read_ptx_forms()) {
    if (f.known) {
      by_arch[f.arch].push_back(f.text);
      ++count;
      continue;
    }
    INFO(f.text);
    CHECK(error_of(program_of_forms(f.arch, std::span(&f.text, 1))) != "");  // else take its mark away
  }
  CHECK(count > 20000);
  for (const auto& [arch, forms] : by_arch) {
    if (error_of(program_of_forms(arch, forms)).empty()) continue;
    for (const std::string& f : forms) {
      INFO(arch << " " << f);
      CHECK(error_of(program_of_forms(arch, std::span(&f, 1))) == "");
    }
  }
}
