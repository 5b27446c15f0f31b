// Random score expressions, differentially: what the kernel's code computes on the emulated devices (NVIDIA's by
// NVRTC, AMD's by clang) and what the float64 reference computes lie both within the interval that the language's
// definition leaves. Each round is one program of many expressions. A few seconds from a fixed seed; with
// KILN_FUZZ_MINUTES=N that long, from KILN_FUZZ_SEED or a new one, which is printed; KILN_FUZZ_TEXT is the one
// expression instead of random ones.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>

#include <kiln/emulator/amdgcn.hpp>
#include <kiln/emulator/emulator.hpp>
#include <kiln/runtime.hpp>

#include "generator/emit/prelude.hpp"
#include "generator/expression/emit.hpp"
#include "generator/systems/cdna/score_dialect.hpp"
#include "tests/emulated_options.hpp"
#include "tests/expressions/argument.hpp"
#include "tests/expressions/interval.hpp"
#include "tests/expressions/random_expression.hpp"
#include "tests/runtime/support.hpp"

using namespace kiln;
using namespace kiln::test;
using expression::Expression;

namespace {

constexpr int kPlaces = 64;  // lanes of the one block

struct Case {
  std::string text;
  Expression expression;
};
struct Place {
  float score;
  ScorePlace at;
};

std::vector<Case> draw_cases(std::mt19937_64& random, std::size_t count) {
  std::vector<Case> cases;
  const char* given = std::getenv("KILN_FUZZ_TEXT");
  while (cases.size() < (given == nullptr ? count : 1)) {
    const std::string text =
        given != nullptr ? given : random_expression(random, 1 + static_cast<int>(random() % 6));
    auto parsed = expression::parse(text);
    if (const auto* error = std::get_if<expression::ParseError>(&parsed)) {
      // Nothing else is refused: the text keeps to the grammar.
      const bool limit = error->reason.find("characters") != std::string::npos ||
                         error->reason.find("deep") != std::string::npos;
      const bool integers = error->reason.find("an integer is wanted") != std::string::npos;
      if (!limit && !integers) FAIL_CHECK(expression::describe(*error, text));
      continue;
    }
    cases.push_back({text, std::get<Expression>(std::move(parsed))});
  }
  return cases;
}

std::vector<Place> draw_places(std::mt19937_64& random) {
  std::vector<Place> places;
  std::uniform_real_distribution<float> near(-10.0F, 10.0F), exponent(-38.0F, 38.0F);
  const float special[] = {
      0.0F, -0.0F, 1.0F, -1.0F, 3e38F, -3e38F, 1e-30F, 0.5F, -std::numeric_limits<float>::infinity()};
  for (int i = 0; i < kPlaces; ++i) {
    Place place{};
    const auto kind = random() % 8;
    if (kind == 0) {
      place.score = special[random() % std::size(special)];
    } else if (kind == 1) {
      place.score = std::pow(10.0F, exponent(random)) * (random() % 2 == 0 ? 1.0F : -1.0F);
    } else {
      place.score = near(random);
    }
    const auto most = std::int64_t{1} << (1 + random() % 23);
    const auto below = [&](std::int64_t n) {
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
    };
    place.at.seqlen_q = 1 + below(most), place.at.seqlen_k = 1 + below(most);
    place.at.q = below(place.at.seqlen_q), place.at.k = below(place.at.seqlen_k);
    place.at.b = below(17), place.at.h = below(130);
    places.push_back(place);
  }
  return places;
}

/// One kernel of all expressions: out[e * kPlaces + lane].
KernelSource source_of(const std::vector<Case>& cases, const std::string& target) {
  const bool amd = target.starts_with("gfx");
  const expression::Names names = amd ? cdna::score_dialect().names : expression::Names{};
  Prelude prelude(amd ? "cdna.hip" : "nvidia.cuh");
  prelude.use("types");
  for (const std::string& section : {names.exp2, names.log2, names.rcp}) prelude.use(section);
  std::string body = prelude.lines().text();
  body += amd ? "#define kInfinity __builtin_inff()\n" : "#define kInfinity __int_as_float(0x7f800000)\n";
  for (std::size_t e = 0; e < cases.size(); ++e) {
    body += fmt::format(
        "__device__ {} float f{}(float score, int b, int h, int q, int k, int seqlen_q, int seqlen_k) {{\n{}\n}}\n",
        amd ? "static" : "__noinline__", e, expression::to_cpp(cases[e].expression, names));
  }
  body += amd ? "extern \"C\" __global__ __attribute__((amdgpu_flat_work_group_size(64, 64))) void "
              : "extern \"C\" __global__ void ";
  body += "kernel(const float* scores, const int* at, float* out) {\n";
  body += amd ? "const int lane = (int)__builtin_amdgcn_workitem_id_x();\n"
              : "const int lane = (int)threadIdx.x;\n";
  body +=
      "const float score = scores[lane];\nconst int b = at[6 * lane], h = at[6 * lane + 1], q = at[6 * lane + 2],\n"
      "  k = at[6 * lane + 3], seqlen_q = at[6 * lane + 4], seqlen_k = at[6 * lane + 5];\n";
  for (std::size_t e = 0; e < cases.size(); ++e)
    body += fmt::format("out[{} + lane] = f{}(score, b, h, q, k, seqlen_q, seqlen_k);\n", e * kPlaces, e);
  KernelSource source = make_source("expressions", body + "}\n");
  source.manifest.target = target, source.manifest.num_threads = kPlaces;
  return source;
}

std::vector<float> run(const Binary& binary, const std::vector<Place>& places, std::size_t cases) {
  emulator::GlobalMemory memory;
  std::vector<float> scores, out(cases * kPlaces);
  std::vector<int> at;
  for (const Place& place : places) {
    scores.push_back(place.score);
    for (const std::int64_t x :
         {place.at.b, place.at.h, place.at.q, place.at.k, place.at.seqlen_q, place.at.seqlen_k})
      at.push_back(static_cast<int>(x));
  }
  const auto upload = [&](const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    const std::uint64_t address = memory.allocate(bytes.size());
    memory.write(address, bytes);
    return address;
  };
  const std::uint64_t s = upload(scores), a = upload(at), o = memory.allocate(out.size() * sizeof(float));
  emulator::Report report;
  if (binary.ptx.empty()) {
    emulator::amdgcn::Launch launch;
    launch.block = {kPlaces, 1, 1};
    launch.args = {argument(s), argument(a), argument(o)};
    const auto module = emulator::amdgcn::Module::from_code_object(std::as_bytes(std::span(binary.image)));
    report = emulator::amdgcn::launch(memory, module, launch);
  } else {
    emulator::Launch launch;
    launch.block = {kPlaces, 1, 1};
    launch.args = {argument(s), argument(a), argument(o)};
    report = emulator::launch(memory, emulator::Module::from_ptx(binary.ptx), launch);
  }
  for (const auto& finding : report.findings) FAIL_CHECK(finding.kind, ": ", finding.message);
  memory.read(o, std::as_writable_bytes(std::span(out)));
  return out;
}

struct Tally {
  std::size_t values = 0, sharp = 0, wrong = 0;
};

std::string text_of(double x) {
  return fmt::format("{:.9g}", x);
}

void compare(const Case& c, const Place& place, float got, const std::string& target, Tally& tally) {
  const Interval bound = bounds(c.expression, place.score, place.at);
  const double wanted = evaluate(c.expression, place.score, place.at);
  ++tally.values;
  tally.sharp += bound.sharp() ? 1 : 0;
  if (bound.holds(got) && bound.holds(wanted)) return;
  if (++tally.wrong > 5) return;  // of one cause, mostly
  FAIL_CHECK(target, ": ", c.text, " of score ", text_of(place.score), ", b ", place.at.b, ", h ", place.at.h,
             ", q ", place.at.q, ", k ", place.at.k, ", seqlen_q ", place.at.seqlen_q, ", seqlen_k ",
             place.at.seqlen_k, ": kernel ", text_of(got), ", reference ", text_of(wanted), ", bounds ",
             text_of(bound.low), " .. ", text_of(bound.high), std::string(bound.nan ? " or NaN" : ""));
}

void round(Runtime& runtime, std::uint64_t seed, const std::vector<std::string>& targets, std::size_t count,
           Tally& tally) {
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const std::vector<Case> cases = draw_cases(random, count);
  const std::vector<Place> places = draw_places(random);
  for (const std::string& target : targets) {
    const std::vector<float> out = run(*runtime.compile(source_of(cases, target)), places, cases.size());
    for (std::size_t e = 0; e < cases.size(); ++e) {
      for (std::size_t i = 0; i < kPlaces; ++i)
        compare(cases[e], places[i], out[e * kPlaces + i], target, tally);
    }
  }
}

std::optional<std::uint64_t> setting(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? std::nullopt : std::optional(std::strtoull(text, nullptr, 10));
}

}  // namespace

