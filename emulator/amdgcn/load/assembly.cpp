// The alternative input: assembly text of `clang -S`. Instructions, labels, .loc lines, the .amdhsa_kernel
// directives and the metadata (a small subset of YAML, as LLVM prints it).
#include <algorithm>
#include <cstdlib>
#include <optional>

#include "code_object/metadata.hpp"
#include "emulator/amdgcn/load/module.hpp"

namespace kiln::emulator::amdgcn {
namespace {

using code_object::MsgValue;

std::string_view trim(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t' || s.back() == '\r')) s.remove_suffix(1);
  return s;
}

/// Block maps and lists with scalar leaves.
class Yaml {
 public:
  explicit Yaml(const std::vector<std::string>& lines) {
    for (const std::string& l : lines) {
      const std::size_t indent = l.find_first_not_of(' ');
      if (indent == std::string::npos || l.starts_with("---") || l.starts_with("...")) continue;
      lines_.push_back({indent, std::string(trim(l))});
    }
  }
  MsgValue parse() { return lines_.empty() ? MsgValue{} : block(lines_[0].indent, 0); }

 private:
  struct Line {
    std::size_t indent;
    std::string text;
  };
  static bool item(const std::string& text) { return text.starts_with("- ") || text == "-"; }

  MsgValue block(std::size_t indent, int depth) {
    if (depth > 16) throw Error("assembly metadata nests too deep");
    MsgValue value;
    if (item(lines_[at_].text)) {
      value.kind = MsgValue::Kind::array;
      while (at_ < lines_.size() && lines_[at_].indent == indent && item(lines_[at_].text)) {
        Line& line = lines_[at_];
        const std::size_t rest = line.text.find_first_not_of(' ', 1);
        if (rest == std::string::npos) throw Error("assembly metadata has an empty list item");
        if (line.text.find(':') == std::string::npos) {
          value.array.push_back(scalar(line.text.substr(rest)));
          ++at_;
          continue;
        }
        line.indent += rest;  // "- key: value" opens a map at the key's column
        line.text.erase(0, rest);
        value.array.push_back(block(line.indent, depth + 1));
      }
      return value;
    }
    value.kind = MsgValue::Kind::map;
    while (at_ < lines_.size() && lines_[at_].indent == indent && !item(lines_[at_].text)) {
      const std::string text = lines_[at_++].text;
      const std::size_t colon = text.find(": "),
                        key_end = colon != std::string::npos ? colon : text.size() - 1;
      if (colon == std::string::npos && text.back() != ':')
        throw Error("cannot read assembly metadata '" + text + "'");
      MsgValue& member = value.map[text.substr(0, key_end)];
      if (colon != std::string::npos)
        member = scalar(std::string(trim(std::string_view(text).substr(colon + 1))));
      else if (at_ < lines_.size() && (lines_[at_].indent > indent || item(lines_[at_].text)))
        member = block(lines_[at_].indent, depth + 1);
    }
    return value;
  }
  static MsgValue scalar(std::string text) {
    MsgValue v;
    char* end = nullptr;
    v.integer = static_cast<std::int64_t>(std::strtoll(text.c_str(), &end, 0));
    if (end != text.c_str() && *end == '\0') {
      v.kind = MsgValue::Kind::integer;
      return v;
    }
    v.integer = text == "true";
    v.kind = MsgValue::Kind::string;
    if (text.size() >= 2 && (text.front() == '\'' || text.front() == '"'))
      text = text.substr(1, text.size() - 2);
    v.string = std::move(text);
    return v;
  }
  std::vector<Line> lines_;
  std::size_t at_ = 0;
};

constexpr std::int64_t kMaxAlignment = 4096, kMaxAlignmentLog2 = 12;

/// Of one kernel: number or, where an expression stands, nothing.
struct Directives {
  std::map<std::string, std::optional<std::int64_t>, std::less<>> values;
  std::int64_t get(std::string_view name, std::int64_t otherwise = 0) const {
    const auto it = values.find(name);
    if (it == values.end()) return otherwise;
    if (!it->second)
      throw Error("assembly: the value of .amdhsa_" + std::string(name) + " is not a number; give a number");
    return *it->second;
  }
  std::int64_t operator[](std::string_view name) const { return get(name); }
  /// A value from 0 to `most`.
  int below(std::string_view name, int most) const {
    const std::int64_t value = get(name);
    if (value < 0 || value > most)
      throw Error("assembly: .amdhsa_" + std::string(name) + " is " + std::to_string(value) + "; from 0 to " +
                  std::to_string(most) + " is possible");
    return static_cast<int>(value);
  }
};

Abi abi_of(const Directives& d) {
  constexpr int kUserSgprs = 16, kPreloadOffset = 511;
  Abi abi;
  abi.private_segment_buffer = d["user_sgpr_private_segment_buffer"];
  abi.dispatch_ptr = d["user_sgpr_dispatch_ptr"];
  abi.queue_ptr = d["user_sgpr_queue_ptr"];
  abi.kernarg_ptr = d["user_sgpr_kernarg_segment_ptr"];
  abi.dispatch_id = d["user_sgpr_dispatch_id"];
  abi.flat_scratch_init = d["user_sgpr_flat_scratch_init"];
  abi.private_segment_size = d["user_sgpr_private_segment_size"];
  abi.preload_dwords = d.below("user_sgpr_kernarg_preload_length", kUserSgprs);
  abi.preload_offset = d.below("user_sgpr_kernarg_preload_offset", kPreloadOffset);
  abi.private_wave_offset = d["enable_private_segment"] || d["system_sgpr_private_segment_wavefront_offset"];
  abi.user_sgprs = d.below("user_sgpr_count", kUserSgprs);
  abi.workgroup_id[0] = d.get("system_sgpr_workgroup_id_x", 1) != 0;
  abi.workgroup_id[1] = d["system_sgpr_workgroup_id_y"];
  abi.workgroup_id[2] = d["system_sgpr_workgroup_id_z"];
  abi.workgroup_info = d["system_sgpr_workgroup_info"];
  abi.split_block = d["tg_split"];
  abi.workitem_dims = d.below("system_vgpr_workitem_id", 2) + 1;
  return abi;
}

class Assembly {
 public:
  Assembly(std::string_view text, Module::Impl& impl) : impl_(impl) {
    int number = 0;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      ++number;
      try {
        line(text.substr(0, end));
      } catch (const Error& e) {
        throw Error("assembly line " + std::to_string(number) + ": " + e.what(), number);
      }
      text.remove_prefix(std::min(text.size(), end + 1));
    }
    finish();
  }

