#include "tests/emulator/conformance/suite.hpp"

#include <cstring>

#include "tests/emulator/conformance/elementwise.hpp"
#include "tests/emulator/conformance/inputs.hpp"

namespace conformance {

namespace {

constexpr unsigned kElements = 256;

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

std::string register_class(int bits) {
  // 8-bit values live in 16-bit registers.
  return bits <= 16 ? "b16" : bits == 32 ? "b32" : "b64";
}

std::string body_of(const Form& form) {
  if (!form.body.empty()) return form.body;
  std::string body = form.name + " $d";
  for (std::size_t i = 0; i < form.operands.size(); ++i) {
    body += ", $";
    body += static_cast<char>('a' + i);
  }
  return body + ";";
}

}  // namespace

void add_form(std::vector<Case>& cases, const std::string& family, const Form& form) {
  Case c;
  c.name = family + "/" + form.name;
  for (const std::string& type : form.operands) c.name += " " + type;
  c.threads = kElements;
  c.bound = form.bound;
  const int result_bits = type_bits(form.result), result_bytes = result_bits / 8;

  std::string text = ".visible .entry ENTRY(.param .u64 p_in, .param .u64 p_out) {\n";
  text +=
      "  .reg .b64 %in, %out, %slot, %w;\n  .reg .b32 %tx, %t, %u, %sslot;\n  .reg .b16 %h;\n  .reg .pred "
      "%p, %q;\n";
  text += "  .reg ." + register_class(result_bits) + " %d;\n";
  if (form.slot) text += "  .shared .align 8 .b8 slots[" + std::to_string(kElements * 8) + "];\n";
  for (std::size_t i = 0; i < form.operands.size(); ++i) {
    text +=
        "  .reg ." + register_class(type_bits(form.operands[i])) + " %" + static_cast<char>('a' + i) + ";\n";
  }
  text += "  ld.param.u64 %in, [p_in];\n  ld.param.u64 %out, [p_out];\n  mov.u32 %tx, %tid.x;\n";
  text += "  mad.wide.u32 %slot, %tx, 8, %out;\n  add.u64 %slot, %slot, " +
          std::to_string(kElements * static_cast<unsigned>(result_bytes)) + ";\n";
  if (form.slot)
    text += "  mov.u32 %sslot, slots;\n  mad.lo.u32 %sslot, %tx, 8, %sslot;\n  st.shared.b64 [%sslot], 0;\n";
  text += "  mad.wide.u32 %in, %tx, 8, %in;\n  mad.wide.u32 %out, %tx, " + std::to_string(result_bytes) +
          ", %out;\n";
  for (std::size_t i = 0; i < form.operands.size(); ++i) {
    const int bits = type_bits(form.operands[i]);
    text += "  ld.global.b" + std::to_string(bits) + " %" + static_cast<char>('a' + i) + ", [%in+" +
            std::to_string(i * kElements * 8) + "];\n";
  }
  std::string body = "  " + body_of(form) + "\n";
  replace_all(body, "$", "%");
  text += body;
  text += "  st.global.b" + std::to_string(result_bits) + " [%out], %d;\n  ret;\n}\n";
  c.kernel = text;

  Random random(seed_of(c.name));
  c.input.resize(form.operands.size() * kElements * 8 + 8);
  for (std::size_t i = 0; i < form.operands.size(); ++i) {
    for (unsigned element = 0; element < kElements; ++element) {
      std::uint64_t bits = sample(form.operands[i], random);
      // Comparisons meet equal operands now and then.
      if (i > 0 && form.operands[i] == form.operands[i - 1] && random.below(8) == 0) {
        std::memcpy(&bits, c.input.data() + ((i - 1) * kElements + element) * 8, sizeof bits);
      }
      std::memcpy(c.input.data() + (i * kElements + element) * 8, &bits, sizeof bits);
    }
  }
  c.output.resize(kElements * (static_cast<unsigned>(result_bytes) + (form.slot ? 8 : 0)));
  cases.push_back(std::move(c));
}

std::string kernel_text(const Case& c, const std::string& entry) {
  std::string text = c.kernel;
  replace_all(text, "ENTRY", entry);
  return text;
}

std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed) {
  const auto* p = static_cast<const unsigned char*>(data);
  std::uint64_t hash = seed;
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ p[i]) * 0x100000001b3ull;
  return hash ^ hash >> 29;
}

std::uint64_t case_hash(const Case& c) {
  std::uint64_t hash = hash_bytes(c.kernel.data(), c.kernel.size());
  hash = hash_bytes(c.input.data(), c.input.size(), hash);
  hash = hash_bytes(c.output.data(), c.output.size(), hash);
  const std::uint64_t shape[] = {c.threads, c.dynamic_shared_bytes, c.map_on_output};
  hash = hash_bytes(shape, sizeof shape, hash);
  if (c.map) {
    const auto map = kiln::emulator::encode_tensor_map(*c.map);
    hash = hash_bytes(map.data(), map.size(), hash);
  }
  return hash;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  add_conversions(cases);
  add_float_arithmetic(cases);
  add_integer_arithmetic(cases);
  add_warp_forms(cases);
  add_atomics(cases);
  add_matrix_forms(cases);
  add_wgmma_forms(cases);
  add_tensor_copies(cases);
  return cases;
}

}  // namespace conformance
