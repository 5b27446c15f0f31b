#include "driver/link.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string_view>

namespace kiln::driver {
namespace {

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%' || c == '.';
}

/// A directive at module scope.
struct Statement {
  enum class Kind {
    version,
    target,
    address_size,
    file,
    section,
    function,
    variable,
    other
  } kind = Kind::other;
  std::string text, name, linkage;  ///< linkage: "", ".visible", ".extern", ".weak", ".common"
  bool entry = false, body = false;
};
struct Unit {
  std::vector<Statement> statements;
  std::set<std::string> used;  ///< every name in it
  int files = 0;
};

/// Calls `body` with each name of a text: where it begins and ends. Strings and comments are no names.
template <class F>
void for_names(std::string_view text, const F& body) {
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '"') {
      i = std::min(text.find('"', i + 1), text.size() - 1) + 1;
    } else if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size());
    } else if (text.substr(i, 2) == "/*") {
      i = std::min(text.find("*/", i), text.size() - 2) + 2;
    } else if (is_name(text[i])) {
      const std::size_t begin = i;
      while (i < text.size() && is_name(text[i])) ++i;
      body(begin, i);
    } else {
      ++i;
    }
  }
}

/// Where the statement that begins at `i` ends: a line for what has no semicolon, else the semicolon or brace at depth 0.
std::size_t end_of(std::string_view text, std::size_t i, bool line) {
  int depth = 0;
  bool value = false;
  for (; i < text.size(); ++i) {
    const char c = text[i];
    if (line && c == '\n') return i + 1;
    if (c == '"') i = std::min(text.find('"', i + 1), text.size() - 1);
    if (text.substr(i, 2) == "//") i = std::min(text.find('\n', i), text.size()) - 1;
    if (c == '=') value = true;
    if (c == '{') ++depth;
    if (c == '}' && --depth == 0 && !value) return i + 1;
    if (c == ';' && depth == 0) return i + 1;
  }
  return text.size();
}

void describe(Statement& s) {
  using Kind = Statement::Kind;
  int parentheses = 0;
  std::size_t last = 0;
  bool named = false;
  for_names(s.text, [&](std::size_t begin, std::size_t end) {
    for (; last < begin; ++last) {
      parentheses += s.text[last] == '(' ? 1 : s.text[last] == ')' ? -1 : 0;
      named |= parentheses == 0 && !s.name.empty() && std::string_view("=[{(;").find(s.text[last]) < 5;
    }
    last = end;
    if (named || parentheses != 0) return;
    const std::string word = s.text.substr(begin, end - begin);
    if (word == ".visible" || word == ".extern" || word == ".weak" || word == ".common") s.linkage = word;
    if (word == ".version") s.kind = Kind::version;
    if (word == ".target") s.kind = Kind::target;
    if (word == ".address_size") s.kind = Kind::address_size;
    if (word == ".file") s.kind = Kind::file;
    if (word == ".section") s.kind = Kind::section;
    if (word == ".func" || word == ".entry") s.kind = Kind::function, s.entry = word == ".entry";
    if (s.kind == Kind::other && (word == ".global" || word == ".const" || word == ".shared"))
      s.kind = Kind::variable;
    if (word[0] == '.' || (s.kind != Kind::function && s.kind != Kind::variable)) return;
    if (std::isdigit(static_cast<unsigned char>(word[0])) != 0) return;  // an alignment
    s.name = word;
    if (s.kind == Kind::function) named = true;
  });
  s.body = s.kind == Kind::function && s.text.back() == '}';
}

Unit read(std::string_view text) {
  Unit out;
  for (std::size_t i = 0; i < text.size();) {
    if (std::isspace(static_cast<unsigned char>(text[i])) != 0 || text[i] == '\0') {
      ++i;
      continue;
    }
    if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    const auto begins = [&](std::string_view word) { return text.substr(i, word.size()) == word; };
    const bool line = begins(".version") || begins(".target") || begins(".address_size") || begins(".file");
    const std::size_t end = end_of(text, i, line);
    Statement s;
    s.text = text.substr(i, end - i);
    describe(s);
    if (s.kind == Statement::Kind::file) ++out.files;
    for_names(s.text, [&](std::size_t b, std::size_t e) { out.used.insert(s.text.substr(b, e - b)); });
    out.statements.push_back(std::move(s));
    i = end;
  }
  return out;
}