 private:
  void line(std::string_view raw) {
    if (in_metadata_) {
      if (trim(raw) == ".end_amdgpu_metadata")
        in_metadata_ = false;
      else
        metadata_.emplace_back(raw);
      return;
    }
    std::string_view s = trim(raw.substr(0, std::min({raw.find(';'), raw.find("//"), raw.size()})));
    if (s.empty()) return;
    if (s[0] == '.' && s.back() != ':') return directive(s);
    const std::size_t colon = s.find(':');
    if (colon != std::string_view::npos &&
        s.substr(0, colon).find_first_of(" \t,") == std::string_view::npos) {
      if (in_text_) labels_[std::string(s.substr(0, colon))] = next_index();
      s = trim(s.substr(colon + 1));
      if (s.empty()) return;
    }
    if (in_text_) instruction(s);
  }

  void directive(std::string_view s) {
    const std::size_t blank = std::min(s.find_first_of(" \t"), s.size());
    const std::string_view name = s.substr(0, blank), rest = trim(s.substr(blank));
    if (name == ".text")
      in_text_ = true;
    else if (name == ".section")
      in_text_ = rest.starts_with(".text");
    else if (name == ".rodata" || name == ".data" || name == ".bss")
      in_text_ = false;
    else if (name == ".amdgpu_metadata")
      in_metadata_ = true;
    else if (name == ".amdgcn_target")
      target_ = rest;
    else if (name.starts_with(".amdhsa_") || name == ".end_amdhsa_kernel")
      descriptor(name, rest);
    else if ((name == ".set" || name == ".equ") && rest.find(',') != std::string_view::npos)
      symbols_.insert_or_assign(std::string(trim(rest.substr(0, rest.find(',')))),
                                value(trim(rest.substr(rest.find(',') + 1))));
    else if (name.starts_with(".p2align") || name == ".balign" || name == ".align")
      align(name, rest);
    else if (name == ".file")
      file(rest);
    else if (name == ".loc")
      loc(rest);
    else if (name == ".size" && rest.find(',') != std::string_view::npos) {
      ends_.emplace(std::string(rest.substr(0, rest.find(','))), address_);
    }
  }

  void descriptor(std::string_view name, std::string_view rest) {
    if (name == ".amdhsa_kernel")
      current_ = &directives_[std::string(rest)];
    else if (name == ".end_amdhsa_kernel")
      current_ = nullptr;
    else if (current_ != nullptr)
      current_->values.insert_or_assign(std::string(name.substr(8)), value(rest));
  }

  /// A number or a symbol that was set to one; nothing for an expression.
  std::optional<std::int64_t> value(std::string_view s) const {
    const std::string text(s);
    char* end = nullptr;
    const long long number = std::strtoll(text.c_str(), &end, 0);
    if (end != text.c_str() && *end == '\0') return number;
    const auto symbol = symbols_.find(text);
    return symbol == symbols_.end() ? std::nullopt : symbol->second;
  }

