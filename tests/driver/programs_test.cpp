// `kiln emulate -- PROGRAM` over programs that nvcc compiles; without nvcc they are skipped, with a note.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <string>

#include "tests/driver/compile.hpp"

namespace {

using kiln::test::CommandResult;
using kiln::test::kPtx90;

std::string compile_program(const std::string& name, const std::string& options = kPtx90) {
  return kiln::test::compile("programs/" + name, "-lineinfo " + options);
}

CommandResult emulate_program(const std::string& program, const std::string& options = "--gpu H100") {
  return kiln::test::run_kiln("emulate " + options + " -- " + program);
}

}  // namespace

TEST_CASE("a program with the runtime inside") {
  const std::string program = compile_program("basics");
  if (program.empty()) return;
  const CommandResult r = emulate_program(program);
  CHECK(r.status == 0);
  CHECK(r.out == "n is 1000\nbasics: right\n");
  CHECK(r.err.find("no findings") != std::string::npos);
}

TEST_CASE("a program with the runtime as a library") {
  const std::string program = compile_program("basics", std::string(kPtx90) + " -cudart shared");
  if (program.empty()) return;
  const CommandResult r = emulate_program(program);
  CHECK(r.status == 0);
  CHECK(r.out == "n is 1000\nbasics: right\n");
}

TEST_CASE("a program for Blackwell on a B200, and nowhere else") {
  const std::string program = compile_program("blackwell", "-gencode arch=compute_100a,code=compute_100a");
  if (program.empty()) return;
  for (const char* gpu : {"--gpu b200", "--arch sm_100", "--arch sm_100a"}) {
    const CommandResult r = emulate_program(program, gpu);
    CHECK(r.status == 0);
    CHECK(r.out == "NVIDIA B200, 10.0, 148 SMs\nblackwell: right\n");
    CHECK(r.err.find("no findings") != std::string::npos);
  }
  CHECK(emulate_program(program, "--gpu B300").out ==
        "NVIDIA B300 SXM6 AC, 10.3, 148 SMs\nblackwell: WRONG\n");
  CHECK(emulate_program(program, "--gpu H200").out == "NVIDIA H200, 9.0, 132 SMs\nblackwell: WRONG\n");
}

TEST_CASE("a program for a B300, and nowhere else") {
  const std::string program = compile_program("blackwell", "-gencode arch=compute_103a,code=compute_103a");
  if (program.empty()) return;
  for (const char* gpu : {"--gpu b300", "--arch sm_103", "--arch sm_103a"}) {
    const CommandResult r = emulate_program(program, gpu);
    CHECK(r.status == 0);
    CHECK(r.out == "NVIDIA B300 SXM6 AC, 10.3, 148 SMs\nblackwell: right\n");
    CHECK(r.err.find("no findings") != std::string::npos);
  }
  CHECK(emulate_program(program, "--gpu B200").out == "NVIDIA B200, 10.0, 148 SMs\nblackwell: WRONG\n");
}

TEST_CASE("relocatable device code is linked when it is loaded") {
  // The second file is the first one's other half.
  const std::string program =
      compile_program("relocatable", std::string(kPtx90) + " -rdc=true " + KILN_SOURCE_DIR +
                                         "/tests/driver/programs/relocatable_other.cu");
  if (program.empty()) return;
  const CommandResult r = emulate_program(program);
  CHECK(r.status == 0);
  CHECK(r.out == "relocatable: right\n");
}

TEST_CASE("a program that opens libraries with the runtime inside, and the driver by name") {
  const std::string program = compile_program("opened", "-x c++ -cudart none");
  if (program.empty()) return;
  const std::string shared = std::string(kPtx90) + " -shared -Xcompiler -fPIC";
  for (const char* runtime : {"static", "shared"}) {
    const std::string library = compile_program("opened_library", shared + " -cudart " + runtime);
    const CommandResult r = emulate_program(program + " " + library);
    CHECK(r.status == 0);
    CHECK(r.out == "opened: right\n");
    CHECK(r.err.find("3 launches") != std::string::npos);
  }
}

TEST_CASE("machine code of NVRTC and of nvJitLink") {
  const std::string program =
      compile_program("jit_link", "-lnvrtc -lnvJitLink -L/usr/local/cuda/lib64/stubs -lcuda");
  if (program.empty()) return;
  const CommandResult r = emulate_program(program);
  CHECK(r.status == 0);
  CHECK(r.out == "jit_link: right\n");
}

