// All programs with one mistake in one: `all NAME` runs that one.
#include <cuda_pipeline.h>

#include <cstring>

#include "launch.hpp"

namespace barrier_in_branch {
#include "barrier_in_branch.cu"
}
namespace blocks_not_ordered {
#include "blocks_not_ordered.cu"
}
namespace bytes_miscounted {
#include "bytes_miscounted.cu"
}
namespace copy_not_waited {
#include "copy_not_waited.cu"
}
namespace halo_not_loaded {
#include "halo_not_loaded.cu"
}
namespace helper {
#include "helper.cu"
}
namespace mask_too_small {
#include "mask_too_small.cu"
}
namespace neighbours {
#include "neighbours.cu"
}
namespace past_the_end {
#include "past_the_end.cu"
}
namespace proxy_not_fenced {
#include "proxy_not_fenced.cu"
}
namespace unrolled_scan {
#include "unrolled_scan.cu"
}
namespace unrolled_sum {
#include "unrolled_sum.cu"
}
namespace unrolled_tiles {
#include "unrolled_tiles.cu"
}
namespace warp_not_synchronised {
#include "warp_not_synchronised.cu"
}

int main(int count, char** arguments) {
  struct Program {
    const char* name;
    int (*run)();
  };
  const Program programs[] = {
      {"barrier_in_branch", barrier_in_branch::main},
      {"blocks_not_ordered", blocks_not_ordered::main},
      {"bytes_miscounted", bytes_miscounted::main},
      {"copy_not_waited", copy_not_waited::main},
      {"halo_not_loaded", halo_not_loaded::main},
      {"helper", helper::main},
      {"mask_too_small", mask_too_small::main},
      {"neighbours", neighbours::main},
      {"past_the_end", past_the_end::main},
      {"proxy_not_fenced", proxy_not_fenced::main},
      {"unrolled_scan", unrolled_scan::main},
      {"unrolled_sum", unrolled_sum::main},
      {"unrolled_tiles", unrolled_tiles::main},
      {"warp_not_synchronised", warp_not_synchronised::main},
  };
  for (const Program& p : programs)
    if (count == 2 && std::strcmp(p.name, arguments[1]) == 0) return p.run();
  for (const Program& p : programs) std::puts(p.name);
  return 0;
}
