#include "generator/systems/sm100/plain_build.hpp"

namespace kiln::sm100 {

void emit_plain_build(Writer& w, Target target) {
  std::string_view number = to_string(target).substr(3);  // "100a"
  number.remove_suffix(1);
  w.line("#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM{}_ALL)", number);
  w.line("asm volatile(\"trap;\");  // built for plain sm_{}, which has no tcgen05", number);
  w.line("#else");
}

}  // namespace kiln::sm100
