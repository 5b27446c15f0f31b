// printf of device code: formats the packed arguments of vprintf, lane by lane.
#include <locale.h>

#include <bit>
#include <cstring>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;

/// Devices have no locale: while it lives, this thread formats numbers with a point.
class PlainNumbers {
 public:
  PlainNumbers() : before_(uselocale(plain())) {}
  ~PlainNumbers() { uselocale(before_); }
  PlainNumbers(const PlainNumbers&) = delete;
  PlainNumbers& operator=(const PlainNumbers&) = delete;

 private:
  static locale_t plain() {
    static const locale_t c = newlocale(LC_ALL_MASK, "C", nullptr);
    return c;
  }
  locale_t before_;
};

/// One conversion: %[flags, width, precision][h, l, ...]kind.
struct Specification {
  std::string text;   ///< without size and kind; widths are bounded so that the text fits
  bool wide = false;  ///< of 64 bits
  char kind = 0;
};
Specification specification(const std::string& spec) {
  Specification s;
  for (const char c : spec)
    if (std::string_view("hlzjtL").find(c) == std::string_view::npos)
      s.text += c;
    else
      s.wide |= c != 'h';
  s.kind = s.text.back();
  s.text.pop_back();
  if (s.text.size() > 6) s.text = "%";
  return s;
}
bool ends(char c) {
  return std::string_view("hlzjtL0123456789.-+# ").find(c) == std::string_view::npos;
}

/// The call of one lane.
class LanePrintf {
 public:
  LanePrintf(const Warp& w, const Op& op, int lane)
      : w_(w), lane_(lane), format_(local64(op.a)), arg_(local64(op.b)) {}

  std::string text() {
    std::string out, spec;
    std::uint8_t byte = 0;
    for (u64 at = format_; out.size() < 4096 && byte_at(at, byte) && byte != 0; ++at) {
      const char c = static_cast<char>(byte);
      if (spec.empty()) {
        (c == '%' ? spec : out) += c;
        continue;
      }
      spec += c;
      if (!ends(c) && spec.size() < 24) continue;
      out += converted(specification(spec));
      spec.clear();
    }
    return out;
  }

 private:
  u64 local64(std::uint32_t at) const {
    u64 v = 0;
    std::memcpy(&v, w_.local.data() + static_cast<std::size_t>(lane_) * w_.local_bytes + w_.frame->local + at,
                8);
    return v;
  }
  bool byte_at(u64 a, std::uint8_t& out) const {
    const GlobalMemory::Impl& m = *w_.block->cluster->launch->memory;
    if (a - kLocalWindow < w_.local_bytes)
      out = w_.local[static_cast<std::size_t>(lane_) * w_.local_bytes + (a - kLocalWindow)];
    else if (m.contains(a, 1))
      out = *m.at(a);
    else
      return false;
    return true;
  }
  u64 next(unsigned bytes) {
    arg_ = (arg_ + bytes - 1) / bytes * bytes;
    u64 v = 0;
    for (unsigned i = 0; i < bytes; ++i) {
      std::uint8_t b = 0;
      byte_at(arg_ + i, b);
      v |= u64{b} << (8 * i);
    }
    arg_ += bytes;
    return v;
  }
  std::string next_string() {
    const u64 s = next(8);
    std::string value;
    std::uint8_t b = 0;
    for (u64 k = 0; k < 400 && byte_at(s + k, b) && b != 0; ++k) value += static_cast<char>(b);
    return value;
  }

  std::string converted(const Specification& s) {
    char buffer[512] = "";
    const auto print = [&](const std::string& suffix, auto value) {
      std::snprintf(buffer, sizeof buffer, (s.text + suffix).c_str(), value);
    };
    switch (s.kind) {
      case '%':
        return "%";
      case 'd':
      case 'i': {
        const u64 v = next(s.wide ? 8 : 4);
        print("lld", static_cast<long long>(s.wide ? static_cast<std::int64_t>(v) : sign_extend(v, 4)));
        break;
      }
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        print(std::string("ll") + s.kind, static_cast<unsigned long long>(next(s.wide ? 8 : 4)));
        break;
      case 'c':
        buffer[0] = static_cast<char>(next(4));
        break;
      case 'p':
        std::snprintf(buffer, sizeof buffer, "0x%llx", static_cast<unsigned long long>(next(8)));
        break;
      case 's':
        print("s", next_string().c_str());
        break;
      default:
        if (std::string_view("feEgGaA").find(s.kind) != std::string_view::npos)
          print(std::string(1, s.kind), std::bit_cast<double>(next(8)));
    }
    return buffer;
  }

  const Warp& w_;
  int lane_;
  u64 format_, arg_;
};

/// vprintf gives 1.
void set_result(Warp& w, const Op& op, int lane) {
  if (op.c == kNoRef) return;
  const std::int32_t one = 1;
  const std::size_t at = static_cast<std::size_t>(lane) * w.local_bytes + w.frame->local + op.c;
  std::memcpy(w.local.data() + at, &one, 4);
  std::memset(w.local_shadow.data() + at, kWritten, 4);
}

}  // namespace

void run_vprintf(Warp& w, const Op& op) {
  const PlainNumbers plain;
  std::string& output = w.block->cluster->output;
  each_lane(w, [&](int l) {
    const std::string text = LanePrintf(w, op, l).text();
    if (output.size() < (std::size_t{1} << 20)) output += text;
    set_result(w, op, l);
  });
}

}  // namespace kiln::emulator::ptx
