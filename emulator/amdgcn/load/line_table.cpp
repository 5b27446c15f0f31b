// See line_table.hpp.
#include "emulator/amdgcn/load/line_table.hpp"

#include <algorithm>
#include <cstring>

namespace kiln::emulator::amdgcn {
namespace {

/// What ends the decoding of a malformed table.
struct Malformed {};

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, std::size_t at, std::size_t end)
      : bytes_(bytes), at_(at), end_(end) {
    if (end > bytes.size() || at > end) throw Malformed{};
  }
  bool done() const { return at_ >= end_; }
  std::size_t position() const { return at_; }
  void skip(std::size_t n) {
    if (n > end_ - at_) throw Malformed{};
    at_ += n;
  }
  std::uint64_t fixed(std::size_t n) {
    if (n > end_ - at_) throw Malformed{};
    std::uint64_t v = 0;
    std::memcpy(&v, bytes_.data() + at_, n);
    at_ += n;
    return v;
  }
  std::uint64_t uleb() {
    std::uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::uint64_t byte = fixed(1);
      v |= (byte & 0x7f) << shift;
      if (byte < 0x80) return v;
    }
    throw Malformed{};
  }
  std::int64_t sleb() {
    std::int64_t v = 0;
    for (int shift = 0; shift < 64;) {
      const std::uint64_t byte = fixed(1);
      v |= static_cast<std::int64_t>((byte & 0x7f) << shift);
      shift += 7;
      if (byte < 0x80) return shift < 64 && (byte & 0x40) ? v | -(std::int64_t{1} << shift) : v;
    }
    throw Malformed{};
  }
  std::string text() {
    std::string s;
    while (const auto c = static_cast<char>(fixed(1))) s += c;
    return s;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_, end_;
};

class Decoder {
 public:
  Decoder(std::span<const std::byte> line, std::span<const std::byte> line_str,
          std::span<const std::byte> str)
      : line_(line), line_str_(line_str), str_(str) {}

  LineTable run() {
    try {
      for (std::size_t at = 0; at + 4 < line_.size();) at = unit(at);
    } catch (const Malformed&) {
    }
    std::ranges::stable_sort(table_.rows,
                             [](const LineRow& a, const LineRow& b) { return a.address < b.address; });
    return std::move(table_);
  }

 private:
  std::string string_at(std::span<const std::byte> section, std::uint64_t offset) const {
    if (offset >= section.size()) throw Malformed{};
    return Reader(section, offset, section.size()).text();
  }

  /// One attribute of a version 5 entry: its text, if it has one.
  std::string form(Reader& r, std::uint64_t form, std::uint64_t& number) const {
    switch (form) {
      case 0x08:
        return r.text();
      case 0x1f:
        return string_at(line_str_, r.fixed(4));
      case 0x0e:
        return string_at(str_, r.fixed(4));
      case 0x0f:
        number = r.uleb();
        return {};
      case 0x0b:
        number = r.fixed(1);
        return {};
      case 0x05:
        number = r.fixed(2);
        return {};
      case 0x1e:
        r.skip(16);
        return {};
      default:
        throw Malformed{};
    }
  }

  std::vector<std::pair<std::string, std::uint64_t>> entries(Reader& r) const {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> format(r.fixed(1));
    for (auto& [content, f] : format) content = r.uleb(), f = r.uleb();
    std::vector<std::pair<std::string, std::uint64_t>> list;
    for (std::uint64_t n = r.uleb(); n > 0; --n) {
      auto& entry = list.emplace_back();
      for (const auto& [content, f] : format) {
        std::uint64_t number = 0;
        const std::string text = form(r, f, number);
        if (content == 1)
          entry.first = text;  // DW_LNCT_path
        else if (content == 2)
          entry.second = number;  // DW_LNCT_directory_index
      }
    }
    return list;
  }

  std::size_t file_index(const std::string& name) {
    const auto it = std::ranges::find(table_.files, name);
    if (it != table_.files.end()) return static_cast<std::size_t>(it - table_.files.begin());
    table_.files.push_back(name);
    return table_.files.size() - 1;
  }

  std::size_t unit(std::size_t at) {
    Reader head(line_, at, line_.size());
    const std::uint64_t length = head.fixed(4);
    if (length >= 0xfffffff0U) throw Malformed{};  // 64-bit DWARF
    const std::size_t end = at + 4 + length;
    Reader r(line_, at + 4, end);
    const auto version = r.fixed(2);
    if (version < 3 || version > 5) return end;
    if (version == 5) r.skip(2);  // address and segment selector sizes
    const auto header_length = r.fixed(4);
    const std::size_t program = r.position() + header_length;
    const auto min_length = r.fixed(1);
    if (version >= 4) r.skip(1);
    r.skip(1);
    const auto line_base = static_cast<std::int8_t>(r.fixed(1));
    const auto line_range = static_cast<int>(r.fixed(1)), opcode_base = static_cast<int>(r.fixed(1));
    if (line_range == 0) throw Malformed{};
    std::vector<std::uint64_t> arguments(static_cast<std::size_t>(std::max(1, opcode_base)));
    for (int i = 1; i < opcode_base; ++i) arguments[static_cast<std::size_t>(i)] = r.fixed(1);
    std::vector<std::size_t> files;
    if (version == 5) {
      entries(r);
      for (const auto& [name, directory] : entries(r)) files.push_back(file_index(name));
    } else {
      files.push_back(file_index(""));
      while (!r.text().empty()) {
      }
      for (std::string name; !(name = r.text()).empty();) {
        files.push_back(file_index(name));
        r.uleb(), r.uleb(), r.uleb();
      }
    }
    execute(Reader(line_, program, end), files, min_length, line_base, line_range, opcode_base, arguments);
    return end;
  }

  void execute(Reader r, const std::vector<std::size_t>& files, std::uint64_t min_length, int line_base,
               int line_range, int opcode_base, const std::vector<std::uint64_t>& arguments) {
    std::uint64_t address = 0, file = 1;
    std::int64_t line = 1;
    const auto emit = [&] {
      if (file < files.size()) table_.rows.push_back({address, files[file], static_cast<int>(line)});
    };
    while (!r.done()) {
      const auto op = static_cast<int>(r.fixed(1));
      if (op >= opcode_base) {
        address += static_cast<std::uint64_t>((op - opcode_base) / line_range) * min_length;
        line += line_base + (op - opcode_base) % line_range;
        emit();
        continue;
      }
      switch (op) {
        case 0: {
          const auto size = r.uleb();
          const std::size_t next = r.position() + size;
          const auto extended = r.fixed(1);
          if (extended == 1)
            address = 0, file = 1, line = 1;  // end of sequence
          else if (extended == 2)
            address = r.fixed(8);
          r.skip(next - r.position());
          break;
        }
        case 1:
          emit();
          break;
        case 2:
          address += r.uleb() * min_length;
          break;
        case 3:
          line += r.sleb();
          break;
        case 4:
          file = r.uleb();
          break;
        case 8:
          address += static_cast<std::uint64_t>((255 - opcode_base) / line_range) * min_length;
          break;
        case 9:
          address += r.fixed(2);
          break;
        default:
          for (std::uint64_t n = arguments[static_cast<std::size_t>(op)]; n > 0; --n) r.uleb();
      }
    }
  }

  std::span<const std::byte> line_, line_str_, str_;
  LineTable table_;
};

}  // namespace

LineTable read_line_table(std::span<const std::byte> debug_line, std::span<const std::byte> line_str,
                          std::span<const std::byte> str) {
  return Decoder(debug_line, line_str, str).run();
}

}  // namespace kiln::emulator::amdgcn