bool defines(const Statement& s) {
  return !s.name.empty() && s.linkage != ".extern" &&
         (s.kind == Statement::Kind::variable || (s.kind == Statement::Kind::function && s.body));
}

/// Those that are needed: with kernels, and what they refer to.
std::vector<const Unit*> needed(const std::vector<Unit>& units) {
  std::vector<const Unit*> in, out;
  for (const Unit& u : units) {
    const bool kernels = std::any_of(u.statements.begin(), u.statements.end(), [](const Statement& s) {
      return s.entry && s.body && s.linkage != ".weak";
    });
    (kernels || units.size() == 1 ? in : out).push_back(&u);
  }
  for (std::size_t i = 0; i < out.size();) {
    const auto& all = out[i]->statements;
    const bool wanted = std::any_of(all.begin(), all.end(), [&](const Statement& s) {
      return defines(s) && !s.linkage.empty() &&
             std::any_of(in.begin(), in.end(), [&](const Unit* u) { return u->used.count(s.name) != 0; });
    });
    if (!wanted) {
      ++i;
      continue;
    }
    in.push_back(out[i]);
    out.erase(out.begin() + static_cast<std::ptrdiff_t>(i));
    i = 0;
  }
  return in;
}

/// `text` with names of its module's own made different, and its files counted on from `files`.
std::string renamed(const std::string& text, const std::set<std::string>& own, std::size_t unit, int files) {
  std::string out;
  std::size_t done = 0;
  std::string before;
  for_names(text, [&](std::size_t begin, std::size_t end) {
    const std::string word = text.substr(begin, end - begin);
    const bool label = word.starts_with("$L__info_string");
    const bool file = before == ".file" || before == ".loc" || before == "inlined_at";
    before = word;
    if (own.count(word) == 0 && !label && !file) return;
    out += text.substr(done, begin - done);
    out += file ? std::to_string(std::atoi(word.c_str()) + files) : word + "$unit" + std::to_string(unit);
    done = end;
  });
  return out + text.substr(done);
}

}  // namespace

std::string link_ptx(const std::vector<std::string>& texts, std::string& problem) {
  using Kind = Statement::Kind;
  std::vector<Unit> units;
  units.reserve(texts.size());
  for (const std::string& text : texts) units.push_back(read(text));
  const std::vector<const Unit*> in = needed(units);
  if (in.empty()) {
    problem = "there is no kernel in what is linked";
    return {};
  }
  std::map<std::string, int> definitions;
  for (const Unit* u : in)
    for (const Statement& s : u->statements)
      if (defines(s) && (s.linkage == ".visible" || s.entry) && ++definitions[s.name] > 1) {
        problem = "'" + s.name + "' is defined twice";
        return {};
      } else if (defines(s) && !s.linkage.empty()) {
        definitions.try_emplace(s.name, 0);
      }
  std::string head, sections, declarations, variables, functions;
  std::set<std::string> declared, defined;
  std::string version;
  int files = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    std::set<std::string> own;
    for (const Statement& s : in[i]->statements)
      if (!s.name.empty() && s.linkage.empty() && !s.entry) own.insert(s.name);
    for (const Statement& s : in[i]->statements) {
      const std::string text = renamed(s.text, own, i, files) + "\n";
      const std::string name = own.count(s.name) != 0 ? s.name + "$unit" + std::to_string(i) : s.name;
      if (s.kind == Kind::version) version = std::max(version, text);
      if ((s.kind == Kind::target || s.kind == Kind::address_size) && i == 0) head += text;
      if (s.kind == Kind::file || s.kind == Kind::section) sections += text;
      if (s.kind == Kind::variable) {
        const bool elsewhere = s.linkage == ".extern" && definitions.count(name) != 0;
        if (!elsewhere && defined.insert(name).second) variables += text;
      }
      if (s.kind != Kind::function) continue;
      if (s.body && defined.insert(name).second) functions += text;
      // What another module defines is declared as that has it.
      std::string head_of = text.substr(0, s.body ? text.find('{') : text.rfind(';'));
      if (s.entry || !declared.insert(name).second) continue;
      if (s.linkage == ".extern" && definitions.count(name) != 0)
        head_of.replace(head_of.find(".extern"), 7, ".visible");
      declarations += head_of + ";\n";
    }
    files += in[i]->files;
  }
  return version + head + sections + declarations + variables + functions;
}

}  // namespace kiln::driver
