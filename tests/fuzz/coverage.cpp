// What stands for libFuzzer where the compiler is g++: inputs are changed at random, and those that reach new code are
// kept. Its options are the ones of libFuzzer that are used here:
//
//   PROGRAM [-max_total_time=S] [-max_len=N] [-timeout=S] [-rss_limit_mb=N] [-seed=N] [-dict=FILE]
//           [-artifact_prefix=PREFIX] FOLDER...
//
// New inputs go to the first folder. A child process runs them. Where it dies, takes too long or too much memory, its
// input is kept as PREFIXcrash-N, PREFIXtimeout-N or PREFIXoom-N, and another child goes on.
//
// This file is compiled without instrumentation.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::size_t kEdges = std::size_t{1} << 18, kMostBytes = std::size_t{1} << 16;
std::uint8_t edges[kEdges];          // how often each was passed by the input at hand
std::uint8_t seen[kEdges];           // which orders of magnitude of that were ever seen
thread_local std::uintptr_t before;  // where the thread came from

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// What the child tells its parent, who outlives it.
struct Shared {
  std::atomic<std::uint64_t> inputs, corpus, reached;
  std::atomic<double> started;  ///< of the input at hand; 0: none
  std::size_t size;
  char bytes[kMostBytes];
};

struct Options {
  double seconds = 60, timeout = 60;
  std::size_t most_bytes = 4000, most_megabytes = 4096;
  std::uint64_t seed = std::random_device()();
  std::string dictionary, prefix;
  std::vector<std::string> folders;
};

Options read_options(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const std::size_t equal = arg.find('=');
    if (!arg.starts_with('-')) {
      o.folders.emplace_back(arg);
      continue;
    }
    const std::string_view name = arg.substr(0, equal);
    const std::string value(equal == std::string_view::npos ? "" : arg.substr(equal + 1));
    if (name == "-max_total_time") o.seconds = std::atof(value.c_str());
    if (name == "-timeout") o.timeout = std::atof(value.c_str());
    if (name == "-max_len")
      o.most_bytes = std::min<std::size_t>(std::strtoull(value.c_str(), nullptr, 10), kMostBytes);
    if (name == "-rss_limit_mb") o.most_megabytes = std::strtoull(value.c_str(), nullptr, 10);
    if (name == "-seed") o.seed = std::strtoull(value.c_str(), nullptr, 10);
    if (name == "-dict") o.dictionary = value;
    if (name == "-artifact_prefix") o.prefix = value;
  }
  return o;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The quoted words of libFuzzer's dictionaries.
std::vector<std::string> read_dictionary(const std::string& path) {
  std::vector<std::string> words;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const std::size_t open = line.find('"'), close = line.rfind('"');
    if (line.starts_with('#') || open == std::string::npos || close <= open) continue;
    words.push_back(line.substr(open + 1, close - open - 1));
  }
  return words;
}

class Mutator {
 public:
  Mutator(std::uint64_t seed, std::vector<std::string> words, std::size_t most)
      : random_(seed), words_(std::move(words)), most_(most) {}

  std::size_t below(std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(random_() % n); }

  std::string change(const std::vector<std::string>& corpus) {
    std::string text = corpus[below(corpus.size())];
    const std::size_t changes = std::size_t{1} << below(5);
    for (std::size_t i = 0; i < changes; ++i) change_once(text, corpus);
    if (text.size() > most_) text.resize(most_);
    return text;
  }

 private:
  void change_once(std::string& text, const std::vector<std::string>& corpus) {
    const std::size_t at = below(text.size() + 1), length = std::min(text.size() - at, below(32));
    switch (below(12)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ 1 << below(8));
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(random_());
        break;
      case 2:
        text.insert(at, 1, static_cast<char>(random_()));
        break;
      case 3:
        text.erase(at, length);
        break;
      case 4:
        text.insert(below(text.size() + 1), text.substr(at, length));
        break;
      case 5:  // the rest of another input
        if (const std::string& other = corpus[below(corpus.size())]; !other.empty())
          text.replace(at, std::string::npos, other, below(other.size()), std::string::npos);
        break;
      case 6:  // a piece of another input
        if (const std::string& other = corpus[below(corpus.size())]; !other.empty())
          text.insert(at, other, below(other.size()), below(64));
        break;
      case 7:
      case 8:
        if (!words_.empty()) text.insert(at, words_[below(words_.size())]);
        break;
      case 9:
        change_number(text, at);
        break;
      default:
        change_lines(text, at);
    }
  }

  /// The number at or behind `at` becomes another one.
  void change_number(std::string& text, std::size_t at) {
    static constexpr const char* kNumbers[] = {"0",
                                               "1",
                                               "-1",
                                               "2",
                                               "7",
                                               "31",
                                               "32",
                                               "33",
                                               "64",
                                               "127",
                                               "128",
                                               "255",
                                               "256",
                                               "65535",
                                               "65536",
                                               "2147483647",
                                               "2147483648",
                                               "4294967295",
                                               "4294967296",
                                               "9223372036854775807",
                                               "18446744073709551615",
                                               "1e30",
                                               "0.5",
                                               "1e-40",
                                               "1e400"};
    const std::size_t begin = text.find_first_of("0123456789", at);
    if (begin == std::string::npos) return;
    const std::size_t end = std::min(text.find_first_not_of("0123456789.", begin), text.size());
    text.replace(
        begin, end - begin,
        below(3) == 0 ? std::to_string(below(1000)) : std::string(kNumbers[below(std::size(kNumbers))]));
  }

  /// The line at `at` goes, comes twice, or moves.
  void change_lines(std::string& text, std::size_t at) {
    const std::size_t previous = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
    const std::size_t begin = previous == std::string::npos ? 0 : previous + 1;
    const std::size_t next = text.find('\n', begin);
    const std::size_t end = next == std::string::npos ? text.size() : next + 1;
    const std::string line = text.substr(begin, end - begin);
    const std::size_t kind = below(3);
    if (kind != 1) text.erase(begin, end - begin);
    if (kind == 0) return;
    const std::size_t to = text.find('\n', below(text.size() + 1));
    text.insert(to == std::string::npos ? text.size() : to + 1, line);
  }

  std::mt19937_64 random_;
  std::vector<std::string> words_;
  std::size_t most_;
};

