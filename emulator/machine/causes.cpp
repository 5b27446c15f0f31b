#include "emulator/machine/causes.hpp"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <utility>

namespace kiln::emulator {
namespace {

bool one_of(std::string_view kind, std::initializer_list<std::string_view> kinds) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

/// Kinds that a missing barrier shows as, whatever the memory and the distance of the two parties.
std::string family(const std::string& kind) {
  return one_of(kind, {"shared-race", "warp-race", "global-race", "tmem-race"}) ? "race" : kind;
}

/// How many instructions that synchronise come before a line: what lies between two of them shares its
/// missing synchronisation.
std::string region(const Module::Impl& m, int line) {
  const auto& lines = m.synchronisations;
  return std::to_string(std::upper_bound(lines.begin(), lines.end(), line) - lines.begin());
}

/// Either may be the one that came later.
std::string pair_of(std::string a, std::string b) {
  if (b < a) std::swap(a, b);
  return a + " | " + b;
}

std::string source(const Site& s, bool with_caller) {
  std::string out = s.source_file + ':' + std::to_string(s.source_line);
  if (with_caller && s.caller_line != 0) out += '<' + s.caller_file + ':' + std::to_string(s.caller_line);
  return out;
}

/// A pair inside one call of a function is the function's mistake, wherever it is called; otherwise the callers count.
std::string source_pair(const Finding& f) {
  if (!f.has_other) return source(f.site, true);
  const bool one_call =
      f.site.caller_line == f.other.caller_line && f.site.caller_file == f.other.caller_file;
  return pair_of(source(f.site, !one_call), source(f.other, !one_call));
}

std::string shape(const ptx::Instruction& in) {
  std::string out(in.opcode);
  for (const std::string_view m : in.modifiers) (out += '.') += m;
  return out;
}

/// The instruction at a line by itself, after the one before it, and before the one that follows.
struct Shapes {
  std::string plain, after, before;
};
Shapes shapes(const Module::Impl& m, int line) {
  for (const ptx::Function& f : m.ast.functions) {
    if (f.body.empty() || line < f.body.front().line || line > f.body.back().line) continue;
    const auto it = std::lower_bound(f.body.begin(), f.body.end(), line,
                                     [](const ptx::Instruction& in, int at) { return in.line < at; });
    if (it == f.body.end() || it->line != line) break;
    const std::string plain = f.name + ' ' + shape(*it);
    return {plain, it == f.body.begin() ? "" : shape(*std::prev(it)) + " < " + plain,
            std::next(it) == f.body.end() ? "" : plain + " > " + shape(*std::next(it))};
  }
  return {};
}

/// What a finding's message says was missed, "'x'"; without one the kind of access.
std::string object(const Finding& f) {
  const std::size_t first = f.message.find('\''), last = f.message.find('\'', first + 1);
  if (last != std::string::npos) return f.message.substr(first, last - first);
  return f.site.ptx_text.substr(0, f.site.ptx_text.find_first_of(" \t"));
}

std::string joined(const std::string& kind, const std::string& text) {
  std::string out = kind;
  out += ' ';
  return out += text;
}

/// Copies of an unrolled loop's body: at its first copy what comes before differs, at its last what follows. Or one
/// instruction meets several copies of another.
void add_shapes(const Module::Impl& m, const Finding& f, const std::string& kind,
                std::vector<std::string>& out) {
  const Shapes here = shapes(m, f.site.ptx_line);
  if (!f.has_other) {
    for (const std::string& one : {here.after, here.before})
      if (!one.empty()) out.push_back(joined(kind, one));
    return;
  }
  const Shapes there = shapes(m, f.other.ptx_line);
  for (const std::string& one : {here.after, here.before})
    for (const std::string& other : {there.after, there.before})
      if (!one.empty() && !other.empty()) out.push_back(joined(kind, pair_of(one, other)));
  out.push_back(kind + ' ' + std::to_string(f.site.ptx_line) + " with " + there.plain);
  out.push_back(kind + ' ' + std::to_string(f.other.ptx_line) + " with " + here.plain);
}

}  // namespace

std::vector<std::string> causes_of(const Module::Impl& m, const Finding& f) {
  const std::string kind = family(f.kind);
  const bool lines = f.site.source_line != 0 && (!f.has_other || f.other.source_line != 0);
  std::vector<std::string> out;
  if (one_of(kind, {"race", "async-memory", "missing-proxy-fence", "async-register", "missing-wgmma-fence",
                    "uninitialized-register", "warp-mask"}) ||
      (kind == "uninitialized-read" && f.has_other)) {
    const std::string here = region(m, f.site.ptx_line);
    out.push_back(kind + " #" + (f.has_other ? pair_of(here, region(m, f.other.ptx_line)) : here));
    // A value that came from a wrong lane: the shuffle is the mistake, wherever the value goes.
    if (kind == "warp-mask" && f.has_other) {
      out.push_back(kind + " #" + region(m, f.other.ptx_line));
      if (lines) out.push_back(kind + ' ' + source(f.other, true));
    }
  } else if (one_of(kind, {"out-of-bounds", "misaligned", "uninitialized-read"})) {
    if (!lines) out.push_back(kind + " #" + region(m, f.site.ptx_line) + ' ' + object(f));
  } else if (!lines) {
    return {kind + ' ' + pair_of(std::to_string(f.site.ptx_line), std::to_string(f.other.ptx_line))};
  }
  if (lines)
    out.push_back(kind + ' ' + source_pair(f));
  else
    add_shapes(m, f, kind, out);
  return out;
}

}  // namespace kiln::emulator