TEST_CASE("streams, events and graphs, with either default stream") {
  for (const char* more : {"", " --default-stream per-thread"}) {
    const std::string program = compile_program("graphs", kPtx90 + std::string(more));
    if (program.empty()) return;
    const CommandResult r = emulate_program(program);
    CHECK(r.status == 0);
    CHECK(r.out == "graphs: right\n");
  }
}

TEST_CASE("conditional nodes, operations on memory, user objects, events of nodes") {
  const std::string program =
      compile_program("graph_parts", std::string(kPtx90) + " -L/usr/local/cuda/lib64/stubs -lcuda");
  if (program.empty()) return;
  const CommandResult r = emulate_program(program);
  CHECK(r.status == 0);
  CHECK_MESSAGE(r.out == "graph_parts: right\n", r.out, r.err);
}

TEST_CASE("managed memory, grid synchronisation, clusters") {
  const std::string program = compile_program("hopper");
  if (program.empty()) return;
  const CommandResult r = emulate_program(program, "--gpu H100 --max-instructions 4000000");
  CHECK(r.status == 0);
  CHECK(r.out == "hopper: right\n");
}

TEST_CASE("a convolution by im2col copies") {
  const std::string program = compile_program("im2col");
  if (program.empty()) return;
  for (const char* policy : {"eager", "lazy", "random"}) {
    const CommandResult r = emulate_program(program, std::string("--gpu H100 --policy ") + policy);
    CHECK(r.status == 0);
    CHECK_MESSAGE(r.out == "im2col: right\n", r.out, r.err);
  }
}

TEST_CASE("a multicast object of one device") {
  const std::string program =
      compile_program("multicast", std::string(kPtx90) + " -L/usr/local/cuda/lib64/stubs -lcuda");
  if (program.empty()) return;
  const CommandResult r = emulate_program(program);
  CHECK(r.status == 0);
  CHECK_MESSAGE(r.out == "multicast: right\n", r.out, r.err);
  const CommandResult plain = emulate_program(program + " plain");
  CHECK(plain.status == 1);
  CHECK(plain.out == "multicast: right\n");
  CHECK_MESSAGE(plain.err.find("in no multicast object") != std::string::npos, plain.err);
}

TEST_CASE("a missing barrier is reported with its line") {
  const std::string program = compile_program("race");
  if (program.empty()) return;
  const CommandResult text = emulate_program(program);
  CHECK(text.status == 1);
  CHECK(text.err.find("shared-race") != std::string::npos);
  CHECK(text.err.find("race.cu:9") != std::string::npos);
  CHECK(emulate_program(program, "--error-exitcode 42").status == 42);
  CHECK(emulate_program(program, "--findings off").status == 0);
  const auto json = emulate_program(program, "--json").json();
  CHECK(json.at("status") == 0);
  CHECK(json.at("launches") == 2);
  bool found = false;
  for (const auto& f : json.at("findings")) found |= f.at("kind") == "shared-race" && f.at("count") >= 2;
  CHECK(found);
}

TEST_CASE("a dependent launch has to wait where the launch before lets it begin") {
  const std::string program = compile_program("dependent");
  if (program.empty()) return;
  const CommandResult waits = emulate_program(program);
  CHECK(waits.status == 0);
  CHECK(waits.out == "dependent: right\n");
  const auto json = emulate_program(program + " early", "--gpu H100 --json").json();
  REQUIRE(json.at("findings").size() == 1);
  CHECK(json.at("findings")[0].at("kind") == "early-access");
  CHECK(json.at("findings")[0].dump().find("second") != std::string::npos);
}

TEST_CASE("a faulting kernel's error stays") {
  const std::string program = compile_program("fault");
  if (program.empty()) return;
  const CommandResult r = emulate_program(program);
  CHECK(r.out == "fault: seen\n");
  CHECK(r.status == 1);
  CHECK(r.err.find("out-of-bounds") != std::string::npos);
}

TEST_CASE("the program's own status, and what is not implemented") {
  const std::string program = compile_program("status");
  if (program.empty()) return;
  const CommandResult r = emulate_program(program);
  CHECK(r.status == 3);
  CHECK(r.err.find("cudaIpcGetMemHandle (2 times)") != std::string::npos);
}

