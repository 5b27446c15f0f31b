// Frame of the blocks in docs/tutorials/serving-cpp.md.
#include <kiln/embedded.hpp>
#include <kiln/kiln.hpp>

namespace my_kernels {
std::span<const kiln::EmbeddedKernel> kernels();
}

void frame(std::shared_ptr<kiln::Kernel> prefill, std::shared_ptr<kiln::Kernel> decode, std::uint64_t q,
           std::uint64_t k, std::uint64_t v, std::uint64_t o, std::uint64_t lse, std::uint64_t k_pages,
           std::uint64_t v_pages, std::uint64_t offsets, std::uint64_t table, std::uint64_t lengths,
           std::int64_t total, std::int64_t batch, std::int64_t heads_q, std::int64_t heads_kv,
           std::int64_t num_pages, std::int64_t max_pages, std::int64_t longest, std::uint64_t stream);

void frame(std::shared_ptr<kiln::Kernel> prefill, std::shared_ptr<kiln::Kernel> decode, std::uint64_t q,
           std::uint64_t k, std::uint64_t v, std::uint64_t o, std::uint64_t lse, std::uint64_t k_pages,
           std::uint64_t v_pages, std::uint64_t offsets, std::uint64_t table, std::uint64_t lengths,
           std::int64_t total, std::int64_t batch, std::int64_t heads_q, std::int64_t heads_kv,
           std::int64_t num_pages, std::int64_t max_pages, std::int64_t longest, std::uint64_t stream) {
  {
BLOCK
  }
}