TEST_CASE("random expressions: kernels and the reference agree with the language") {
  RuntimeOptions options = test::emulated_options();
  options.cache_dir = "";
  Runtime runtime(options);
  std::vector<std::string> targets = {"sm_80"};
  for (const auto& choice : runtime.doctor().choices)
    if (choice.target == "gfx942" && !choice.compiler.empty()) targets.push_back(choice.target);
  const std::uint64_t minutes = setting("KILN_FUZZ_MINUTES").value_or(0);
  std::uint64_t seed = setting("KILN_FUZZ_SEED").value_or(minutes > 0 ? std::random_device()() : 20261123);
  MESSAGE("KILN_FUZZ_SEED=", seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(minutes);
  Tally tally;
  std::size_t rounds = 0;
  do {
    round(runtime, seed + rounds, targets, 60, tally);
    ++rounds;
  } while (minutes == 0 ? rounds < 3 : std::chrono::steady_clock::now() < end && tally.wrong == 0);
  const std::size_t expressions = 60 * rounds;
  MESSAGE(expressions, " expressions, ", tally.values, " values, ", tally.sharp,
          " of them known to a thousandth");
  CHECK(tally.wrong == 0);
  CHECK(tally.sharp * 2 > tally.values);
}

TEST_CASE("elements of captured tensors: types, ranks and what is refused") {
  const std::vector<CapturedTensor> tensors{{"bias", DType::bf16}, {"of", DType::i32}};
  const auto refused = [&](std::string_view text) -> std::string {
    const auto parsed = expression::parse(text, tensors);
    const auto* error = std::get_if<expression::ParseError>(&parsed);
    return error == nullptr ? "" : expression::describe(*error, text);
  };
  const auto says = [&](std::string_view text, std::string_view part) {
    const std::string message = refused(text);
    CAPTURE(message);
    CHECK(message.find(part) != std::string::npos);
  };
  CHECK(refused("score + bias[h, q] + of[b, of[b, k]]").empty());
  CHECK(refused("where(-of[k] < 0 && abs(of[k]) != 3, bias[min(of[k], 7)], score)").empty());
  says("score + bias[h]", "the tensor 'of' is not used");
  says("bias[score] + of[0]", "an index of bias is an integer, not a real number");
  says("bias[h] + bias[h, q] + of[0]", "bias has 1 dimension in one place and 2 here");
  says("bias[b, h, q, k, 0] + of[0]", "at most 4 dimensions");
  says("bias + of[0]", "'[' is missing after the tensor bias");
  says("bias[h, of[0]", "']' is missing");
  says("bias[h + of[0]]", "sums and products of int32 elements are real numbers");
  says("bais[h] + of[0]", "no tensor is called 'bais'");

  auto parsed = expression::parse("score + bias[h, q] - bias[h, k] + of[k] - of[k]", tensors);
  const auto& tree = std::get<Expression>(parsed);
  CHECK(tree.tensors[0].indices[0] == expression::Variable::h);
  CHECK(!tree.tensors[0].indices[1]);  // q and k
  const ScorePlace place{.b = 0, .h = 1, .q = 5, .k = 2, .seqlen_q = 9, .seqlen_k = 9};
  // [h, 5] is past the end of three: the last one.
  CHECK(evaluate(tree, 1.0, place, {{{2, 3}, {0, 1, 2, 10, 20, 40}}, {{4}, {7, 7, 7, 7}}}) == 1 + 40 - 40);
  CHECK(evaluate(tree, 1.0, place, {{{1, 3}, {1, 2, 4}}, {{1}, {7}}}) == 1 + 4 - 4);

  CHECK(expression::name_problem("bias_2").empty());
  for (const char* name :
       {"", "Bias", "2d", "a-b", "q", "score", "where", "inf", "a23456789012345678901234567890123"})
    CHECK(!expression::name_problem(name).empty());
}

TEST_CASE("bounds are the definition's, and not everything") {
  const auto of = [](std::string_view text, double score) {
    auto parsed = expression::parse(text);
    REQUIRE(std::holds_alternative<Expression>(parsed));
    return bounds(std::get<Expression>(parsed), score,
                  {.b = 1, .h = 2, .q = 3, .k = 7, .seqlen_q = 10, .seqlen_k = 20});
  };
  CHECK(of("score * 2 + 1", 3).holds(7));
  CHECK(!of("score * 2 + 1", 3).holds(7.00001));
  CHECK(of("(q - k) % 3", 0).holds(2));
  CHECK(!of("(q - k) % 3", 0).holds(-1));
  CHECK(of("idiv(q - k, 3)", 0).holds(-2));
  CHECK(!of("idiv(q - k, 3)", 0).holds(-1));
  CHECK(of("pow(score, 3)", -2).holds(-8));
  CHECK(!of("pow(score, 3)", -2).nan);
  CHECK(of("pow(score, 0.5)", -2).sharp());
  CHECK(of("pow(score, 0.5)", -2).nan);
  CHECK(of("score + inf - inf", 1).nan);
  CHECK(!of("where(score < 2, 5, 6)", 1).holds(6));
  CHECK(of("exp(score)", -200).holds(0));
  CHECK(of("tanh(score)", 1).holds(0.761594156));
  CHECK(!of("tanh(score)", 1).holds(0.7616));
}