TEST_CASE("a program of machine code alone is refused with what to do") {
  const std::string program = compile_program("status", "-gencode arch=compute_90,code=sm_90");
  if (program.empty()) return;
  const CommandResult r = emulate_program(program);
  CHECK(r.status == 5);
  CHECK(r.err.find(
            "machine code for sm_90 and no PTX: compile with -gencode arch=compute_90,code=compute_90") !=
        std::string::npos);
}

TEST_CASE("the GPU is chosen, and too old a one is refused") {
  const std::string program = compile_program("status");
  if (program.empty()) return;
  CHECK(emulate_program(program, "--arch sm_90").status == 3);
  const CommandResult r = emulate_program(program, "--arch sm_80");
  CHECK(r.status == 5);
  CHECK(r.err.find("its PTX is for sm_90, the GPU is sm_80") != std::string::npos);
}

TEST_CASE("programs that are none") {
  const CommandResult missing = emulate_program("./nowhere");
  CHECK(missing.status == 2);
  CHECK(kiln::test::is_one_line(missing.err));
  CHECK(emulate_program("", "").status == 2);
  CHECK(emulate_program("/bin/true", "--gpu Z80").status == 2);
  CHECK(emulate_program("/bin/true", "--gpu H100 --arch sm_90").status == 2);
  const CommandResult plain = emulate_program("/bin/sh -c 'echo a; exit 7'");
  CHECK(plain.status == 7);
  CHECK(plain.out == "a\n");
  CHECK(emulate_program("/bin/sh -c 'kill -9 $$'").status == 137);
}

TEST_CASE("mutants of a program: each synchronisation that it needs is noticed") {
  const std::string program = compile_program("exchange");
  if (program.empty()) return;
  const auto json = emulate_program(program, "--gpu H100 --mutate --kinds all --all-mutants --json").json();
  // Of `exchange` alone: `unused` is never launched.
  std::map<std::string, std::string> killed;
  for (const auto& m : json.at("list"))
    if (m.at("killed_by") != "") killed[m.at("kind")] = m.at("killed_by");
  CHECK(killed["barrier-removed"] == "uninitialized-read (lazy)");
  CHECK(killed["atomic-split"] == "warp-race (lazy)");
  CHECK(killed["shared-index"] == "out-of-bounds (lazy)");
  CHECK(killed["bound-off-by-one"] == "wrong-output (lazy)");
  CHECK(json.at("kinds").at("barrier-removed").at("mutants") == 1);
  CHECK(json.at("kinds").at("barrier-removed").at("killed") == 1);
  CHECK(json.at("kinds").at("global-index").at("survivors") == 0);
  const CommandResult only =
      emulate_program(program, "--gpu H100 --mutate --kinds barrier-removed --sample 1");
  CHECK(only.status == 0);
  CHECK(only.err.empty());
  CHECK(only.out.find("1 of 1 mutants killed") != std::string::npos);
  CHECK(emulate_program(program, "--gpu H100 --mutate --kinds nothing").status == 2);
}

TEST_CASE("a kind of finding that the unchanged program has kills no mutant; another kind does") {
  const std::string program = compile_program("known_finding");
  if (program.empty()) return;
  const auto mutate = [&](const char* argument) {
    return emulate_program(program + argument,
                           "--gpu H100 --mutate --kinds barrier-removed,global-index --all-mutants --json")
        .json();
  };
  const auto clean = mutate("").at("kinds");
  CHECK(clean.at("barrier-removed").at("mutants") == 1);
  CHECK(clean.at("barrier-removed").at("killed") == 1);
  const auto known = mutate(" early");
  CHECK(known.at("kinds").at("barrier-removed").at("mutants") == 1);
  CHECK(known.at("kinds").at("barrier-removed").at("survivors") == 1);
  CHECK(known.at("kinds").at("global-index").at("killed") ==
        known.at("kinds").at("global-index").at("mutants"));
  for (const auto& m : known.at("list"))
    if (m.at("kind") == "global-index") CHECK(m.at("killed_by") == "out-of-bounds (lazy)");
  CHECK(emulate_program(program + " early", "--gpu H100 --mutate --kinds barrier-removed")
            .out.find("the unchanged program has 1 finding of its own, which kills no mutant") !=
        std::string::npos);
}

TEST_CASE("mutants need a program that launches a kernel and ends") {
  CHECK(emulate_program("/bin/true", "--mutate").status == 2);
  const CommandResult killed = emulate_program("/bin/sh -c 'kill -9 $$'", "--mutate");
  CHECK(killed.status == 2);
  CHECK(kiln::test::is_one_line(killed.err));
}
