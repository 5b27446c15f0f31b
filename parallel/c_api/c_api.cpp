// The C interface over the C++ one: exceptions become status codes and a per-thread text.
#include <kiln/parallel.h>

#include <algorithm>
#include <cstring>
#include <new>

#include <kiln/context_parallel.hpp>
#include <kiln/error.hpp>

#include "runtime/c_api/dlpack.hpp"

struct kiln_loopback {
  kiln::LoopbackGroup group;
};
struct kiln_rank {
  explicit kiln_rank(const kiln::RuntimeOptions& options) : runtime(options) {}
  kiln::Runtime runtime;
  std::shared_ptr<kiln::Transport> transport;
};
struct kiln_context_prefill {
  kiln_rank* rank;
  kiln::Config config;
  kiln::ContextPrefill prefill;
};
struct kiln_context_decode {
  kiln_rank* rank;
  kiln::Config config;
  kiln::ContextDecode decode;
};

namespace {

using namespace kiln;

thread_local std::string last_error;

kiln_status status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::bad_config:
      return KILN_BAD_CONFIG;
    case ErrorCode::bad_input:
      return KILN_BAD_INPUT;
    case ErrorCode::environment:
      return KILN_ENVIRONMENT;
    case ErrorCode::compile:
      return KILN_COMPILE;
    case ErrorCode::device:
      return KILN_DEVICE;
    case ErrorCode::internal:
      break;
  }
  return KILN_INTERNAL;
}

template <class Work>
kiln_status guarded(Work&& work) {
  try {
    work();
    return KILN_OK;
  } catch (const Error& error) {
    last_error = error.what();
    return status_of(error.code());
  } catch (const std::exception& error) {
    last_error = error.what();
    return KILN_INTERNAL;
  }
}

void need(const void* pointer, const char* name) {
  if (pointer == nullptr) throw Error(ErrorCode::bad_input, std::string(name) + " is NULL");
}

void need_args(const kiln_attention_args* given) {
  need(given, "args");
  if (given->size != sizeof *given)
    throw Error(ErrorCode::bad_input, "args.size is not sizeof(kiln_attention_args) of this library");
}

/// Tensors of one launch, staged where they are in host memory.
class Tensors {
 public:
  explicit Tensors(kiln_rank& rank) : rank_(rank), staging_(rank.runtime) {}
  Tensor operator()(const char* name, const DLTensor* tensor, DType needed, bool written = false) {
    need(tensor, name);
    Tensor result = tensor_from_dlpack(*tensor, name, needed);
    if (is_on_host(*tensor)) staging_.stage(result, name, written), staged_ = true;
    return result;
  }
  std::optional<Tensor> optional(const char* name, const DLTensor* tensor, DType needed,
                                 bool written = false) {
    if (tensor == nullptr) return std::nullopt;
    return (*this)(name, tensor, needed, written);
  }
  void finish(std::uint64_t stream) {
    if (!staged_) return;
    rank_.transport->synchronize(stream);
    staging_.finish();
  }

 private:
  kiln_rank& rank_;
  Staging staging_;
  bool staged_ = false;
};

DType kv_type(const Config& config) {
  return config.kv_dtype.value_or(config.dtype);
}
/// FP8 has no type for results: BF16 then, as the planner has it.
DType out_type(const Config& config) {
  return config.out_dtype.value_or(size_of(config.dtype) == 1 ? DType::bf16 : config.dtype);
}

std::unique_ptr<kiln_rank> make_rank(const kiln_rank_options& given) {
  if (given.size_of != sizeof given)
    throw Error(ErrorCode::bad_input, "size_of is not sizeof(kiln_rank_options) of this library");
  RuntimeOptions options;
  if (given.device != nullptr) options.device = given.device;
  if (given.cache_dir != nullptr) options.cache_dir = given.cache_dir;
  auto rank = std::make_unique<kiln_rank>(options);
  if (given.loopback != nullptr) {
    rank->transport = given.loopback->group.join(given.rank, rank->runtime);
    return rank;
  }
  const std::string selector = rank->runtime.device().selector;
  if (!selector.starts_with("cuda:"))
    throw Error(ErrorCode::bad_input, "a rank without a loopback needs a CUDA device, not " + selector);
  NcclOptions nccl;
  nccl.rank = given.rank, nccl.size = given.size, nccl.device = std::stoi(selector.substr(5));
  nccl.communicator = given.communicator, nccl.max_blocks = given.max_blocks;
  if (given.timeout_seconds > 0) nccl.timeout_seconds = given.timeout_seconds;
  if (given.library != nullptr) nccl.library = given.library;
  std::copy_n(given.nccl_id, nccl.id.size(), nccl.id.begin());
  rank->transport = make_nccl_transport(nccl);
  return rank;
}

}  // namespace

