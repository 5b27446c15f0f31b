#include "generator/config/json_text.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace kiln {
namespace {

constexpr std::size_t kMaxDepth = 16;       ///< the deepest legal config has four levels
constexpr std::size_t kMaxMembers = 256;    ///< of one object; there are fewer than 100 keys
constexpr std::size_t kMaxBadNumbers = 16;  ///< each one costs another pass over the text

/// Builds the document while keeping the pointer of the current place.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(Violations& out) : out_(out) {}

  Json root;
  std::optional<std::pair<std::size_t, std::size_t>>
      bad_number;                           ///< begin and end offset of a number out of range
  std::optional<std::size_t> syntax_error;  ///< offset of broken syntax
  std::string syntax_message, bad_number_pointer;

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(value); }
  bool binary(binary_t&) override { return false; }  // JSON text has none
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    Level& level = levels_.back();
    if (level.seen.size() == kMaxMembers) {
      out_.push_back({level.pointer, "{...}",
                      "schema: an object of more than " + std::to_string(kMaxMembers) + " keys", ""});
      return false;
    }
    level.key = name;
    level.duplicate = !level.seen.insert(name).second;
    if (level.duplicate) {
      out_.push_back(
          {child_pointer(level.pointer, name), "twice", "schema: this key is given twice in one object", ""});
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string& token, const Json::exception& error) override {
    constexpr int kNumberOverflow = 406;
    if (error.id == kNumberOverflow) {
      bad_number = {position - std::min(position, token.size()), position};
      bad_number_pointer = here();
    } else {
      syntax_error = position;
      syntax_message = error.what();
    }
    return false;
  }

 private:
  struct Level {
    Json* value;
    std::string pointer;
    std::set<std::string> seen;
    std::string key;
    bool duplicate = false;
  };

  std::string here() const {
    if (levels_.empty()) return "";
    const Level& level = levels_.back();
    return child_pointer(level.pointer,
                         level.value->is_array() ? std::to_string(level.value->size()) : level.key);
  }

  /// The first of two equal keys wins; the second is an error anyway, but its value must go somewhere.
  Json* place(Json value) {
    if (levels_.empty()) return &(root = std::move(value));
    Level& level = levels_.back();
    if (level.value->is_array()) return &level.value->emplace_back(std::move(value));
    if (level.duplicate) {
      dropped_.push_back(std::make_unique<Json>(std::move(value)));
      return dropped_.back().get();
    }
    return &((*level.value)[level.key] = std::move(value));
  }

  bool put(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(Json value) {
    const std::string pointer = here();
    if (levels_.size() == kMaxDepth) {
      out_.push_back({pointer.substr(0, 80), "...",
                      "schema: nested deeper than " + std::to_string(kMaxDepth) + " levels", ""});
      return false;
    }
    // Stays valid while this level is open: its parent gains no member before it closes.
    Json* placed = place(std::move(value));
    levels_.push_back({placed, pointer, {}, "", false});
    return true;
  }

  bool close() {
    levels_.pop_back();
    return true;
  }

  Violations& out_;
  std::vector<Level> levels_;
  std::vector<std::unique_ptr<Json>> dropped_;
};

/// "line 3, column 7" of an offset, both from 1.
std::string place_of(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? before.size() : before.size() - newline - 1;
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  return "line " + std::to_string(line) + ", column " + std::to_string(std::max<std::size_t>(column, 1));
}

/// What the parser expected, without its own position and without echoing megabytes of input.
std::string reason_of(const std::string& message) {
  std::size_t begin = message.rfind("; expected ");
  std::string reason;
  if (begin != std::string::npos) {
    reason = message.substr(begin + 2);
  } else {
    begin = message.rfind(" - ");
    reason =
        begin == std::string::npos ? "" : message.substr(begin + 3, message.find("; last read") - begin - 3);
  }
  for (char& c : reason) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  }
  if (reason.size() > 100) reason = reason.substr(0, 97) + "...";
  return reason;
}

}  // namespace

bool nested_too_deep(std::string_view text) {
  constexpr int kLevels = 64;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted) {
      i += c == '\\' ? 1 : 0;
    } else if (c == '[' || c == '{') {
      if (++depth > kLevels) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

Json read_json(std::string_view text, Violations& out) {
  if (text.size() > kMaxConfigBytes) {
    out.push_back({"", "",
                   "schema: the text has " + std::to_string(text.size()) + " bytes, a config at most " +
                       std::to_string(kMaxConfigBytes),
                   ""});
    return nullptr;
  }
  // Where the parser would stop, and take what is before for all.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    out.push_back({"", "", "schema: broken JSON at " + place_of(text, nul) + ": a character of value 0", ""});
    return nullptr;
  }
  // A number out of range stops the parser. Its place is noted, the number blanked, and the text read again,
  // so that one bad number does not hide the other mistakes.
  std::string copy(text);
  std::vector<std::string> bad_pointers;
  Violations bad_numbers;
  for (;;) {
    Violations found;
    Builder builder(found);
    const bool complete = Json::sax_parse(copy.begin(), copy.end(), &builder);
    if (builder.bad_number && bad_numbers.size() < kMaxBadNumbers) {
      const auto [begin, end] = *builder.bad_number;
      const std::string number(text.substr(begin, end - begin));
      const std::string shown = number.size() > 40 ? number.substr(0, 37) + "..." : number;
      bad_numbers.push_back({builder.bad_number_pointer, shown, "schema: this number is out of range", ""});
      std::fill(copy.begin() + static_cast<std::ptrdiff_t>(begin),
                copy.begin() + static_cast<std::ptrdiff_t>(end), ' ');
      copy[begin] = '0';
      bad_pointers.push_back(builder.bad_number_pointer);
      continue;
    }
    out.insert(out.end(), bad_numbers.begin(), bad_numbers.end());
    out.insert(out.end(), found.begin(), found.end());
    if (builder.syntax_error) {
      out.push_back({"", "",
                     "schema: broken JSON at " + place_of(text, *builder.syntax_error) + ": " +
                         reason_of(builder.syntax_message),
                     ""});
    }
    if (!complete) return nullptr;
    for (const std::string& pointer : bad_pointers) {
      const Json::json_pointer place(pointer);
      if (builder.root.contains(place)) builder.root[place] = nullptr;
    }
    return std::move(builder.root);
  }
}

Json json_of(std::string_view text) {
  return Json::parse(text, nullptr, false);
}

std::string write_json(const Json& document, int indent) {
  return document.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace kiln
