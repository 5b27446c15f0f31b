/* The C interface of kiln: opaque handles, status codes, DLPack tensors, a stream. Safe to call from any
 * thread; the text of the last error is kept per thread. No function throws or aborts on bad input. */
#ifndef KILN_KILN_H
#define KILN_KILN_H

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  KILN_OK = 0,
  KILN_BAD_CONFIG = 1,  /* kiln_last_error() has one line per broken rule */
  KILN_BAD_INPUT = 2,   /* an argument or tensor does not fit */
  KILN_ENVIRONMENT = 3, /* a compiler, driver or device is missing */
  KILN_COMPILE = 4,     /* the kernel compiler refused the source */
  KILN_DEVICE = 5,      /* the device reported an error */
  KILN_INTERNAL = 6     /* a bug in kiln, or out of memory */
} kiln_status;

typedef struct kiln_runtime kiln_runtime;
typedef struct kiln_kernel kiln_kernel;

/* Structs start with their own size, so that later versions can add members: set it to sizeof. */
typedef struct {
  size_t size;
  const char* device;    /* auto, cuda[:n], hip[:n], emulated; NULL: $KILN_DEVICE, else auto */
  const char* cache_dir; /* NULL: the default; "": memory only */
} kiln_runtime_options;

typedef struct {
  size_t size;
  const char* name;     /* valid as long as the kernel */
  const char* manifest; /* JSON; valid as long as the kernel */
  const char* cache;    /* "miss", "memory" or "disk" */
  double compile_ms;
  int registers, spill_bytes, smem_bytes;
} kiln_kernel_info;

/* Tensors on the runtime's device are used in place. Tensors in host memory (all of them, then) are copied to
 * the device and o and lse back; the call then returns when they are there. */
typedef struct {
  size_t size;
  const DLTensor *q, *k, *v; /* [batch, seqlen, heads, depth], ragged [total, heads, depth]; k and v paged:
                                [num_pages, page_size, heads, depth], q and o then ragged; k and v
                                have cache_depth in place of depth where the config has it (rows with a
                                tail of rotary columns: always); v is ignored and may be NULL where it
                                lies in K's rows (v_from_k); uint8 is taken for a type of 8 bits */
  DLTensor* o;
  DLTensor* lse; /* or NULL; f32 [batch, heads_q, seqlen_q], ragged [heads_q, total_q] */
  const DLTensor *cu_seqlens_q, *cu_seqlens_k; /* ragged: i32 [batch + 1]; else NULL */
  int64_t max_seqlen_q, max_seqlen_k;          /* ragged: the longest lengths */
  const double* scale;                         /* softmax scale; NULL: the config's */
  const DLTensor* page_table; /* paged: i32 [batch, max_pages]; continuous: [batch, 1]; else NULL */
  const DLTensor* seqlens_k;  /* paged, continuous: i32 [batch]; contiguous: the same or NULL */
  const DLTensor *q_scale, *k_scale, *v_scale; /* f32, of a quantised kernel; else NULL; per token
                                                  [.., tokens, heads], or [.., heads, tokens] where
                                                  its layout is head_major */
  const DLTensor* sink;                        /* f32 [heads_q], of a kernel with sinks; else NULL */
  const DLTensor* mask_bits;                   /* i32 words, of a kernel with a custom mask; else NULL */
  int launch_before; /* what the launch before on the stream leaves alone: 0 nothing is promised, 1 lengths
                        and tables, 2 everything this launch touches (kiln::LaunchBefore) */
  int max_blocks;    /* of persistent grids; 0: no limit */
  const DLTensor* k_rope; /* K's rotary columns, of a kernel with a tensor of their own, in K's form with the
                             same pages and rows (k then has the other columns); else NULL */
  int residency; /* 0 by the amount of work, 1 one block a multiprocessor, 2 several (kiln::Residency) */
  const DLTensor* captured[4]; /* tensors of the score expression in the config's order; else NULL */
  const DLTensor*
      first_keys; /* i32 [batch], of a mask with left padding: each sequence's first key; else NULL */
  /* Of masks with sides given at launch: one more than the keys before and after the row's own position that it
     sees, 0: no bound; and the length of chunks, 0: none */
  int64_t window_left, window_right, window_chunk;
  const DLTensor* kv_factors; /* f32 [2], of a cache of fp4_e2m1: factors of K and of V; else NULL */
} kiln_attention_args;

/* The calling thread's last error: one line per problem; "" when there was none. Valid until its next failing
 * call. */
const char* kiln_last_error(void);
const char* kiln_version(void);

kiln_status kiln_runtime_create(const kiln_runtime_options* options, kiln_runtime** out);
void kiln_runtime_destroy(kiln_runtime* runtime);

/* Emitted source and manifest of a config, as text to be freed with kiln_free. Needs no compiler and no
 * device. */
kiln_status kiln_generate(const char* config_json, char** source, char** manifest);
void kiln_free(void* text);

/* Compiles (or finds) and loads the kernel of a config. Destroy kernels before their runtime. */
kiln_status kiln_kernel_load(kiln_runtime* runtime, const char* config_json, kiln_kernel** out);
/* The same with `source` in place of the text that kiln_generate gives for the config: an edited kernel with
 * the same parameters. */
kiln_status kiln_kernel_load_source(kiln_runtime* runtime, const char* config_json, const char* source,
                                    kiln_kernel** out);
/* Loads a compiled kernel as it is: a cubin or PTX text (NVIDIA; the emulated device takes PTX), a code
 * object (AMD), with the manifest that kiln_generate gave for it. Needs no compiler. */
kiln_status kiln_kernel_load_image(kiln_runtime* runtime, const char* manifest_json, const void* image,
                                   size_t bytes, kiln_kernel** out);
void kiln_kernel_destroy(kiln_kernel* kernel);
kiln_status kiln_kernel_get_info(const kiln_kernel* kernel, kiln_kernel_info* info);

/* Launches on `stream` (a CUstream as an integer; 0: the default stream). */
kiln_status kiln_kernel_launch(kiln_kernel* kernel, const kiln_attention_args* args, uint64_t stream);

#ifdef __cplusplus
}
#endif

#endif
