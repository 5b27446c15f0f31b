/* The C interface of context parallel attention (context_parallel.hpp, docs/context-parallel.md): libkiln_parallel.so,
 * a library of its own beside libkiln.so. A rank has a runtime and a side of a group; its calls are collective. Safe to
 * call from any thread, one rank by one thread at a time. No function throws or aborts on bad input; the text of the
 * last error is kept per thread. */
#ifndef KILN_PARALLEL_H
#define KILN_PARALLEL_H

#include <kiln/kiln.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_rank kiln_rank;
typedef struct kiln_loopback kiln_loopback;
typedef struct kiln_context_prefill kiln_context_prefill;
typedef struct kiln_context_decode kiln_context_decode;

/* The calling thread's last error of these functions; "" when there was none. */
const char* kiln_parallel_last_error(void);

/* 128 bytes that name a group of NCCL, made on one rank and given to the others. `library`: path of libnccl.so.2, or
 * NULL. */
kiln_status kiln_parallel_nccl_id(const char* library, char id[128]);
/* A group of threads on the emulated device. Destroy it after its ranks. */
kiln_status kiln_loopback_create(int size, double timeout_seconds, kiln_loopback** out);
void kiln_loopback_destroy(kiln_loopback* group);

typedef struct {
  size_t size_of;          /* sizeof(kiln_rank_options) */
  const char* device;      /* "cuda:0", ...; "emulated" with a loopback */
  const char* cache_dir;   /* NULL: the default; "": memory only */
  int rank, size;          /* of the group */
  kiln_loopback* loopback; /* or NULL: NCCL */
  char nccl_id[128];       /* without a communicator */
  void* communicator;      /* ncclComm_t of the caller, or NULL */
  double timeout_seconds;  /* 0: 30 */
  int max_blocks;          /* of NCCL's kernels; 0: its choice */
  const char* library;     /* path of libnccl.so.2, or NULL */
} kiln_rank_options;
kiln_status kiln_rank_create(const kiln_rank_options* options, kiln_rank** out);
void kiln_rank_destroy(kiln_rank* rank); /* after what was made of it */
/* Waits for the work on `stream`, at most the timeout. KILN_DEVICE: a rank failed or did not come; the group is over. */
kiln_status kiln_rank_synchronize(kiln_rank* rank, uint64_t stream);
/* Ends the group for all ranks. */
void kiln_rank_abort(kiln_rank* rank, const char* reason);

/* kiln::ContextPrefill. `way`: 0 by the cost model, 1 ring, 2 gather. */
kiln_status kiln_context_prefill_create(kiln_rank* rank, const char* config_json, int64_t heads_q,
                                        int64_t heads_kv, int way, kiln_context_prefill** out);
void kiln_context_prefill_destroy(kiln_context_prefill* prefill);
kiln_status kiln_context_prefill_set_batch(kiln_context_prefill* prefill, const int64_t* lengths,
                                           size_t count);
int64_t kiln_context_prefill_rows(const kiln_context_prefill* prefill);
/* Rows [first, end) of a sequence that this rank has as run `which`, 0 or 1. */
kiln_status kiln_context_prefill_run(const kiln_context_prefill* prefill, int64_t sequence, int which,
                                     int64_t* first, int64_t* end);
/* [rows, heads, depth] of this rank, dense; lse or NULL; scale NULL: the config's. Tensors in host memory (all of them,
 * then) are copied there and back, and the call waits. */
kiln_status kiln_context_prefill_launch(kiln_context_prefill* prefill, const DLTensor* q, const DLTensor* k,
                                        const DLTensor* v, DLTensor* o, DLTensor* lse, const double* scale,
                                        uint64_t stream);
/* The same with q, k, v, o, lse, sink, q_scale, k_scale, v_scale and scale of `args`, of configs with sinks or scales,
 * too. Scales per token are those of this rank's rows. */
kiln_status kiln_context_prefill_launch_args(kiln_context_prefill* prefill, const kiln_attention_args* args,
                                             uint64_t stream);

/* kiln::ContextDecode. The launch takes q, k, v, o, lse, cu_seqlens_q, cu_seqlens_k, page_table, seqlens_k, the scales,
 * sink, sides of windows and the longest lengths of `args`. */
kiln_status kiln_context_decode_create(kiln_rank* rank, const char* config_json, int64_t heads_q,
                                       int64_t max_rows, kiln_context_decode** out);
/* The same with kiln::ContextDecodeOptions. `result`: 0 all ranks get the whole, 1 each its heads, 2 each brings and
 * gets its queries. `way` of 0: 0 by the cost model, 1 gather, 2 spread; of others it is 0. */
kiln_status kiln_context_decode_create_for(kiln_rank* rank, const char* config_json, int64_t heads_q,
                                           int64_t max_rows, int result, int way, kiln_context_decode** out);
void kiln_context_decode_destroy(kiln_context_decode* decode);
kiln_status kiln_context_decode_launch(kiln_context_decode* decode, const kiln_attention_args* args,
                                       uint64_t stream);
/* The same where keys are elsewhere, of windows, ALiBi and several queries a sequence under a causal mask.
 * `query_ends`: i32 [batch], the length of each whole sequence less the position of this rank's first key
 * in it; NULL, on all ranks: their keys follow one another in the order of ranks, as the launch above has
 * it. */
kiln_status kiln_context_decode_launch_at(kiln_context_decode* decode, const kiln_attention_args* args,
                                          const DLTensor* query_ends, uint64_t stream);

#ifdef __cplusplus
}
#endif

#endif
