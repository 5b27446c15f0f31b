// Frame of the blocks in docs/library.md, docs/serving.md and README.md.
#include <kiln/cascade.hpp>
#include <kiln/embedded.hpp>
#include <kiln/kiln.hpp>

namespace my_kernels {
std::span<const kiln::EmbeddedKernel> kernels();
}
using namespace kiln;

template <class Config, class Runtime>
void frame(Runtime& runtime, const Config& config, const PagedShape& shape, const AttentionArgs& args,
           std::uint64_t q, std::uint64_t k, std::uint64_t v, std::uint64_t o, std::int64_t batch,
           std::int64_t seqlen, std::int64_t heads_q, std::int64_t heads_kv, std::int64_t max_batch,
           std::int64_t max_pages, std::int64_t max_rows, std::uint64_t stream) {
  {
BLOCK
  }
}
template void frame(Runtime&, const Config&, const PagedShape&, const AttentionArgs&, std::uint64_t,
                    std::uint64_t, std::uint64_t, std::uint64_t, std::int64_t, std::int64_t, std::int64_t,
                    std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::uint64_t);