const char* kiln_parallel_last_error(void) {
  return last_error.c_str();
}

kiln_status kiln_parallel_nccl_id(const char* library, char id[128]) {
  return guarded([&] {
    need(id, "id");
    const NcclId made = make_nccl_id(library != nullptr ? library : "");
    std::memcpy(id, made.data(), made.size());
  });
}

kiln_status kiln_loopback_create(int size, double timeout_seconds, kiln_loopback** out) {
  return guarded([&] {
    need(out, "out");
    if (size < 1 || !(timeout_seconds > 0))
      throw Error(ErrorCode::bad_input, "a group has a rank at least, and a timeout above 0");
    *out = new kiln_loopback{LoopbackGroup(size, timeout_seconds)};
  });
}
void kiln_loopback_destroy(kiln_loopback* group) {
  delete group;
}

kiln_status kiln_rank_create(const kiln_rank_options* options, kiln_rank** out) {
  return guarded([&] {
    need(options, "options"), need(out, "out");
    *out = make_rank(*options).release();
  });
}
void kiln_rank_destroy(kiln_rank* rank) {
  delete rank;
}
kiln_status kiln_rank_synchronize(kiln_rank* rank, uint64_t stream) {
  return guarded([&] {
    need(rank, "rank");
    rank->transport->synchronize(stream);
  });
}
void kiln_rank_abort(kiln_rank* rank, const char* reason) {
  if (rank != nullptr) rank->transport->abort(reason != nullptr ? reason : "");
}

kiln_status kiln_context_prefill_create(kiln_rank* rank, const char* config_json, int64_t heads_q,
                                        int64_t heads_kv, int way, kiln_context_prefill** out) {
  return guarded([&] {
    need(rank, "rank"), need(config_json, "config_json"), need(out, "out");
    if (way < 0 || way > 2) throw Error(ErrorCode::bad_input, "way is not 0, 1 or 2");
    const Config config = parse_config(config_json, "config");
    ContextParallelOptions options;
    options.heads_q = heads_q, options.heads_kv = heads_kv, options.way = static_cast<PrefillWay>(way);
    *out = new kiln_context_prefill{rank, config,
                                    ContextPrefill(rank->runtime, config, rank->transport, options)};
  });
}
void kiln_context_prefill_destroy(kiln_context_prefill* prefill) {
  delete prefill;
}
kiln_status kiln_context_prefill_set_batch(kiln_context_prefill* prefill, const int64_t* lengths,
                                           size_t count) {
  return guarded([&] {
    need(prefill, "prefill");
    if (count > 0) need(lengths, "lengths");
    prefill->prefill.set_batch({lengths, count});
  });
}
int64_t kiln_context_prefill_rows(const kiln_context_prefill* prefill) {
  return prefill != nullptr ? prefill->prefill.rows() : 0;
}
kiln_status kiln_context_prefill_run(const kiln_context_prefill* prefill, int64_t sequence, int which,
                                     int64_t* first, int64_t* end) {
  return guarded([&] {
    need(prefill, "prefill"), need(first, "first"), need(end, "end");
    const Run run = prefill->prefill.run(sequence, which);
    *first = run.first, *end = run.end();
  });
}
kiln_status kiln_context_prefill_launch(kiln_context_prefill* prefill, const DLTensor* q, const DLTensor* k,
                                        const DLTensor* v, DLTensor* o, DLTensor* lse, const double* scale,
                                        uint64_t stream) {
  kiln_attention_args args{};
  args.size = sizeof args;
  args.q = q, args.k = k, args.v = v, args.o = o, args.lse = lse, args.scale = scale;
  return kiln_context_prefill_launch_args(prefill, &args, stream);
}
kiln_status kiln_context_prefill_launch_args(kiln_context_prefill* prefill, const kiln_attention_args* given,
                                             uint64_t stream) {
  return guarded([&] {
    need(prefill, "prefill"), need_args(given);
    const Config& config = prefill->config;
    Tensors use(*prefill->rank);
    ContextPrefill::Args args;
    args.q = use("q", given->q, config.dtype), args.k = use("k", given->k, kv_type(config)),
    args.v = use("v", given->v, kv_type(config));
    args.o = use("o", given->o, out_type(config), true);
    args.lse = use.optional("lse", given->lse, DType::f32, true);
    args.sink = use.optional("sink", given->sink, DType::f32);
    if (given->scale != nullptr) args.scale = *given->scale;
    prefill->prefill.launch(args, stream);
    use.finish(stream);
  });
}

