// The text comes from a file, all else from the plan: the manifest, and what wrote each line that is still there.
#include "cli/generate/edited_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "base/ascii.hpp"
#include "cli/generate/compiler_message.hpp"
#include "runtime/support/files.hpp"

namespace kiln::cli {
namespace {

using Lines = std::vector<std::string_view>;

Lines lines_of(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// Line pairs of two texts with as many equal pairs as possible; far too much text for that has none.
class LongestCommon {
 public:
  LongestCommon(const Lines& a, const Lines& b, std::size_t begin, std::size_t end_a, std::size_t end_b)
      : begin_(begin), rows_(end_a - begin), columns_(end_b - begin), a_(a), b_(b) {
    constexpr std::size_t kMostCells = 20'000'000;
    if (rows_ * columns_ > kMostCells) rows_ = columns_ = 0;
    length_.assign((rows_ + 1) * (columns_ + 1), 0);
    for (std::size_t i = rows_; i-- > 0;) {
      for (std::size_t j = columns_; j-- > 0;)
        at(i, j) = same(i, j) ? static_cast<std::uint16_t>(at(i + 1, j + 1) + 1)
                              : std::max(at(i + 1, j), at(i, j + 1));
    }
  }

  template <class Visit>
  void for_each_pair(Visit visit) {
    for (std::size_t i = 0, j = 0; i < rows_ && j < columns_;) {
      if (same(i, j)) {
        visit(begin_ + i++, begin_ + j++);
      } else {
        at(i + 1, j) >= at(i, j + 1) ? ++i : ++j;
      }
    }
  }

 private:
  std::uint16_t& at(std::size_t i, std::size_t j) { return length_[i * (columns_ + 1) + j]; }
  bool same(std::size_t i, std::size_t j) const { return a_[begin_ + i] == b_[begin_ + j]; }

  std::size_t begin_, rows_, columns_;
  const Lines &a_, &b_;
  std::vector<std::uint16_t> length_;
};

/// Origins of the lines of `text`, which was made of `emitted`.
std::vector<LineOrigin> origins_of(const KernelSource& emitted, const std::string& text,
                                   const std::string& path) {
  static std::set<std::string> paths;  // an origin names its file for as long as the program runs
  const std::string_view file = *paths.insert(path).first;
  const Lines a = lines_of(emitted.text), b = lines_of(text);
  std::vector<LineOrigin> origins(b.size());
  for (std::size_t i = 0; i < b.size(); ++i) origins[i] = {file, static_cast<int>(i + 1)};
  const auto keep = [&](std::size_t from, std::size_t to) {
    if (from < emitted.origins.size()) origins[to] = emitted.origins[from];
  };
  std::size_t begin = 0, end_a = a.size(), end_b = b.size();
  for (; begin < end_a && begin < end_b && a[begin] == b[begin]; ++begin) keep(begin, begin);
  for (; end_a > begin && end_b > begin && a[end_a - 1] == b[end_b - 1]; --end_a, --end_b)
    keep(end_a - 1, end_b - 1);
  LongestCommon(a, b, begin, end_a, end_b).for_each_pair(keep);
  return origins;
}

/// The code without its comments.
std::string without_comments(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t begin = std::min(std::min(text.find("//"), text.find("/*")), text.size());
    out += text.substr(0, begin);
    text.remove_prefix(begin);
    if (text.empty()) break;
    const std::size_t end = text[1] == '/' ? text.find('\n') : text.find("*/", 2);
    text.remove_prefix(end == std::string_view::npos ? text.size() : text[1] == '/' ? end : end + 2);
    out += ' ';
  }
  return out;
}

bool has_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_ascii_word(text[at - 1])) && (end == text.size() || !is_ascii_word(text[end])))
      return true;
  }
  return false;
}

/// The target that the head comment of an emitted kernel states; empty without one.
std::string_view stated_target(std::string_view text) {
  constexpr std::string_view kHead = "// Config: {", kKey = "\"target\":\"";
  const std::size_t head = text.find(kHead);
  if (head == std::string_view::npos) return {};
  text = text.substr(head, text.find('\n', head) - head);
  const std::size_t key = text.find(kKey);
  if (key == std::string_view::npos) return {};
  text.remove_prefix(key + kKey.size());
  return text.substr(0, text.find('"'));
}

void check_text(const KernelSource& source) {
  const Manifest& manifest = source.manifest;
  if (const std::string_view target = stated_target(source.text);
      !target.empty() && target != manifest.target)
    throw Error(ErrorCode::bad_input, fmt::format("--source: '{}' is a kernel for {}, the config's is for {}",
                                                  source.file, target, manifest.target));
  if (source.text.find_first_not_of(" \t\r\n") == std::string::npos)
    throw Error(ErrorCode::bad_input, fmt::format("--source: '{}' is empty", source.file));
  if (!has_word(without_comments(source.text), manifest.entry))
    throw Error(ErrorCode::bad_input,
                fmt::format("--source: '{}' has no kernel '{}', which is the config's; `kiln generate` "
                            "writes the one to edit",
                            source.file, manifest.entry));
}

template <class Make>
auto made(const KernelSource& source, Make make) {
  if (source.file.empty()) return make();
  try {
    return make();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::compile) throw;
    throw in_one_line(error, source);
  }
}

}  // namespace

KernelSource source_of(const Plan& plan, const std::string& path) {
  KernelSource source = generate(plan);
  if (path.empty()) return source;
  std::string text = read_text(path);
  source.origins = origins_of(source, text, path);
  source.text = std::move(text);
  source.file = path;
  source.head_bytes = 0;  // where a head comment ends is unknown: all of it makes the cache key
  check_text(source);
  return source;
}

std::shared_ptr<const Binary> compiled(Runtime& runtime, const KernelSource& source) {
  return made(source, [&] { return runtime.compile(source); });
}

std::shared_ptr<Kernel> loaded(Runtime& runtime, const KernelSource& source) {
  return made(source, [&] { return runtime.load(source); });
}

}  // namespace kiln::cli
