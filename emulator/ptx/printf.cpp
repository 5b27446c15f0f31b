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

}  // namespace

void run_vprintf(Warp& w, const Op& op) {
  const PlainNumbers plain;
  Cluster& c = *w.block->cluster;
  const auto local64 = [&](int l, std::uint32_t at) {
    u64 v = 0;
    std::memcpy(&v, w.local.data() + static_cast<std::size_t>(l) * w.local_bytes + w.frame->local + at, 8);
    return v;
  };
  const auto byte_at = [&](u64 a, int l, std::uint8_t& out) {
    const GlobalMemory::Impl& m = *c.launch->memory;
    if (a - kLocalWindow < w.local_bytes)
      out = w.local[static_cast<std::size_t>(l) * w.local_bytes + (a - kLocalWindow)];
    else if (m.contains(a, 1))
      out = *m.at(a);
    else
      return false;
    return true;
  };
  each_lane(w, [&](int l) {
    const u64 format = local64(l, op.a);
    u64 arg = local64(l, op.b);
    const auto next = [&](unsigned bytes) {
      arg = (arg + bytes - 1) / bytes * bytes;
      u64 v = 0;
      for (unsigned i = 0; i < bytes; ++i) {
        std::uint8_t b = 0;
        byte_at(arg + i, l, b);
        v |= u64{b} << (8 * i);
      }
      arg += bytes;
      return v;
    };
    std::string text, spec;
    std::uint8_t ch = 0;
    for (u64 at = format; text.size() < 4096 && byte_at(at, l, ch) && ch != 0; ++at) {
      if (spec.empty()) {
        if (ch == '%')
          spec = "%";
        else
          text += static_cast<char>(ch);
        continue;
      }
      spec += static_cast<char>(ch);
      if (std::string_view("hlzjtL0123456789.-+# ").find(static_cast<char>(ch)) != std::string_view::npos &&
          spec.size() < 24)
        continue;
      char buffer[512] = "";
      std::string clean;
      bool wide = false;
      for (char k : spec)
        if (std::string_view("hlzjtL").find(k) == std::string_view::npos)
          clean += k;
        else
          wide |= k != 'h';
      const char kind = clean.back();
      clean.pop_back();
      // Widths are bounded so that the text fits.
      if (clean.size() > 6) clean = "%";
      switch (kind) {
        case '%':
          std::snprintf(buffer, sizeof buffer, "%%");
          break;
        case 'd':
        case 'i': {
          const u64 v = next(wide ? 8 : 4);
          std::snprintf(buffer, sizeof buffer, (clean + "lld").c_str(),
                        static_cast<long long>(wide ? static_cast<std::int64_t>(v) : sign_extend(v, 4)));
          break;
        }
        case 'u':
        case 'x':
        case 'X':
        case 'o':
          std::snprintf(buffer, sizeof buffer, (clean + "ll" + kind).c_str(),
                        static_cast<unsigned long long>(next(wide ? 8 : 4)));
          break;
        case 'c':
          buffer[0] = static_cast<char>(next(4));
          break;
        case 'p':
          std::snprintf(buffer, sizeof buffer, "0x%llx", static_cast<unsigned long long>(next(8)));
          break;
        case 's': {
          const u64 s = next(8);
          std::string value;
          std::uint8_t b = 0;
          for (u64 k = 0; k < 400 && byte_at(s + k, l, b) && b != 0; ++k) value += static_cast<char>(b);
          std::snprintf(buffer, sizeof buffer, (clean + "s").c_str(), value.c_str());
          break;
        }
        default:
          if (std::string_view("feEgGaA").find(kind) != std::string_view::npos)
            std::snprintf(buffer, sizeof buffer, (clean + kind).c_str(), std::bit_cast<double>(next(8)));
          break;
      }
      text += buffer;
      spec.clear();
    }
    if (c.output.size() < (std::size_t{1} << 20)) c.output += text;
    if (op.c != kNoRef) {
      const std::int32_t one = 1;
      const std::size_t at = static_cast<std::size_t>(l) * w.local_bytes + w.frame->local + op.c;
      std::memcpy(w.local.data() + at, &one, 4);
      std::memset(w.local_shadow.data() + at, kWritten, 4);
    }
  });
}

}  // namespace kiln::emulator::ptx
