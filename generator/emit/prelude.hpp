// The intrinsics prelude of an emitted kernel: thin wrappers, one per hardware instruction, taken from
// templates/.
//
// A template file is a list of sections:
//     //@ section NAME [needs OTHER ...]
//     text ...
// and may open with the sections of another file:
//     //@ include FILE
// A kernel asks for the sections it uses; they are emitted in file order, so a prelude never holds an unused
// wrapper and its text does not depend on the order of the requests.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "generator/emit/lines.hpp"

namespace kiln {

class Prelude {
 public:
  /// `file` is the name of an embedded template, such as "sm90.cuh".
  explicit Prelude(std::string_view file);

  /// Asks for a section and everything it needs. Unknown names are bugs: throws Error (internal).
  void use(std::string_view section);

  /// Adds text that is generated rather than stored (wrappers with long operand lists), once per key, after
  /// the sections.
  void add(const std::string& key, Lines text);
  void add(const std::string& key, std::string_view text,
           Here here = Here(__builtin_FILE(), __builtin_LINE()));

  Lines lines() const;

 private:
  struct Section {
    std::string name;
    std::vector<std::string> needs;
    Lines text;
  };
  void read(std::string_view file);

  std::vector<Section> sections_;
  std::set<std::string, std::less<>> used_;
  std::map<std::string, Lines> generated_;
};

}  // namespace kiln