/// Whether the last input passed an edge in a new order of magnitude.
bool is_new(Shared& shared) {
  bool found = false;
  for (std::size_t i = 0; i < kEdges; ++i) {
    if (edges[i] == 0) continue;
    const std::uint8_t count = edges[i];
    const auto order = static_cast<std::uint8_t>(1u << (count < 4     ? count - 1
                                                        : count < 8   ? 3
                                                        : count < 16  ? 4
                                                        : count < 32  ? 5
                                                        : count < 128 ? 6
                                                                      : 7));
    if (seen[i] == 0) shared.reached.fetch_add(1);
    found = found || (seen[i] & order) == 0;
    seen[i] |= order;
  }
  return found;
}

bool run(Shared& shared, const std::string& text) {
  std::memset(edges, 0, sizeof edges);
  before = 0;
  shared.size = std::min(text.size(), kMostBytes);
  std::memcpy(shared.bytes, text.data(), shared.size);
  shared.started = now();
  const std::vector<std::uint8_t> exact(text.begin(),
                                        text.begin() + static_cast<std::ptrdiff_t>(shared.size));
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  shared.started = 0;
  shared.inputs.fetch_add(1);
  return is_new(shared);
}

/// The life of a child. `deadly`: inputs that children died of.
[[noreturn]] void work(Shared& shared, const Options& o, std::uint64_t seed, double end,
                       const std::vector<std::string>& deadly) {
  Mutator mutator(seed, read_dictionary(o.dictionary), o.most_bytes);
  std::vector<std::string> corpus;
  shared.reached = 0;
  for (const std::string& folder : o.folders)
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::string text = read_file(entry.path());
      if (std::find(deadly.begin(), deadly.end(), text) != deadly.end()) continue;
      run(shared, text);
      corpus.push_back(std::move(text));
    }
  if (corpus.empty()) corpus.emplace_back();
  while (now() < end) {
    std::string text = mutator.change(corpus);
    if (!run(shared, text)) continue;
    std::ofstream(o.folders.front() + "/" + std::to_string(seed) + "-" + std::to_string(corpus.size()),
                  std::ios::binary)
        << text;
    corpus.push_back(std::move(text));
    shared.corpus = corpus.size();
  }
  std::_Exit(0);
}

std::size_t megabytes_of(pid_t child) {
  std::ifstream in("/proc/" + std::to_string(child) + "/statm");
  std::size_t all = 0, resident = 0;
  in >> all >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) >> 20;
}

}  // namespace

extern "C" void __sanitizer_cov_trace_pc() {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  const std::size_t edge = ((here ^ before) * 0x9e3779b97f4a7c15u) >> (64 - 18);
  if (edges[edge] != 255) ++edges[edge];
  before = here >> 1;
}

int main(int argc, char** argv) {
  const Options o = read_options(argc, argv);
  if (o.folders.empty()) return std::fprintf(stderr, "a folder of inputs is wanted\n"), 2;
  auto& shared = *new (
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared();
  const double begin = now(), end = begin + o.seconds;
  std::vector<std::string> deadly;
  double told = begin;
  for (std::uint64_t round = 0; now() < end; ++round) {
    const pid_t child = fork();
    if (child == 0) work(shared, o, o.seed + round, end, deadly);
    const char* what = nullptr;
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
      usleep(50000);
      const double started = shared.started;
      if (started > 0 && now() - started > o.timeout) what = "timeout";
      if (megabytes_of(child) > o.most_megabytes) what = "oom";
      if (what != nullptr) kill(child, SIGKILL);
      if (now() < told + 10) continue;
      told = now();
      std::printf("#%llu cov: %llu corp: %llu exec/s: %.0f found: %zu\n",
                  static_cast<unsigned long long>(shared.inputs),
                  static_cast<unsigned long long>(shared.reached),
                  static_cast<unsigned long long>(shared.corpus),
                  static_cast<double>(shared.inputs) / (told - begin), deadly.size());
      std::fflush(stdout);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
    deadly.emplace_back(shared.bytes, shared.size);
    std::ofstream(o.prefix + (what == nullptr ? "crash" : what) + "-" + std::to_string(o.seed) + "-" +
                      std::to_string(deadly.size()),
                  std::ios::binary)
        << deadly.back();
    shared.started = 0;
    if (deadly.size() == 200) break;  // enough to look at
  }
  std::printf("#%llu cov: %llu found: %zu done\n", static_cast<unsigned long long>(shared.inputs),
              static_cast<unsigned long long>(shared.reached), deadly.size());
  return deadly.empty() ? 0 : 1;
}
