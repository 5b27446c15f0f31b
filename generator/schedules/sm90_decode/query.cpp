// Q of sm90_decode on its way to shared memory: packed rows, a query head at a position each.
#include "generator/schedules/sm90_decode/parts.hpp"

namespace kiln::sm90 {
namespace {

/// Address of chunk `c`, from column `first` on, of a packed row of Q, of the emitted variable `position`.
std::string query_address(const DecodePlan& p, const std::string& chunk = "c", int first = 0,
                          const std::string& of_group = "packed % group") {
  return fmt::format(
      "q + {}(s.sequence.q_start + position) * q_stride_seq + (s.kv_head * group + {}) * "
      "q_stride_head + {}{} * {}",
      p.stream->ragged_q() ? "" : "s.batch * q_stride_batch + ", of_group,
      first > 0 ? std::to_string(first) + " + " : "", p.fp8_q ? 16 : 8, chunk);
}

/// A row a warp.
void emit_copy_rows(Writer& w, const DecodePlan& p) {
  const int chunks = 8 * p.q_panels(), real = p.depth / 8, threads = p.consumer_threads();
  w.comment(
      "a row a warp: its place is worked out once, and here, or it would keep registers through the tiles");
  w.line("const int thread = thread_here(), of_lane = thread % 32;");
  emit_walk(w, p, "thread / 32", threads / 32);
  w.line("#pragma unroll 4");
  w.open("for (int round = 0; round < {}; ++round)", (p.BM + threads / 32 - 1) / (threads / 32));
  w.line("const int r = {} * round + thread / 32;", threads / 32);
  if (p.BM % (threads / 32) != 0) w.line("if (r >= {}) break;", p.BM);
  w.line("const u32 row = smem_q + r * 128 + (of_lane / 8) * {} + (((of_lane ^ r) % 8) << 4);", p.BM * 128);
  w.line("const u16* const from = {};", query_address(p, "of_lane", 0, "of_group"));
  emit_walk_on(w);
  for (const bool there : {true, false}) {
    there ? w.open("if (r < rows)") : w.reopen("else");
    for (int first = 0; first < chunks; first += 32) {
      const int lanes = std::min(32, (there ? real : chunks) - first);
      const std::string at = fmt::format("row + {}", first / 8 * p.BM * 128);
      const std::string copy = there ? fmt::format("copy_async_16({}, from + {});", at, 8 * first)
                                     : fmt::format("zero_16_bytes({});", at);
      if (lanes > 0) w.line("{}{}", lanes < 32 ? fmt::format("if (of_lane < {}) ", lanes) : "", copy);
      // columns past the last, up to a whole panel
      const int end = std::min(32, chunks - first);
      if (there && lanes < end)
        w.line("if (of_lane >= {} && of_lane < {}) zero_16_bytes({});", std::max(lanes, 0), end, at);
    }
  }
  w.close();
  w.close();
}

/// A chunk a thread.
void emit_copy_chunks(Writer& w, const DecodePlan& p) {
  const int chunks = 8 * p.q_panels(), real = p.depth / 8, threads = p.consumer_threads();
  const int copies = p.BM * chunks;
  w.line("#pragma unroll{}", p.warpgroups > 1 ? " 2" : "");
  w.open("for (int round = 0; round < {}; ++round)", (copies + threads - 1) / threads);
  w.line("const int i = {0} * round + threadIdx.x, r = i / {1}, c = i % {1};", threads, chunks);
  if (copies % threads != 0) w.line("if (i >= {}) break;", copies);
  w.line("const u32 at = smem_q + (c / 8) * {} + r * 128 + (((c % 8) ^ (r % 8)) << 4);", p.BM * 128);
  w.line("const int packed = s.m_block * {} + r, position = packed / group;", p.BM);
  w.line("if (r < rows{}) copy_async_16(at, {});", chunks > real ? fmt::format(" && c < {}", real) : "",
         query_address(p));
  w.line("else zero_16_bytes(at);");
  w.close();
}

}  // namespace

void open_query_chunks(Writer& w, const DecodePlan& p, int chunks, int real, int first) {
  w.open("for (int i = threadIdx.x; i < {}; i += {})", p.BM * chunks, p.consumer_threads());
  w.line("const int r = i / {0}, c = i % {0}, packed = s.m_block * {1} + r, position = packed / group;",
         chunks, p.BM);
  w.line("uint4 x = make_uint4(0, 0, 0, 0);");
  w.line("if (r < rows{}) x = *(const uint4*)({});", chunks > real ? fmt::format(" && c < {}", real) : "",
         query_address(p, "c", first));
}

void emit_copy_q(Writer& w, const DecodePlan& p) {
  w.comment(
      "Q: packed row r is query position r / group and query head r % group; rows past the last are zeros");
  p.q_by_rows() ? emit_copy_rows(w, p) : emit_copy_chunks(w, p);
  w.line("copy_async_wait();");
}

void emit_query_there(Writer& w, const DecodePlan& p) {
  w.line("fence_proxy_async();");  // for wgmma; ldmatrix needs none
  w.line("named_barrier_sync(1, {});", p.consumer_threads());
}

}  // namespace kiln::sm90
