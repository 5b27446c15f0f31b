// B300: sm_100a but for constants. The special-function units are twice as fast, and tcgen05.ld can reduce
// what it loads. tcgen05.mma has no kind::i8 there, which no kernel uses.
#include "generator/targets/target.hpp"

namespace kiln::targets {

const TargetInfo& sm_103a() {
  static const TargetInfo info = [] {
    TargetInfo own = sm_100a();
    own.target = Target::sm_103a;
    own.ex2_per_clock = 32;
    own.load_reduces = true;
    return own;
  }();
  return info;
}

}  // namespace kiln::targets
