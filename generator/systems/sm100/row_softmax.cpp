#include "generator/systems/sm100/row_softmax.hpp"

#include <cmath>

namespace kiln::sm100 {

void RowSoftmax::use(Prelude& prelude) const {
  for (const char* section :
       {"exp2_approx", "rcp_approx", "row_base", "max_of_three", "pairs", "tmem_wait_store"})
    prelude.use(section);
  prelude.use(shape_.bytes ? "tmem_store_8" : "tmem_store_16");
  if (shape_.exp_offload > 0) prelude.use("exp2_pair_fma");
}

void RowSoftmax::emit_max(Writer& w, const char* into) const {
  // Four chains, three numbers an instruction.
  w.line(
      "float max_a = fmaxf(s[0], s[1]), max_b = fmaxf(s[2], s[3]), max_c = fmaxf(s[4], s[5]), max_d = fmaxf(s[6], s[7]);");
  for (int i = 8; i < shape_.keys; i += 8) {
    w.line(
        "max_a = max_of_three(max_a, s[{}], s[{}]); max_b = max_of_three(max_b, s[{}], s[{}]); max_c = "
        "max_of_three(max_c, s[{}], s[{}]); max_d = max_of_three(max_d, s[{}], s[{}]);",
        i, i + 1, i + 2, i + 3, i + 4, i + 5, i + 6, i + 7);
  }
  w.line("{} = fmaxf(max_of_three(max_a, max_b, max_c), max_d);", into);
}

void RowSoftmax::emit_scale(Writer& w, const std::string& factor) const {
  for (int i = 0; i < shape_.keys; i += 4)
    w.line("scale_pair(s[{}], s[{}], {}); scale_pair(s[{}], s[{}], {});", i, i + 1, factor, i + 2, i + 3,
           factor);
}

void RowSoftmax::emit_subtract(Writer& w) const {
  for (int i = 0; i < shape_.keys; i += 4)
    w.line("s[{}] -= steep; s[{}] -= steep; s[{}] -= steep; s[{}] -= steep;", i, i + 1, i + 2, i + 3);
}

const char* RowSoftmax::exponentials(int i) const {
  const auto offloaded_before = [this](int group) { return std::floor(group * shape_.exp_offload); };
  return offloaded_before(i / 4 + 1) > offloaded_before(i / 4) ? "exponentials_fma" : "exponentials";
}

void RowSoftmax::emit_exp(Writer& w, int begin, int end) const {
  for (int first = begin; first < end; first += 32) {
    w.open("");
    w.line("const u32 p[{}] = {{", shape_.bytes ? 8 : 16);
    for (int i = first; i < first + 32; i += 4) {
      if (shape_.bytes) {
        w.line("    {}(s[{}], s[{}], s[{}], s[{}], {}, shift, sum_a, sum_b),", exponentials(i), i, i + 1,
               i + 2, i + 3, shape_.scale_log2);
      } else {
        w.line("    {0}(s[{1}], s[{2}], {5}, shift, sum_a), {0}(s[{3}], s[{4}], {5}, shift, sum_b),",
               exponentials(i), i, i + 1, i + 2, i + 3, shape_.scale_log2);
      }
    }
    w.line("};");
    w.line("tmem_store_{}(s_at + {}, p);", shape_.bytes ? 8 : 16, first / (shape_.bytes ? 4 : 2));
    w.close();
  }
}

}  // namespace kiln::sm100
