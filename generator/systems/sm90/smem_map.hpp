// Shared-memory map of an sm_90a kernel: named regions in order, each aligned to its swizzle pattern.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

namespace kiln::sm90 {

class SmemMap {
 public:
  struct Region {
    std::string name;
    int offset = 0, bytes = 0;
    std::string what;
  };
  /// Appends a region and returns its offset.
  int add(const std::string& name, int bytes, int alignment, const std::string& what) {
    const int offset = (bytes_ + alignment - 1) / alignment * alignment;
    regions_.push_back({name, offset, bytes, what});
    bytes_ = offset + bytes;
    return offset;
  }
  int bytes() const { return bytes_; }
  const std::vector<Region>& regions() const { return regions_; }
  /// One line a region, each after a line break, for the head comment.
  std::string listing() const {
    std::string lines;
    for (const Region& r : regions_)
      lines += fmt::format("\n  {:>7} .. {:>7}  {:<10} {}", r.offset, r.offset + r.bytes, r.name, r.what);
    return lines;
  }

 private:
  int bytes_ = 0;
  std::vector<Region> regions_;
};

}  // namespace kiln::sm90