kiln_status kiln_context_decode_create(kiln_rank* rank, const char* config_json, int64_t heads_q,
                                       int64_t max_rows, kiln_context_decode** out) {
  return kiln_context_decode_create_for(rank, config_json, heads_q, max_rows, 0, 0, out);
}
kiln_status kiln_context_decode_create_for(kiln_rank* rank, const char* config_json, int64_t heads_q,
                                           int64_t max_rows, int result, int way, kiln_context_decode** out) {
  return guarded([&] {
    need(rank, "rank"), need(config_json, "config_json"), need(out, "out");
    if (result < 0 || result > 2) throw Error(ErrorCode::bad_input, "result is not 0, 1 or 2");
    if (way < 0 || way > 2) throw Error(ErrorCode::bad_input, "way is not 0, 1 or 2");
    const Config config = parse_config(config_json, "config");
    ContextDecodeOptions options;
    options.result = static_cast<DecodeResult>(result), options.way = static_cast<DecodeWay>(way);
    *out = new kiln_context_decode{
        rank, config, ContextDecode(rank->runtime, config, rank->transport, heads_q, max_rows, options)};
  });
}
void kiln_context_decode_destroy(kiln_context_decode* decode) {
  delete decode;
}
kiln_status kiln_context_decode_launch(kiln_context_decode* decode, const kiln_attention_args* args,
                                       uint64_t stream) {
  return kiln_context_decode_launch_at(decode, args, nullptr, stream);
}
kiln_status kiln_context_decode_launch_at(kiln_context_decode* decode, const kiln_attention_args* given,
                                          const DLTensor* query_ends, uint64_t stream) {
  return guarded([&] {
    need(decode, "decode"), need_args(given);
    const Config& config = decode->config;
    Tensors use(*decode->rank);
    AttentionArgs args;
    args.q = use("q", given->q, config.dtype), args.k = use("k", given->k, kv_type(config));
    if (given->v != nullptr) args.v = use("v", given->v, kv_type(config));
    args.o = use("o", given->o, out_type(config), true);
    args.lse = use.optional("lse", given->lse, DType::f32, true);
    args.cu_seqlens_q = use.optional("cu_seqlens_q", given->cu_seqlens_q, DType::i32);
    args.cu_seqlens_k = use.optional("cu_seqlens_k", given->cu_seqlens_k, DType::i32);
    args.page_table = use.optional("page_table", given->page_table, DType::i32);
    args.seqlens_k = use.optional("seqlens_k", given->seqlens_k, DType::i32);
    args.q_scale = use.optional("q_scale", given->q_scale, DType::f32);
    args.k_scale = use.optional("k_scale", given->k_scale, DType::f32);
    args.v_scale = use.optional("v_scale", given->v_scale, DType::f32);
    args.sink = use.optional("sink", given->sink, DType::f32);
    args.query_ends = use.optional("query_ends", query_ends, DType::i32);
    args.window = {given->window_left - 1, given->window_right - 1, given->window_chunk};
    args.max_seqlen_q = given->max_seqlen_q, args.max_seqlen_k = given->max_seqlen_k;
    if (given->scale != nullptr) args.scale = *given->scale;
    LaunchOptions options;
    options.stream = stream;
    decode->decode.launch(args, options);
    use.finish(stream);
  });
}
