#include "driver/fatbin.hpp"

#include <dlfcn.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>

#include "driver/link.hpp"

namespace kiln::driver {
namespace {

constexpr std::uint32_t kWrapperMagic = 0x466243b1, kFatbinMagic = 0xba55ed50;

/// What __fatDeviceText of a program is, and what its data points to.
struct Wrapper {
  std::uint32_t magic, version;
  const unsigned char* data;
  const void* more;
};
struct Header {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;  // of the entries
};
struct Entry {
  std::uint16_t kind, version;  // 1: PTX, 2: machine code
  std::uint32_t header_bytes;
  std::uint64_t bytes;
  std::uint32_t compressed_bytes, options_offset;
  std::uint16_t minor, major;
  std::uint32_t arch;
  std::uint32_t name_offset, name_bytes;
  std::uint64_t flags, reserved, uncompressed_bytes;
};
static_assert(sizeof(Header) == 16 && sizeof(Entry) == 64);
constexpr std::uint16_t kPtx = 1;
constexpr std::uint64_t kLz4 = 0x2000, kZstd = 0x8000;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 32;

std::optional<std::string> unzstd(const unsigned char* data, std::size_t bytes, std::size_t full) {
  std::string text(full, '\0');
  const std::size_t got = ZSTD_decompress(text.data(), text.size(), data, bytes);
  if (ZSTD_isError(got) != 0) return std::nullopt;
  text.resize(got);
  return text;
}

/// nvcc before 12.8 compresses with LZ4, whose library is opened when such a program comes.
std::optional<std::string> unlz4(const unsigned char* data, std::size_t bytes, std::size_t full,
                                 std::string& problem) {
  using Decompress = int(const char*, char*, int, int);
  static void* const library = dlopen("liblz4.so.1", RTLD_NOW | RTLD_LOCAL);
  static auto* const decompress =
      library == nullptr ? nullptr : reinterpret_cast<Decompress*>(dlsym(library, "LZ4_decompress_safe"));
  if (decompress == nullptr) {
    problem = "its PTX is compressed with LZ4, and there is no liblz4.so.1 (Debian: liblz4-1)";
    return std::nullopt;
  }
  std::string text(full, '\0');
  const int got = decompress(reinterpret_cast<const char*>(data), text.data(), static_cast<int>(bytes),
                             static_cast<int>(full));
  if (got < 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(got));
  return text;
}

std::optional<std::string> text_of(const Entry& e, const unsigned char* payload, std::string& problem) {
  std::optional<std::string> text;
  if (e.uncompressed_bytes > kMostBytes || e.bytes > kMostBytes) {
    problem = "damaged";
  } else if ((e.flags & kZstd) != 0) {
    text = unzstd(payload, e.compressed_bytes, e.uncompressed_bytes);
  } else if ((e.flags & kLz4) != 0) {
    text = unlz4(payload, e.compressed_bytes, e.uncompressed_bytes, problem);
  } else {
    text.emplace(reinterpret_cast<const char*>(payload), e.bytes);
  }
  if (!text && problem.empty()) problem = "its PTX cannot be decompressed";
  if (text) text->resize(std::min(text->size(), text->find('\0')));
  return text;
}

/// ".target sm_90a" says whether only that architecture runs it.
std::string target_of(std::string_view ptx) {
  const std::size_t at = ptx.find(".target");
  if (at == std::string_view::npos) return {};
  const std::size_t begin = ptx.find("sm_", at);
  if (begin == std::string_view::npos) return {};
  return std::string(ptx.substr(begin, ptx.find_first_of(", \t\r\n", begin) - begin));
}

/// Whether a GPU of `cc` runs PTX of that target: "a" is for that one alone, "f" for its family.
bool runs_on(const std::string& target, int arch, int cc) {
  if (target.ends_with('a')) return arch == cc;
  if (target.ends_with('f')) return arch / 10 == cc / 10 && arch <= cc;
  return arch <= cc;
}

std::string advice(int cc) {
  const std::string n = std::to_string(cc);
  return "compile with -gencode arch=compute_" + n + ",code=compute_" + n;
}

Image choose_entry(const unsigned char* at, int cc) {
  Header header;
  std::memcpy(&header, at, sizeof header);
  const unsigned char* p = at + header.header_bytes;
  const unsigned char* const end = p + header.bytes;
  Image best;
  std::uint32_t best_arch = 0;
  bool best_specific = false;
  std::set<std::uint32_t> machine, later;
  std::string problem;
  while (static_cast<std::size_t>(end - p) >= sizeof(Entry)) {
    Entry e;
    std::memcpy(&e, p, sizeof e);
    const auto left = static_cast<std::uint64_t>(end - p);
    if (e.header_bytes < 32 || e.header_bytes > left || e.bytes > left - e.header_bytes) break;
    const unsigned char* payload = p + e.header_bytes;
    p = payload + e.bytes;
    if (e.header_bytes < sizeof(Entry)) e.uncompressed_bytes = 0;
    if (e.kind != kPtx) {
      machine.insert(e.arch);
      continue;
    }
    if (e.arch > static_cast<std::uint32_t>(cc)) {
      later.insert(e.arch);
      continue;
    }
    if (e.arch < best_arch) continue;
    std::optional<std::string> text = text_of(e, payload, problem);
    if (!text) continue;
    const std::string target = target_of(*text);
    if (!runs_on(target, static_cast<int>(e.arch), cc)) {
      later.insert(e.arch);
      continue;
    }
    const bool specific = target.ends_with('a');
    if (e.arch == best_arch && best_specific && !specific) continue;
    best_arch = e.arch;
    best_specific = specific;
    best.ptx = std::move(*text);
    best.name = (target.empty() ? "sm_" + std::to_string(e.arch) : target) + ".ptx";
  }
  if (!best.ptx.empty()) return best;
  const auto list = [](const std::set<std::uint32_t>& of) {
    std::string text;
    for (const std::uint32_t arch : of) text += (text.empty() ? "sm_" : ", sm_") + std::to_string(arch);
    return text;
  };
  if (!problem.empty())
    best.problem = problem;
  else if (!later.empty())
    best.problem = "its PTX is for " + list(later) + ", the GPU is sm_" + std::to_string(cc) +
                   ": choose a later GPU (--gpu), or " + advice(cc);
  else if (!machine.empty())
    best.problem = "it has machine code for " + list(machine) + " and no PTX: " + advice(cc);
  else
    best.problem = "it has no code: " + advice(cc);
  return best;
}

}  // namespace

namespace {

/// Relocatable code that is linked when it is loaded: an array of fat binaries that ends with null.
Image link_images(const void* array, int cc) {
  std::vector<std::string> texts;
  Image out;
  for (auto* at = static_cast<const void* const*>(array); *at != nullptr; ++at) {
    Image one = choose_image(*at, cc);
    if (one.ptx.empty()) {
      // The library for launches from kernels has code for other architectures.
      out.problem = one.problem;
      continue;
    }
    out.name = one.name;
    texts.push_back(std::move(one.ptx));
  }
  if (texts.empty()) return out;
  out.problem.clear();
  out.ptx = link_ptx(texts, out.problem);
  if (out.ptx.empty()) out.problem = "linking its relocatable code: " + out.problem;
  return out;
}

}  // namespace

Image choose_image(const void* code, int cc) {
  const auto* at = static_cast<const unsigned char*>(code);
  std::uint32_t magic = 0;
  std::memcpy(&magic, at, 4);
  if (magic == kWrapperMagic) {
    Wrapper wrapper;
    std::memcpy(&wrapper, at, sizeof wrapper);
    constexpr std::uint32_t kRelocatable = 2;
    if (wrapper.version == kRelocatable && wrapper.more != nullptr) {
      // Empty where nvcc has linked machine code.
      Image linked = choose_entry(wrapper.data, cc);
      return linked.ptx.empty() ? link_images(wrapper.more, cc) : linked;
    }
    at = wrapper.data;
    std::memcpy(&magic, at, 4);
  }
  if (magic == kFatbinMagic) return choose_entry(at, cc);
  if (std::memcmp(at,
                  "\x7f"
                  "ELF",
                  4) == 0)
    return {{},
            {},
            "it is a cubin, machine code without PTX: give the driver PTX or a fat binary with PTX (" +
                advice(cc) + ")"};
  Image image;
  image.ptx = reinterpret_cast<const char*>(at);
  const std::string target = target_of(image.ptx);
  if (target.empty()) return {{}, {}, "it is neither PTX nor a fat binary"};
  image.name = target + ".ptx";
  const int arch = std::atoi(target.c_str() + 3);
  if (!runs_on(target, arch, cc))
    return {{},
            {},
            "its PTX is for " + target + ", the GPU is sm_" + std::to_string(cc) +
                ": choose another GPU (--gpu)"};
  return image;
}

bool is_fat_binary(std::string_view file) {
  std::uint32_t magic = 0;
  if (file.size() < sizeof magic) return false;
  std::memcpy(&magic, file.data(), sizeof magic);
  return magic == kFatbinMagic;
}

Image choose_from_file(std::string_view file, int cc) {
  Header header{};
  if (file.size() >= sizeof header) std::memcpy(&header, file.data(), sizeof header);
  if (header.header_bytes < sizeof header || header.header_bytes > file.size() ||
      header.bytes > file.size() - header.header_bytes)
    return {{}, {}, "the fat binary is cut short"};
  return choose_entry(reinterpret_cast<const unsigned char*>(file.data()), cc);
}

}  // namespace kiln::driver