  /// A wave whose arguments are preloaded starts 256 bytes behind its kernel's label, where the compiler
  /// aligned the code.
  void align(std::string_view name, std::string_view s) {
    const bool power = name.starts_with(".p2align");
    const auto n = value(trim(s.substr(0, s.find(','))));
    if (!in_text_ || !n || *n < 1 || *n > (power ? kMaxAlignmentLog2 : kMaxAlignment)) return;
    const std::uint64_t bytes = power ? std::uint64_t{1} << *n : static_cast<std::uint64_t>(*n);
    address_ = (address_ + bytes - 1) / bytes * bytes;
  }

  /// .file 0 "/folder" "a.hip" md5 ..., .file 1 "a.hip"
  void file(std::string_view s) {
    char* end = nullptr;
    const std::string text(s);
    const long number = std::strtol(text.c_str(), &end, 10);
    if (end == text.c_str()) return;
    std::vector<std::string> quoted;
    for (std::size_t at = 0; (at = text.find('"', at)) != std::string::npos;) {
      const std::size_t close = text.find('"', at + 1);
      if (close == std::string::npos) break;
      quoted.push_back(text.substr(at + 1, close - at - 1));
      at = close + 1;
    }
    if (quoted.empty()) return;
    impl_.files.push_back(quoted.back());
    files_[number] = &impl_.files.back();
  }
  void loc(std::string_view s) {
    const std::string text(s);
    char* end = nullptr;
    const long number = std::strtol(text.c_str(), &end, 10);
    source_line_ = static_cast<int>(std::strtol(end, nullptr, 10));
    const auto it = files_.find(number);
    source_file_ = it == files_.end() ? nullptr : it->second;
  }

  void instruction(std::string_view s) {
    Inst inst;
    inst.text = s;
    std::replace(inst.text.begin(), inst.text.end(), '\t', ' ');
    inst.address = address_;
    address_ += 4;  // nominal: the text does not tell sizes
    inst.source_file = source_file_;
    inst.source_line = source_line_;
    std::string label;
    parse_instruction(inst.text, inst, label);
    names_.push_back(label);
    impl_.program.by_address.emplace(inst.address, next_index());
    impl_.program.code.push_back(std::move(inst));
  }

  int next_index() const { return static_cast<int>(impl_.program.code.size()); }

  void finish() {
    std::string target(target_);
    const std::size_t gfx = target.find("gfx");
    if (gfx == std::string::npos) throw Error("assembly names no target (.amdgcn_target)");
    target = target.substr(gfx, target.find_first_of(":\"", gfx) - gfx);
    impl_.target_name = target;
    impl_.target = parse_target(target);
    link_branches(impl_.program, names_, labels_);
    const MsgValue metadata = Yaml(metadata_).parse();
    for (const MsgValue& k : metadata["amdhsa.kernels"].array) {
      KernelCode kernel;
      kernel.info = code_object::read_kernel_info(k);
      const auto start = labels_.find(kernel.info.name), end_at = labels_.end();
      const auto d = directives_.find(kernel.info.name);
      if (start == end_at || d == directives_.end())
        throw Error("assembly has no code or no descriptor of kernel '" + kernel.info.name + "'");
      kernel.abi = abi_of(d->second);
      if (start->second >= next_index())
        throw Error("assembly has no instruction of kernel '" + kernel.info.name + "'");
      kernel.entry = impl_.program.code[static_cast<std::size_t>(start->second)].address;
      const auto end = ends_.find(kernel.info.name);
      kernel.end = end == ends_.end() ? address_ : end->second;
      impl_.kernels.emplace(kernel.info.name, std::move(kernel));
    }
    if (impl_.kernels.empty()) throw Error("assembly has no kernels (.amdgpu_metadata)");
  }

  Module::Impl& impl_;
  bool in_text_ = true, in_metadata_ = false;
  std::string_view target_;
  std::vector<std::string> metadata_, names_;
  std::unordered_map<std::string, int> labels_;
  std::map<std::string, Directives> directives_;
  Directives* current_ = nullptr;
  std::map<std::string, std::uint64_t> ends_;
  std::map<std::string, std::optional<std::int64_t>, std::less<>> symbols_;
  std::uint64_t address_ = 0;
  std::map<long, const std::string*> files_;
  const std::string* source_file_ = nullptr;
  int source_line_ = 0;
};

}  // namespace

Module Module::from_assembly(std::string_view text, std::string name) {
  auto impl = std::make_shared<Impl>();
  impl->name = std::move(name);
  try {
    Assembly(text, *impl);
  } catch (const code_object::Error& error) {  // of the metadata
    throw Error(error.what());
  }
  Module module;
  module.impl_ = std::move(impl);
  return module;
}

}  // namespace kiln::emulator::amdgcn
