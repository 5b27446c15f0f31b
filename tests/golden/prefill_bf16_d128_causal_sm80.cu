// prefill_bf16_d128_causal_sm80: emitted by kiln VERSION. Do not edit: change the config and generate again.
//
// Config: {"name":"prefill_bf16_d128_causal_sm80","target":"sm_80","operation":"prefill","dtype":"bf16","kv_dtype":"bf16","out_dtype":"bf16","depth":128,"ov_depth":128,"rope_depth":0,"nope_depth":128,"q_depth":128,"cache_depth":128,"head_dim_offset":0,"v_from_k":false,"operand":{"kind":"contiguous"},"mask":"causal","score_mod":"none","sink":false,"lse":false,"scale":0.08838834764831843,"mma_shape":[16,8,16],"BM":64,"BN":64,"BK":64,"WM":16,"WN":64,"num_threads":128,"swizzle":"128B","full_kv":true,"bk_smem":64,"smem_depth":128,"num_smem_stages":2,"num_kv_stages":2,"schedule":"sm80_prefill"}
// Schedule sm80_prefill: 64 query rows (4 warps of 16) by 64 keys a tile, 2 KV stages, strips of 64.
// Registers: at most 255 a thread; Q stays in registers.
// Shared memory (81920 bytes):
//         0 ..   16384  Q, then O on its way out
//     16384 ..   49152  K stages
//     49152 ..   81920  V stages
//
// Regenerate: kiln generate prefill_bf16_d128_causal_sm80.json --out .
// Compile: nvcc -arch=sm_80 -cubin prefill_bf16_d128_causal_sm80.cu

#define kInfinity __int_as_float(0x7f800000)

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;

// Threads and warps, as text for NVIDIA and AMD names them. All 32 lanes of a warp take part.
__device__ __forceinline__ u32 thread_id() { return threadIdx.x; }
__device__ __forceinline__ u32 block_id() { return blockIdx.x; }
__device__ __forceinline__ u32 grid_blocks() { return gridDim.x; }
__device__ __forceinline__ int broadcast(int x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }
__device__ __forceinline__ int shuffle_xor(int x, int step) { return __shfl_xor_sync(0xffffffffu, x, step); }
__device__ __forceinline__ int shuffle_up(int x, int step) { return __shfl_up_sync(0xffffffffu, x, step); }
__device__ __forceinline__ u32 warp_ballot(bool x) { return __ballot_sync(0xffffffffu, x); }
__device__ __forceinline__ int first_set(u32 bits) { return __ffs(bits) - 1; }
#define UNROLL_4 _Pragma("unroll 4")

// Floats across a warp, as text for NVIDIA and AMD names them.
__device__ __forceinline__ float lane_float(float x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }
__device__ __forceinline__ bool any_lane(bool x) { return __any_sync(0xffffffffu, x); }
// A value that is the same in every lane, known to be.
__device__ __forceinline__ int same(int x) { return __shfl_sync(0xffffffffu, x, 0); }
__device__ __forceinline__ bool writes_rows() { return true; }
__device__ __forceinline__ float sum_of_lanes(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}
__device__ __forceinline__ float largest_of_lanes(float x) {
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}
__device__ __forceinline__ int largest_of_lanes(int x) {
  for (int step = 16; step > 0; step /= 2) x = max(x, shuffle_xor(x, step));
  return x;
}

// The two elements of a register, and whether those of `count` registers are all finite.
__device__ __forceinline__ float low_half(u32 two) { return __uint_as_float(two << 16); }
__device__ __forceinline__ float high_half(u32 two) { return __uint_as_float(two & 0xffff0000u); }
__device__ __forceinline__ bool finite_halves(const u32* at, int count) {
  bool finite = true;
#pragma unroll 4
  for (int i = 0; i < count; ++i) finite &= (at[i] & 0x7f80u) != 0x7f80u && (at[i] & 0x7f800000u) != 0x7f800000u;
  return finite;
}

__device__ __forceinline__ u32 smem_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// P is 2^(s * factor - base), and a row's base its maximum times `factor`, rounded. From a base of this size on the
// rounding would show: there the maximum is subtracted before the product, and the base is 0.
constexpr float kSteep = 65536.0f;
__device__ __forceinline__ bool is_steep(float base) { return fabsf(base) >= kSteep; }
// The product as everything relative to a row's base has it: rounded by itself, no part of a fused multiply-add.
__device__ __forceinline__ float row_base(float maximum, float factor) { return __fmul_rn(maximum, factor); }
// What a row's sums are multiplied by when its maximum goes from `from` to `to`; 0 while no key was visible. It takes
// the maxima, not their rounded bases: the difference is below the rounding of the scores, and cancels over a row.
__device__ __forceinline__ float rescale_factor(float from, float to, float factor) {
  return exp2_approx((from - fmaxf(to, -3.402823466e38f)) * factor);
}

__device__ __forceinline__ float rcp_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Two floats to one register of two BF16 (round to nearest even); `lo` goes to the lower half.
__device__ __forceinline__ u32 pack_bf16(float lo, float hi) {
  u32 packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(hi), "f"(lo));
  return packed;
}

// 16 bytes from global to shared memory, asynchronously; zeros when not `valid` (then `src` is not read).
__device__ __forceinline__ void cp_async_16(u32 dst, const u16* src, bool valid) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(valid ? 16 : 0) : "memory");
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most n of this thread's committed groups are still on their way.
#define CP_ASYNC_WAIT(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

// Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void ldmatrix_x4(u32* r, u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// As ldmatrix_x4, each matrix transposed on the way.
__device__ __forceinline__ void ldmatrix_x4_trans(u32* r, u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// D += A B, 16x8x16.
__device__ __forceinline__ void mma_bf16(float* d, const u32* a, const u32* b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// D = A B.
__device__ __forceinline__ void mma_bf16_first(float* d, const u32* a, const u32* b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.0f));
}

__device__ __forceinline__ void store_shared_32(u32 address, u32 value) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}
// 16 bytes from shared to global memory.
__device__ __forceinline__ void copy_out_16(u16* dst, u32 src) {
  u32 x, y, z, w;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(src) : "memory");
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(dst), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}

extern "C" __global__ void __launch_bounds__(128, 1)
kiln_prefill_bf16_d128_causal_sm80(const u16* q, const u16* k, const u16* v, u16* o, int heads_q, int heads_kv, int seqlen_q,
    int seqlen_k, long long q_stride_batch, long long q_stride_seq, long long q_stride_head,
    long long k_stride_batch, long long k_stride_seq, long long k_stride_head,
    long long v_stride_batch, long long v_stride_seq, long long v_stride_head,
    long long o_stride_batch, long long o_stride_seq, long long o_stride_head, float scale_log2) {
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  const u32 smem_q = smem_address(smem_bytes), smem_k = smem_q + 16384, smem_v = smem_q + 49152;
  const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;

  // ---- work item: 64 query rows of one head of one sequence
  const int m_start = (int)(gridDim.x - 1 - blockIdx.x) * 64;  // the longest rows first
  const int head = blockIdx.y, batch = blockIdx.z, kv_head = head / (heads_q / heads_kv);
  const u16* const q_head = q + batch * q_stride_batch + head * q_stride_head + m_start * q_stride_seq;
  const u16* const k_head = k + batch * k_stride_batch + kv_head * k_stride_head;
  const u16* const v_head = v + batch * v_stride_batch + kv_head * v_stride_head;
  u16* const o_head = o + batch * o_stride_batch + head * o_stride_head + m_start * o_stride_seq;
  const int row_0 = m_start + 16 * warp + (lane >> 2);  // this lane's rows: row_0, row_0 + 8
  // Keys that some row of the block sees, that some row of this warp sees, and that all rows of it see.
  const int block_position = m_start + seqlen_k - seqlen_q, warp_position = block_position + 16 * warp;
  const int block_end = min(seqlen_k, (min(m_start + 64, seqlen_q) - 1 + seqlen_k - seqlen_q) + 1);
  const int warp_end = min(seqlen_k, warp_position + 15 + 1);
  const int clean_end = min(seqlen_k, warp_position + 1);
  const int num_tiles = (max(block_end, 0) + 63) / 64;

  // ---- addresses
  // Q: copies of this thread (16 rows apart), fragment addresses of this lane
  const int q_row = thread / 8, q_chunk = thread % 8;
  const u32 q_dst_vector = thread;
  const u32 q_dst_lane = (q_dst_vector ^ ((q_dst_vector >> 3) & 7)) * 16;
  const u32 q_dst_0 = smem_q + q_dst_lane;
  const u16* const q_src = q_head + q_row * q_stride_seq + 8 * q_chunk;
  const long long q_pass = 16 * q_stride_seq;
  const int q_rows = seqlen_q - m_start - q_row;
  const u32 smem_q_warp = smem_q + warp * 2048;  // 16 rows of this warp
  const u32 q_frag_vector = (lane & 15) * 8 + (lane >> 4);
  const u32 q_frag_lane = (q_frag_vector ^ ((q_frag_vector >> 3) & 7)) * 16;
  const u32 q_frag_0 = smem_q_warp + q_frag_lane;
  const u32 q_frag_32 = smem_q_warp + (q_frag_lane ^ 32);
  const u32 q_frag_64 = smem_q_warp + (q_frag_lane ^ 64);
  const u32 q_frag_96 = smem_q_warp + (q_frag_lane ^ 96);
  // K: copies of this thread (16 rows apart), fragment addresses of this lane
  const int k_row = thread / 8, k_chunk = thread % 8;
  const u32 k_dst_vector = thread;
  const u32 k_dst_lane = (k_dst_vector ^ ((k_dst_vector >> 3) & 7)) * 16;
  const u32 k_dst_0 = smem_k + k_dst_lane;
  const u16* k_src = k_head + k_row * k_stride_seq + 8 * k_chunk;
  const long long k_pass = 16 * k_stride_seq;
  int k_rows = seqlen_k - k_row;
  const u32 k_frag_vector = ((lane & 7) + ((lane >> 4) << 3)) * 8 + ((lane >> 3) & 1);
  const u32 k_frag_lane = (k_frag_vector ^ ((k_frag_vector >> 3) & 7)) * 16;
  const u32 k_frag_0 = smem_k + k_frag_lane;
  const u32 k_frag_32 = smem_k + (k_frag_lane ^ 32);
  const u32 k_frag_64 = smem_k + (k_frag_lane ^ 64);
  const u32 k_frag_96 = smem_k + (k_frag_lane ^ 96);
  // V: copies of this thread (16 rows apart), fragment addresses of this lane
  const int v_row = thread / 8, v_chunk = thread % 8;
  const u32 v_dst_vector = thread;
  const u32 v_dst_lane = (v_dst_vector ^ ((v_dst_vector >> 3) & 7)) * 16;
  const u32 v_dst_0 = smem_v + v_dst_lane;
  const u16* v_src = v_head + v_row * v_stride_seq + 8 * v_chunk;
  const long long v_pass = 16 * v_stride_seq;
  int v_rows = seqlen_k - v_row;
  const u32 v_frag_vector = (lane & 15) * 8 + (lane >> 4);
  const u32 v_frag_lane = (v_frag_vector ^ ((v_frag_vector >> 3) & 7)) * 16;
  const u32 v_frag_0 = smem_v + v_frag_lane;
  const u32 v_frag_32 = smem_v + (v_frag_lane ^ 32);
  const u32 v_frag_64 = smem_v + (v_frag_lane ^ 64);
  const u32 v_frag_96 = smem_v + (v_frag_lane ^ 96);

  // ---- accumulators
  float s_acc[32];  // S: 16 x 64 scores of this warp
  float o_acc[64];  // O: 16 x 128
  u32 p[16];  // P: 16 x 64 as the A operand of P V
  u32 q_reg[32];  // Q: 16 x 128 as the A operand of Q K'
  float row_max_0 = -kInfinity, row_max_1 = -kInfinity;
  float row_sum_0 = 0.0f, row_sum_1 = 0.0f;
  o_acc[0] = o_acc[1] = o_acc[2] = o_acc[3] = o_acc[4] = o_acc[5] = o_acc[6] = o_acc[7] = 0.0f;
  o_acc[8] = o_acc[9] = o_acc[10] = o_acc[11] = o_acc[12] = o_acc[13] = o_acc[14] = o_acc[15] = 0.0f;
  o_acc[16] = o_acc[17] = o_acc[18] = o_acc[19] = o_acc[20] = o_acc[21] = o_acc[22] = o_acc[23] = 0.0f;
  o_acc[24] = o_acc[25] = o_acc[26] = o_acc[27] = o_acc[28] = o_acc[29] = o_acc[30] = o_acc[31] = 0.0f;
  o_acc[32] = o_acc[33] = o_acc[34] = o_acc[35] = o_acc[36] = o_acc[37] = o_acc[38] = o_acc[39] = 0.0f;
  o_acc[40] = o_acc[41] = o_acc[42] = o_acc[43] = o_acc[44] = o_acc[45] = o_acc[46] = o_acc[47] = 0.0f;
  o_acc[48] = o_acc[49] = o_acc[50] = o_acc[51] = o_acc[52] = o_acc[53] = o_acc[54] = o_acc[55] = 0.0f;
  o_acc[56] = o_acc[57] = o_acc[58] = o_acc[59] = o_acc[60] = o_acc[61] = o_acc[62] = o_acc[63] = 0.0f;
  if (num_tiles > 0) {

    // ---- prologue: Q and the first tiles on their way
    cp_async_16(q_dst_0, q_src, q_rows > 0);
    cp_async_16(q_dst_0 + 2048, q_src + q_pass, q_rows > 16);
    cp_async_16(q_dst_0 + 4096, q_src + 2 * q_pass, q_rows > 32);
    cp_async_16(q_dst_0 + 6144, q_src + 3 * q_pass, q_rows > 48);
    cp_async_16(q_dst_0 + 8192, q_src + 64, q_rows > 0);
    cp_async_16(q_dst_0 + 10240, q_src + q_pass + 64, q_rows > 16);
    cp_async_16(q_dst_0 + 12288, q_src + 2 * q_pass + 64, q_rows > 32);
    cp_async_16(q_dst_0 + 14336, q_src + 3 * q_pass + 64, q_rows > 48);
    // load_k_stage0
    cp_async_16(k_dst_0, k_src, k_rows > 0);
    cp_async_16(k_dst_0 + 2048, k_src + k_pass, k_rows > 16);
    cp_async_16(k_dst_0 + 4096, k_src + 2 * k_pass, k_rows > 32);
    cp_async_16(k_dst_0 + 6144, k_src + 3 * k_pass, k_rows > 48);
    cp_async_16(k_dst_0 + 8192, k_src + 64, k_rows > 0);
    cp_async_16(k_dst_0 + 10240, k_src + k_pass + 64, k_rows > 16);
    cp_async_16(k_dst_0 + 12288, k_src + 2 * k_pass + 64, k_rows > 32);
    cp_async_16(k_dst_0 + 14336, k_src + 3 * k_pass + 64, k_rows > 48);
    k_src += 64 * k_stride_seq; k_rows -= 64;
    // load_v_stage0
    cp_async_16(v_dst_0, v_src, v_rows > 0);
    cp_async_16(v_dst_0 + 2048, v_src + v_pass, v_rows > 16);
    cp_async_16(v_dst_0 + 4096, v_src + 2 * v_pass, v_rows > 32);
    cp_async_16(v_dst_0 + 6144, v_src + 3 * v_pass, v_rows > 48);
    cp_async_16(v_dst_0 + 8192, v_src + 64, v_rows > 0);
    cp_async_16(v_dst_0 + 10240, v_src + v_pass + 64, v_rows > 16);
    cp_async_16(v_dst_0 + 12288, v_src + 2 * v_pass + 64, v_rows > 32);
    cp_async_16(v_dst_0 + 14336, v_src + 3 * v_pass + 64, v_rows > 48);
    v_src += 64 * v_stride_seq; v_rows -= 64;
    cp_async_commit();
    CP_ASYNC_WAIT(0);
    __syncthreads();
    ldmatrix_x4(q_reg + 0, q_frag_0);
    ldmatrix_x4(q_reg + 4, q_frag_32);
    ldmatrix_x4(q_reg + 8, q_frag_64);
    ldmatrix_x4(q_reg + 12, q_frag_96);
    ldmatrix_x4(q_reg + 16, q_frag_0 + 8192);
    ldmatrix_x4(q_reg + 20, q_frag_32 + 8192);
    ldmatrix_x4(q_reg + 24, q_frag_64 + 8192);
    ldmatrix_x4(q_reg + 28, q_frag_96 + 8192);
    for (int n = 0;;) {

      // ---- KV tile n in stage 0
      if (n + 1 < num_tiles) {
        // load_k_stage1
        cp_async_16(k_dst_0 + 16384, k_src, k_rows > 0);
        cp_async_16(k_dst_0 + 18432, k_src + k_pass, k_rows > 16);
        cp_async_16(k_dst_0 + 20480, k_src + 2 * k_pass, k_rows > 32);
        cp_async_16(k_dst_0 + 22528, k_src + 3 * k_pass, k_rows > 48);
        cp_async_16(k_dst_0 + 24576, k_src + 64, k_rows > 0);
        cp_async_16(k_dst_0 + 26624, k_src + k_pass + 64, k_rows > 16);
        cp_async_16(k_dst_0 + 28672, k_src + 2 * k_pass + 64, k_rows > 32);
        cp_async_16(k_dst_0 + 30720, k_src + 3 * k_pass + 64, k_rows > 48);
        k_src += 64 * k_stride_seq; k_rows -= 64;
        // load_v_stage1
        cp_async_16(v_dst_0 + 16384, v_src, v_rows > 0);
        cp_async_16(v_dst_0 + 18432, v_src + v_pass, v_rows > 16);
        cp_async_16(v_dst_0 + 20480, v_src + 2 * v_pass, v_rows > 32);
        cp_async_16(v_dst_0 + 22528, v_src + 3 * v_pass, v_rows > 48);
        cp_async_16(v_dst_0 + 24576, v_src + 64, v_rows > 0);
        cp_async_16(v_dst_0 + 26624, v_src + v_pass + 64, v_rows > 16);
        cp_async_16(v_dst_0 + 28672, v_src + 2 * v_pass + 64, v_rows > 32);
        cp_async_16(v_dst_0 + 30720, v_src + 3 * v_pass + 64, v_rows > 48);
        v_src += 64 * v_stride_seq; v_rows -= 64;
      }
      cp_async_commit();
      if (n * 64 < warp_end) {
        // S = Q K(n)'
        u32 k_reg[128];  // 64 fragments of 16x8
        ldmatrix_x4(k_reg + 0, k_frag_0);
        ldmatrix_x4(k_reg + 4, k_frag_0 + 2048);
        ldmatrix_x4(k_reg + 8, k_frag_0 + 4096);
        ldmatrix_x4(k_reg + 12, k_frag_0 + 6144);
        // strip 0, step 0: depth 0 .. 15; fragments of the next step first
        ldmatrix_x4(k_reg + 16, k_frag_32);
        ldmatrix_x4(k_reg + 20, k_frag_32 + 2048);
        ldmatrix_x4(k_reg + 24, k_frag_32 + 4096);
        ldmatrix_x4(k_reg + 28, k_frag_32 + 6144);
        mma_bf16_first(s_acc + 0, q_reg + 0, k_reg + 0);
        mma_bf16_first(s_acc + 4, q_reg + 0, k_reg + 2);
        mma_bf16_first(s_acc + 8, q_reg + 0, k_reg + 4);
        mma_bf16_first(s_acc + 12, q_reg + 0, k_reg + 6);
        mma_bf16_first(s_acc + 16, q_reg + 0, k_reg + 8);
        mma_bf16_first(s_acc + 20, q_reg + 0, k_reg + 10);
        mma_bf16_first(s_acc + 24, q_reg + 0, k_reg + 12);
        mma_bf16_first(s_acc + 28, q_reg + 0, k_reg + 14);
        // strip 0, step 1: depth 16 .. 31; fragments of the next step first
        ldmatrix_x4(k_reg + 32, k_frag_64);
        ldmatrix_x4(k_reg + 36, k_frag_64 + 2048);
        ldmatrix_x4(k_reg + 40, k_frag_64 + 4096);
        ldmatrix_x4(k_reg + 44, k_frag_64 + 6144);
        mma_bf16(s_acc + 0, q_reg + 4, k_reg + 16);
        mma_bf16(s_acc + 4, q_reg + 4, k_reg + 18);
        mma_bf16(s_acc + 8, q_reg + 4, k_reg + 20);
        mma_bf16(s_acc + 12, q_reg + 4, k_reg + 22);
        mma_bf16(s_acc + 16, q_reg + 4, k_reg + 24);
        mma_bf16(s_acc + 20, q_reg + 4, k_reg + 26);
        mma_bf16(s_acc + 24, q_reg + 4, k_reg + 28);
        mma_bf16(s_acc + 28, q_reg + 4, k_reg + 30);
        // strip 0, step 2: depth 32 .. 47; fragments of the next step first
        ldmatrix_x4(k_reg + 48, k_frag_96);
        ldmatrix_x4(k_reg + 52, k_frag_96 + 2048);
        ldmatrix_x4(k_reg + 56, k_frag_96 + 4096);
        ldmatrix_x4(k_reg + 60, k_frag_96 + 6144);
        mma_bf16(s_acc + 0, q_reg + 8, k_reg + 32);
        mma_bf16(s_acc + 4, q_reg + 8, k_reg + 34);
        mma_bf16(s_acc + 8, q_reg + 8, k_reg + 36);
        mma_bf16(s_acc + 12, q_reg + 8, k_reg + 38);
        mma_bf16(s_acc + 16, q_reg + 8, k_reg + 40);
        mma_bf16(s_acc + 20, q_reg + 8, k_reg + 42);
        mma_bf16(s_acc + 24, q_reg + 8, k_reg + 44);
        mma_bf16(s_acc + 28, q_reg + 8, k_reg + 46);
        // strip 0, step 3: depth 48 .. 63; fragments of the next step first
        ldmatrix_x4(k_reg + 64, k_frag_0 + 8192);
        ldmatrix_x4(k_reg + 68, k_frag_0 + 10240);
        ldmatrix_x4(k_reg + 72, k_frag_0 + 12288);
        ldmatrix_x4(k_reg + 76, k_frag_0 + 14336);
        mma_bf16(s_acc + 0, q_reg + 12, k_reg + 48);
        mma_bf16(s_acc + 4, q_reg + 12, k_reg + 50);
        mma_bf16(s_acc + 8, q_reg + 12, k_reg + 52);
        mma_bf16(s_acc + 12, q_reg + 12, k_reg + 54);
        mma_bf16(s_acc + 16, q_reg + 12, k_reg + 56);
        mma_bf16(s_acc + 20, q_reg + 12, k_reg + 58);
        mma_bf16(s_acc + 24, q_reg + 12, k_reg + 60);
        mma_bf16(s_acc + 28, q_reg + 12, k_reg + 62);
        // strip 1, step 0: depth 64 .. 79; fragments of the next step first
        ldmatrix_x4(k_reg + 80, k_frag_32 + 8192);
        ldmatrix_x4(k_reg + 84, k_frag_32 + 10240);
        ldmatrix_x4(k_reg + 88, k_frag_32 + 12288);
        ldmatrix_x4(k_reg + 92, k_frag_32 + 14336);
        mma_bf16(s_acc + 0, q_reg + 16, k_reg + 64);
        mma_bf16(s_acc + 4, q_reg + 16, k_reg + 66);
        mma_bf16(s_acc + 8, q_reg + 16, k_reg + 68);
        mma_bf16(s_acc + 12, q_reg + 16, k_reg + 70);
        mma_bf16(s_acc + 16, q_reg + 16, k_reg + 72);
        mma_bf16(s_acc + 20, q_reg + 16, k_reg + 74);
        mma_bf16(s_acc + 24, q_reg + 16, k_reg + 76);
        mma_bf16(s_acc + 28, q_reg + 16, k_reg + 78);
        // strip 1, step 1: depth 80 .. 95; fragments of the next step first
        ldmatrix_x4(k_reg + 96, k_frag_64 + 8192);
        ldmatrix_x4(k_reg + 100, k_frag_64 + 10240);
        ldmatrix_x4(k_reg + 104, k_frag_64 + 12288);
        ldmatrix_x4(k_reg + 108, k_frag_64 + 14336);
        mma_bf16(s_acc + 0, q_reg + 20, k_reg + 80);
        mma_bf16(s_acc + 4, q_reg + 20, k_reg + 82);
        mma_bf16(s_acc + 8, q_reg + 20, k_reg + 84);
        mma_bf16(s_acc + 12, q_reg + 20, k_reg + 86);
        mma_bf16(s_acc + 16, q_reg + 20, k_reg + 88);
        mma_bf16(s_acc + 20, q_reg + 20, k_reg + 90);
        mma_bf16(s_acc + 24, q_reg + 20, k_reg + 92);
        mma_bf16(s_acc + 28, q_reg + 20, k_reg + 94);
        // strip 1, step 2: depth 96 .. 111; fragments of the next step first
        ldmatrix_x4(k_reg + 112, k_frag_96 + 8192);
        ldmatrix_x4(k_reg + 116, k_frag_96 + 10240);
        ldmatrix_x4(k_reg + 120, k_frag_96 + 12288);
        ldmatrix_x4(k_reg + 124, k_frag_96 + 14336);
        mma_bf16(s_acc + 0, q_reg + 24, k_reg + 96);
        mma_bf16(s_acc + 4, q_reg + 24, k_reg + 98);
        mma_bf16(s_acc + 8, q_reg + 24, k_reg + 100);
        mma_bf16(s_acc + 12, q_reg + 24, k_reg + 102);
        mma_bf16(s_acc + 16, q_reg + 24, k_reg + 104);
        mma_bf16(s_acc + 20, q_reg + 24, k_reg + 106);
        mma_bf16(s_acc + 24, q_reg + 24, k_reg + 108);
        mma_bf16(s_acc + 28, q_reg + 24, k_reg + 110);
        // strip 1, step 3: depth 112 .. 127
        mma_bf16(s_acc + 0, q_reg + 28, k_reg + 112);
        mma_bf16(s_acc + 4, q_reg + 28, k_reg + 114);
        mma_bf16(s_acc + 8, q_reg + 28, k_reg + 116);
        mma_bf16(s_acc + 12, q_reg + 28, k_reg + 118);
        mma_bf16(s_acc + 16, q_reg + 28, k_reg + 120);
        mma_bf16(s_acc + 20, q_reg + 28, k_reg + 122);
        mma_bf16(s_acc + 24, q_reg + 28, k_reg + 124);
        mma_bf16(s_acc + 28, q_reg + 28, k_reg + 126);
        // the end of some row's keys lies in this tile
        if ((n + 1) * 64 > clean_end) {
          // keys past the row's own position or the end of the sequence do not count
          const int end_0 = min(seqlen_k, row_0 + seqlen_k - seqlen_q + 1) - (n * 64) - 2 * (lane & 3);
          const int end_1 = min(seqlen_k, row_0 + 8 + seqlen_k - seqlen_q + 1) - (n * 64) - 2 * (lane & 3);
          if (0 >= end_0) s_acc[0] = -kInfinity; if (1 >= end_0) s_acc[1] = -kInfinity;
          if (0 >= end_1) s_acc[2] = -kInfinity; if (1 >= end_1) s_acc[3] = -kInfinity;
          if (8 >= end_0) s_acc[4] = -kInfinity; if (9 >= end_0) s_acc[5] = -kInfinity;
          if (8 >= end_1) s_acc[6] = -kInfinity; if (9 >= end_1) s_acc[7] = -kInfinity;
          if (16 >= end_0) s_acc[8] = -kInfinity; if (17 >= end_0) s_acc[9] = -kInfinity;
          if (16 >= end_1) s_acc[10] = -kInfinity; if (17 >= end_1) s_acc[11] = -kInfinity;
          if (24 >= end_0) s_acc[12] = -kInfinity; if (25 >= end_0) s_acc[13] = -kInfinity;
          if (24 >= end_1) s_acc[14] = -kInfinity; if (25 >= end_1) s_acc[15] = -kInfinity;
          if (32 >= end_0) s_acc[16] = -kInfinity; if (33 >= end_0) s_acc[17] = -kInfinity;
          if (32 >= end_1) s_acc[18] = -kInfinity; if (33 >= end_1) s_acc[19] = -kInfinity;
          if (40 >= end_0) s_acc[20] = -kInfinity; if (41 >= end_0) s_acc[21] = -kInfinity;
          if (40 >= end_1) s_acc[22] = -kInfinity; if (41 >= end_1) s_acc[23] = -kInfinity;
          if (48 >= end_0) s_acc[24] = -kInfinity; if (49 >= end_0) s_acc[25] = -kInfinity;
          if (48 >= end_1) s_acc[26] = -kInfinity; if (49 >= end_1) s_acc[27] = -kInfinity;
          if (56 >= end_0) s_acc[28] = -kInfinity; if (57 >= end_0) s_acc[29] = -kInfinity;
          if (56 >= end_1) s_acc[30] = -kInfinity; if (57 >= end_1) s_acc[31] = -kInfinity;
        }
        // P = exp2(S - max), O follows the maximum
        float max_0a = s_acc[0], max_0b = s_acc[1], max_1a = s_acc[2], max_1b = s_acc[3];
        max_0a = fmaxf(max_0a, s_acc[4]); max_0b = fmaxf(max_0b, s_acc[5]);
        max_1a = fmaxf(max_1a, s_acc[6]); max_1b = fmaxf(max_1b, s_acc[7]);
        max_0a = fmaxf(max_0a, s_acc[8]); max_0b = fmaxf(max_0b, s_acc[9]);
        max_1a = fmaxf(max_1a, s_acc[10]); max_1b = fmaxf(max_1b, s_acc[11]);
        max_0a = fmaxf(max_0a, s_acc[12]); max_0b = fmaxf(max_0b, s_acc[13]);
        max_1a = fmaxf(max_1a, s_acc[14]); max_1b = fmaxf(max_1b, s_acc[15]);
        max_0a = fmaxf(max_0a, s_acc[16]); max_0b = fmaxf(max_0b, s_acc[17]);
        max_1a = fmaxf(max_1a, s_acc[18]); max_1b = fmaxf(max_1b, s_acc[19]);
        max_0a = fmaxf(max_0a, s_acc[20]); max_0b = fmaxf(max_0b, s_acc[21]);
        max_1a = fmaxf(max_1a, s_acc[22]); max_1b = fmaxf(max_1b, s_acc[23]);
        max_0a = fmaxf(max_0a, s_acc[24]); max_0b = fmaxf(max_0b, s_acc[25]);
        max_1a = fmaxf(max_1a, s_acc[26]); max_1b = fmaxf(max_1b, s_acc[27]);
        max_0a = fmaxf(max_0a, s_acc[28]); max_0b = fmaxf(max_0b, s_acc[29]);
        max_1a = fmaxf(max_1a, s_acc[30]); max_1b = fmaxf(max_1b, s_acc[31]);
        float max_0 = fmaxf(max_0a, max_0b), max_1 = fmaxf(max_1a, max_1b);
        max_0 = fmaxf(max_0, __shfl_xor_sync(0xffffffffu, max_0, 1)); max_1 = fmaxf(max_1, __shfl_xor_sync(0xffffffffu, max_1, 1));
        max_0 = fmaxf(max_0, __shfl_xor_sync(0xffffffffu, max_0, 2)); max_1 = fmaxf(max_1, __shfl_xor_sync(0xffffffffu, max_1, 2));
        max_0 = fmaxf(max_0, row_max_0); max_1 = fmaxf(max_1, row_max_1);
        float alpha_0 = 1.0f, alpha_1 = 1.0f;
        // Keep the old maximum while no row of the warp grew by more than 2^8.
        const bool grew = (max_0 - row_max_0) * scale_log2 > 8.0f || (max_1 - row_max_1) * scale_log2 > 8.0f;
        const bool rescale = __any_sync(0xffffffffu, grew);
        if (rescale) {
          alpha_0 = rescale_factor(row_max_0, max_0, scale_log2); row_sum_0 *= alpha_0; row_max_0 = max_0;
          alpha_1 = rescale_factor(row_max_1, max_1, scale_log2); row_sum_1 *= alpha_1; row_max_1 = max_1;
        }
        float shift_0 = row_max_0 == -kInfinity ? 0.0f : row_base(row_max_0, scale_log2);
        float shift_1 = row_max_1 == -kInfinity ? 0.0f : row_base(row_max_1, scale_log2);
        if (__any_sync(0xffffffffu, is_steep(shift_0) || is_steep(shift_1))) {
          const float steep_0 = is_steep(shift_0) && row_max_0 != -kInfinity ? row_max_0 : 0.0f;
          if (is_steep(shift_0)) shift_0 = 0.0f;
          const float steep_1 = is_steep(shift_1) && row_max_1 != -kInfinity ? row_max_1 : 0.0f;
          if (is_steep(shift_1)) shift_1 = 0.0f;
          s_acc[0] -= steep_0; s_acc[1] -= steep_0; s_acc[2] -= steep_1; s_acc[3] -= steep_1;
          s_acc[4] -= steep_0; s_acc[5] -= steep_0; s_acc[6] -= steep_1; s_acc[7] -= steep_1;
          s_acc[8] -= steep_0; s_acc[9] -= steep_0; s_acc[10] -= steep_1; s_acc[11] -= steep_1;
          s_acc[12] -= steep_0; s_acc[13] -= steep_0; s_acc[14] -= steep_1; s_acc[15] -= steep_1;
          s_acc[16] -= steep_0; s_acc[17] -= steep_0; s_acc[18] -= steep_1; s_acc[19] -= steep_1;
          s_acc[20] -= steep_0; s_acc[21] -= steep_0; s_acc[22] -= steep_1; s_acc[23] -= steep_1;
          s_acc[24] -= steep_0; s_acc[25] -= steep_0; s_acc[26] -= steep_1; s_acc[27] -= steep_1;
          s_acc[28] -= steep_0; s_acc[29] -= steep_0; s_acc[30] -= steep_1; s_acc[31] -= steep_1;
        }
        if (rescale) {
          o_acc[0] *= alpha_0; o_acc[1] *= alpha_0; o_acc[2] *= alpha_1; o_acc[3] *= alpha_1;
          o_acc[4] *= alpha_0; o_acc[5] *= alpha_0; o_acc[6] *= alpha_1; o_acc[7] *= alpha_1;
          o_acc[8] *= alpha_0; o_acc[9] *= alpha_0; o_acc[10] *= alpha_1; o_acc[11] *= alpha_1;
          o_acc[12] *= alpha_0; o_acc[13] *= alpha_0; o_acc[14] *= alpha_1; o_acc[15] *= alpha_1;
          o_acc[16] *= alpha_0; o_acc[17] *= alpha_0; o_acc[18] *= alpha_1; o_acc[19] *= alpha_1;
          o_acc[20] *= alpha_0; o_acc[21] *= alpha_0; o_acc[22] *= alpha_1; o_acc[23] *= alpha_1;
          o_acc[24] *= alpha_0; o_acc[25] *= alpha_0; o_acc[26] *= alpha_1; o_acc[27] *= alpha_1;
          o_acc[28] *= alpha_0; o_acc[29] *= alpha_0; o_acc[30] *= alpha_1; o_acc[31] *= alpha_1;
          o_acc[32] *= alpha_0; o_acc[33] *= alpha_0; o_acc[34] *= alpha_1; o_acc[35] *= alpha_1;
          o_acc[36] *= alpha_0; o_acc[37] *= alpha_0; o_acc[38] *= alpha_1; o_acc[39] *= alpha_1;
          o_acc[40] *= alpha_0; o_acc[41] *= alpha_0; o_acc[42] *= alpha_1; o_acc[43] *= alpha_1;
          o_acc[44] *= alpha_0; o_acc[45] *= alpha_0; o_acc[46] *= alpha_1; o_acc[47] *= alpha_1;
          o_acc[48] *= alpha_0; o_acc[49] *= alpha_0; o_acc[50] *= alpha_1; o_acc[51] *= alpha_1;
          o_acc[52] *= alpha_0; o_acc[53] *= alpha_0; o_acc[54] *= alpha_1; o_acc[55] *= alpha_1;
          o_acc[56] *= alpha_0; o_acc[57] *= alpha_0; o_acc[58] *= alpha_1; o_acc[59] *= alpha_1;
          o_acc[60] *= alpha_0; o_acc[61] *= alpha_0; o_acc[62] *= alpha_1; o_acc[63] *= alpha_1;
        }
        s_acc[0] = exp2_approx(fmaf(s_acc[0], scale_log2, -shift_0)); s_acc[1] = exp2_approx(fmaf(s_acc[1], scale_log2, -shift_0));
        s_acc[2] = exp2_approx(fmaf(s_acc[2], scale_log2, -shift_1)); s_acc[3] = exp2_approx(fmaf(s_acc[3], scale_log2, -shift_1));
        s_acc[4] = exp2_approx(fmaf(s_acc[4], scale_log2, -shift_0)); s_acc[5] = exp2_approx(fmaf(s_acc[5], scale_log2, -shift_0));
        s_acc[6] = exp2_approx(fmaf(s_acc[6], scale_log2, -shift_1)); s_acc[7] = exp2_approx(fmaf(s_acc[7], scale_log2, -shift_1));
        s_acc[8] = exp2_approx(fmaf(s_acc[8], scale_log2, -shift_0)); s_acc[9] = exp2_approx(fmaf(s_acc[9], scale_log2, -shift_0));
        s_acc[10] = exp2_approx(fmaf(s_acc[10], scale_log2, -shift_1)); s_acc[11] = exp2_approx(fmaf(s_acc[11], scale_log2, -shift_1));
        s_acc[12] = exp2_approx(fmaf(s_acc[12], scale_log2, -shift_0)); s_acc[13] = exp2_approx(fmaf(s_acc[13], scale_log2, -shift_0));
        s_acc[14] = exp2_approx(fmaf(s_acc[14], scale_log2, -shift_1)); s_acc[15] = exp2_approx(fmaf(s_acc[15], scale_log2, -shift_1));
        s_acc[16] = exp2_approx(fmaf(s_acc[16], scale_log2, -shift_0)); s_acc[17] = exp2_approx(fmaf(s_acc[17], scale_log2, -shift_0));
        s_acc[18] = exp2_approx(fmaf(s_acc[18], scale_log2, -shift_1)); s_acc[19] = exp2_approx(fmaf(s_acc[19], scale_log2, -shift_1));
        s_acc[20] = exp2_approx(fmaf(s_acc[20], scale_log2, -shift_0)); s_acc[21] = exp2_approx(fmaf(s_acc[21], scale_log2, -shift_0));
        s_acc[22] = exp2_approx(fmaf(s_acc[22], scale_log2, -shift_1)); s_acc[23] = exp2_approx(fmaf(s_acc[23], scale_log2, -shift_1));
        s_acc[24] = exp2_approx(fmaf(s_acc[24], scale_log2, -shift_0)); s_acc[25] = exp2_approx(fmaf(s_acc[25], scale_log2, -shift_0));
        s_acc[26] = exp2_approx(fmaf(s_acc[26], scale_log2, -shift_1)); s_acc[27] = exp2_approx(fmaf(s_acc[27], scale_log2, -shift_1));
        s_acc[28] = exp2_approx(fmaf(s_acc[28], scale_log2, -shift_0)); s_acc[29] = exp2_approx(fmaf(s_acc[29], scale_log2, -shift_0));
        s_acc[30] = exp2_approx(fmaf(s_acc[30], scale_log2, -shift_1)); s_acc[31] = exp2_approx(fmaf(s_acc[31], scale_log2, -shift_1));
        // row sums, two chains each
        float sum_0a_0 = s_acc[0], sum_0b_0 = s_acc[1];
        float sum_1a_0 = s_acc[2], sum_1b_0 = s_acc[3];
        sum_0a_0 += s_acc[4]; sum_0b_0 += s_acc[5]; sum_1a_0 += s_acc[6]; sum_1b_0 += s_acc[7];
        sum_0a_0 += s_acc[8]; sum_0b_0 += s_acc[9]; sum_1a_0 += s_acc[10]; sum_1b_0 += s_acc[11];
        sum_0a_0 += s_acc[12]; sum_0b_0 += s_acc[13]; sum_1a_0 += s_acc[14]; sum_1b_0 += s_acc[15];
        sum_0a_0 += s_acc[16]; sum_0b_0 += s_acc[17]; sum_1a_0 += s_acc[18]; sum_1b_0 += s_acc[19];
        sum_0a_0 += s_acc[20]; sum_0b_0 += s_acc[21]; sum_1a_0 += s_acc[22]; sum_1b_0 += s_acc[23];
        sum_0a_0 += s_acc[24]; sum_0b_0 += s_acc[25]; sum_1a_0 += s_acc[26]; sum_1b_0 += s_acc[27];
        sum_0a_0 += s_acc[28]; sum_0b_0 += s_acc[29]; sum_1a_0 += s_acc[30]; sum_1b_0 += s_acc[31];
        row_sum_0 += sum_0a_0 + sum_0b_0;
        row_sum_1 += sum_1a_0 + sum_1b_0;
        p[0] = pack_bf16(s_acc[0], s_acc[1]); p[1] = pack_bf16(s_acc[2], s_acc[3]);
        p[2] = pack_bf16(s_acc[4], s_acc[5]); p[3] = pack_bf16(s_acc[6], s_acc[7]);
        p[4] = pack_bf16(s_acc[8], s_acc[9]); p[5] = pack_bf16(s_acc[10], s_acc[11]);
        p[6] = pack_bf16(s_acc[12], s_acc[13]); p[7] = pack_bf16(s_acc[14], s_acc[15]);
        p[8] = pack_bf16(s_acc[16], s_acc[17]); p[9] = pack_bf16(s_acc[18], s_acc[19]);
        p[10] = pack_bf16(s_acc[20], s_acc[21]); p[11] = pack_bf16(s_acc[22], s_acc[23]);
        p[12] = pack_bf16(s_acc[24], s_acc[25]); p[13] = pack_bf16(s_acc[26], s_acc[27]);
        p[14] = pack_bf16(s_acc[28], s_acc[29]); p[15] = pack_bf16(s_acc[30], s_acc[31]);
        // O += P V(n)
        u32 v_reg[128];  // 64 fragments of 16x8
        // strip 0, step 0: keys 0 .. 15
        ldmatrix_x4_trans(v_reg + 0, v_frag_0);
        ldmatrix_x4_trans(v_reg + 4, v_frag_32);
        ldmatrix_x4_trans(v_reg + 8, v_frag_64);
        ldmatrix_x4_trans(v_reg + 12, v_frag_96);
        ldmatrix_x4_trans(v_reg + 16, v_frag_0 + 8192);
        ldmatrix_x4_trans(v_reg + 20, v_frag_32 + 8192);
        ldmatrix_x4_trans(v_reg + 24, v_frag_64 + 8192);
        ldmatrix_x4_trans(v_reg + 28, v_frag_96 + 8192);
        mma_bf16(o_acc + 0, p + 0, v_reg + 0);
        mma_bf16(o_acc + 4, p + 0, v_reg + 2);
        mma_bf16(o_acc + 8, p + 0, v_reg + 4);
        mma_bf16(o_acc + 12, p + 0, v_reg + 6);
        mma_bf16(o_acc + 16, p + 0, v_reg + 8);
        mma_bf16(o_acc + 20, p + 0, v_reg + 10);
        mma_bf16(o_acc + 24, p + 0, v_reg + 12);
        mma_bf16(o_acc + 28, p + 0, v_reg + 14);
        mma_bf16(o_acc + 32, p + 0, v_reg + 16);
        mma_bf16(o_acc + 36, p + 0, v_reg + 18);
        mma_bf16(o_acc + 40, p + 0, v_reg + 20);
        mma_bf16(o_acc + 44, p + 0, v_reg + 22);
        mma_bf16(o_acc + 48, p + 0, v_reg + 24);
        mma_bf16(o_acc + 52, p + 0, v_reg + 26);
        mma_bf16(o_acc + 56, p + 0, v_reg + 28);
        mma_bf16(o_acc + 60, p + 0, v_reg + 30);
        // strip 0, step 1: keys 16 .. 31
        ldmatrix_x4_trans(v_reg + 32, v_frag_0 + 2048);
        ldmatrix_x4_trans(v_reg + 36, v_frag_32 + 2048);
        ldmatrix_x4_trans(v_reg + 40, v_frag_64 + 2048);
        ldmatrix_x4_trans(v_reg + 44, v_frag_96 + 2048);
        ldmatrix_x4_trans(v_reg + 48, v_frag_0 + 10240);
        ldmatrix_x4_trans(v_reg + 52, v_frag_32 + 10240);
        ldmatrix_x4_trans(v_reg + 56, v_frag_64 + 10240);
        ldmatrix_x4_trans(v_reg + 60, v_frag_96 + 10240);
        mma_bf16(o_acc + 0, p + 4, v_reg + 32);
        mma_bf16(o_acc + 4, p + 4, v_reg + 34);
        mma_bf16(o_acc + 8, p + 4, v_reg + 36);
        mma_bf16(o_acc + 12, p + 4, v_reg + 38);
        mma_bf16(o_acc + 16, p + 4, v_reg + 40);
        mma_bf16(o_acc + 20, p + 4, v_reg + 42);
        mma_bf16(o_acc + 24, p + 4, v_reg + 44);
        mma_bf16(o_acc + 28, p + 4, v_reg + 46);
        mma_bf16(o_acc + 32, p + 4, v_reg + 48);
        mma_bf16(o_acc + 36, p + 4, v_reg + 50);
        mma_bf16(o_acc + 40, p + 4, v_reg + 52);
        mma_bf16(o_acc + 44, p + 4, v_reg + 54);
        mma_bf16(o_acc + 48, p + 4, v_reg + 56);
        mma_bf16(o_acc + 52, p + 4, v_reg + 58);
        mma_bf16(o_acc + 56, p + 4, v_reg + 60);
        mma_bf16(o_acc + 60, p + 4, v_reg + 62);
        // strip 0, step 2: keys 32 .. 47
        ldmatrix_x4_trans(v_reg + 64, v_frag_0 + 4096);
        ldmatrix_x4_trans(v_reg + 68, v_frag_32 + 4096);
        ldmatrix_x4_trans(v_reg + 72, v_frag_64 + 4096);
        ldmatrix_x4_trans(v_reg + 76, v_frag_96 + 4096);
        ldmatrix_x4_trans(v_reg + 80, v_frag_0 + 12288);
        ldmatrix_x4_trans(v_reg + 84, v_frag_32 + 12288);
        ldmatrix_x4_trans(v_reg + 88, v_frag_64 + 12288);
        ldmatrix_x4_trans(v_reg + 92, v_frag_96 + 12288);
        mma_bf16(o_acc + 0, p + 8, v_reg + 64);
        mma_bf16(o_acc + 4, p + 8, v_reg + 66);
        mma_bf16(o_acc + 8, p + 8, v_reg + 68);
        mma_bf16(o_acc + 12, p + 8, v_reg + 70);
        mma_bf16(o_acc + 16, p + 8, v_reg + 72);
        mma_bf16(o_acc + 20, p + 8, v_reg + 74);
        mma_bf16(o_acc + 24, p + 8, v_reg + 76);
        mma_bf16(o_acc + 28, p + 8, v_reg + 78);
        mma_bf16(o_acc + 32, p + 8, v_reg + 80);
        mma_bf16(o_acc + 36, p + 8, v_reg + 82);
        mma_bf16(o_acc + 40, p + 8, v_reg + 84);
        mma_bf16(o_acc + 44, p + 8, v_reg + 86);
        mma_bf16(o_acc + 48, p + 8, v_reg + 88);
        mma_bf16(o_acc + 52, p + 8, v_reg + 90);
        mma_bf16(o_acc + 56, p + 8, v_reg + 92);
        mma_bf16(o_acc + 60, p + 8, v_reg + 94);
        // strip 0, step 3: keys 48 .. 63
        ldmatrix_x4_trans(v_reg + 96, v_frag_0 + 6144);
        ldmatrix_x4_trans(v_reg + 100, v_frag_32 + 6144);
        ldmatrix_x4_trans(v_reg + 104, v_frag_64 + 6144);
        ldmatrix_x4_trans(v_reg + 108, v_frag_96 + 6144);
        ldmatrix_x4_trans(v_reg + 112, v_frag_0 + 14336);
        ldmatrix_x4_trans(v_reg + 116, v_frag_32 + 14336);
        ldmatrix_x4_trans(v_reg + 120, v_frag_64 + 14336);
        ldmatrix_x4_trans(v_reg + 124, v_frag_96 + 14336);
        mma_bf16(o_acc + 0, p + 12, v_reg + 96);
        mma_bf16(o_acc + 4, p + 12, v_reg + 98);
        mma_bf16(o_acc + 8, p + 12, v_reg + 100);
        mma_bf16(o_acc + 12, p + 12, v_reg + 102);
        mma_bf16(o_acc + 16, p + 12, v_reg + 104);
        mma_bf16(o_acc + 20, p + 12, v_reg + 106);
        mma_bf16(o_acc + 24, p + 12, v_reg + 108);
        mma_bf16(o_acc + 28, p + 12, v_reg + 110);
        mma_bf16(o_acc + 32, p + 12, v_reg + 112);
        mma_bf16(o_acc + 36, p + 12, v_reg + 114);
        mma_bf16(o_acc + 40, p + 12, v_reg + 116);
        mma_bf16(o_acc + 44, p + 12, v_reg + 118);
        mma_bf16(o_acc + 48, p + 12, v_reg + 120);
        mma_bf16(o_acc + 52, p + 12, v_reg + 122);
        mma_bf16(o_acc + 56, p + 12, v_reg + 124);
        mma_bf16(o_acc + 60, p + 12, v_reg + 126);
      }
      if (++n == num_tiles) break;
      // the next tile has landed, and every warp has finished this one
      CP_ASYNC_WAIT(0);
      __syncthreads();

      // ---- KV tile n in stage 1
      if (n + 1 < num_tiles) {
        // load_k_stage0
        cp_async_16(k_dst_0, k_src, k_rows > 0);
        cp_async_16(k_dst_0 + 2048, k_src + k_pass, k_rows > 16);
        cp_async_16(k_dst_0 + 4096, k_src + 2 * k_pass, k_rows > 32);
        cp_async_16(k_dst_0 + 6144, k_src + 3 * k_pass, k_rows > 48);
        cp_async_16(k_dst_0 + 8192, k_src + 64, k_rows > 0);
        cp_async_16(k_dst_0 + 10240, k_src + k_pass + 64, k_rows > 16);
        cp_async_16(k_dst_0 + 12288, k_src + 2 * k_pass + 64, k_rows > 32);
        cp_async_16(k_dst_0 + 14336, k_src + 3 * k_pass + 64, k_rows > 48);
        k_src += 64 * k_stride_seq; k_rows -= 64;
        // load_v_stage0
        cp_async_16(v_dst_0, v_src, v_rows > 0);
        cp_async_16(v_dst_0 + 2048, v_src + v_pass, v_rows > 16);
        cp_async_16(v_dst_0 + 4096, v_src + 2 * v_pass, v_rows > 32);
        cp_async_16(v_dst_0 + 6144, v_src + 3 * v_pass, v_rows > 48);
        cp_async_16(v_dst_0 + 8192, v_src + 64, v_rows > 0);
        cp_async_16(v_dst_0 + 10240, v_src + v_pass + 64, v_rows > 16);
        cp_async_16(v_dst_0 + 12288, v_src + 2 * v_pass + 64, v_rows > 32);
        cp_async_16(v_dst_0 + 14336, v_src + 3 * v_pass + 64, v_rows > 48);
        v_src += 64 * v_stride_seq; v_rows -= 64;
      }
      cp_async_commit();
      if (n * 64 < warp_end) {
        // S = Q K(n)'
        u32 k_reg[128];  // 64 fragments of 16x8
        ldmatrix_x4(k_reg + 0, k_frag_0 + 16384);
        ldmatrix_x4(k_reg + 4, k_frag_0 + 18432);
        ldmatrix_x4(k_reg + 8, k_frag_0 + 20480);
        ldmatrix_x4(k_reg + 12, k_frag_0 + 22528);
        // strip 0, step 0: depth 0 .. 15; fragments of the next step first
        ldmatrix_x4(k_reg + 16, k_frag_32 + 16384);
        ldmatrix_x4(k_reg + 20, k_frag_32 + 18432);
        ldmatrix_x4(k_reg + 24, k_frag_32 + 20480);
        ldmatrix_x4(k_reg + 28, k_frag_32 + 22528);
        mma_bf16_first(s_acc + 0, q_reg + 0, k_reg + 0);
        mma_bf16_first(s_acc + 4, q_reg + 0, k_reg + 2);
        mma_bf16_first(s_acc + 8, q_reg + 0, k_reg + 4);
        mma_bf16_first(s_acc + 12, q_reg + 0, k_reg + 6);
        mma_bf16_first(s_acc + 16, q_reg + 0, k_reg + 8);
        mma_bf16_first(s_acc + 20, q_reg + 0, k_reg + 10);
        mma_bf16_first(s_acc + 24, q_reg + 0, k_reg + 12);
        mma_bf16_first(s_acc + 28, q_reg + 0, k_reg + 14);
        // strip 0, step 1: depth 16 .. 31; fragments of the next step first
        ldmatrix_x4(k_reg + 32, k_frag_64 + 16384);
        ldmatrix_x4(k_reg + 36, k_frag_64 + 18432);
        ldmatrix_x4(k_reg + 40, k_frag_64 + 20480);
        ldmatrix_x4(k_reg + 44, k_frag_64 + 22528);
        mma_bf16(s_acc + 0, q_reg + 4, k_reg + 16);
        mma_bf16(s_acc + 4, q_reg + 4, k_reg + 18);
        mma_bf16(s_acc + 8, q_reg + 4, k_reg + 20);
        mma_bf16(s_acc + 12, q_reg + 4, k_reg + 22);
        mma_bf16(s_acc + 16, q_reg + 4, k_reg + 24);
        mma_bf16(s_acc + 20, q_reg + 4, k_reg + 26);
        mma_bf16(s_acc + 24, q_reg + 4, k_reg + 28);
        mma_bf16(s_acc + 28, q_reg + 4, k_reg + 30);
        // strip 0, step 2: depth 32 .. 47; fragments of the next step first
        ldmatrix_x4(k_reg + 48, k_frag_96 + 16384);
        ldmatrix_x4(k_reg + 52, k_frag_96 + 18432);
        ldmatrix_x4(k_reg + 56, k_frag_96 + 20480);
        ldmatrix_x4(k_reg + 60, k_frag_96 + 22528);
        mma_bf16(s_acc + 0, q_reg + 8, k_reg + 32);
        mma_bf16(s_acc + 4, q_reg + 8, k_reg + 34);
        mma_bf16(s_acc + 8, q_reg + 8, k_reg + 36);
        mma_bf16(s_acc + 12, q_reg + 8, k_reg + 38);
        mma_bf16(s_acc + 16, q_reg + 8, k_reg + 40);
        mma_bf16(s_acc + 20, q_reg + 8, k_reg + 42);
        mma_bf16(s_acc + 24, q_reg + 8, k_reg + 44);
        mma_bf16(s_acc + 28, q_reg + 8, k_reg + 46);
        // strip 0, step 3: depth 48 .. 63; fragments of the next step first
        ldmatrix_x4(k_reg + 64, k_frag_0 + 24576);
        ldmatrix_x4(k_reg + 68, k_frag_0 + 26624);
        ldmatrix_x4(k_reg + 72, k_frag_0 + 28672);
        ldmatrix_x4(k_reg + 76, k_frag_0 + 30720);
        mma_bf16(s_acc + 0, q_reg + 12, k_reg + 48);
        mma_bf16(s_acc + 4, q_reg + 12, k_reg + 50);
        mma_bf16(s_acc + 8, q_reg + 12, k_reg + 52);
        mma_bf16(s_acc + 12, q_reg + 12, k_reg + 54);
        mma_bf16(s_acc + 16, q_reg + 12, k_reg + 56);
        mma_bf16(s_acc + 20, q_reg + 12, k_reg + 58);
        mma_bf16(s_acc + 24, q_reg + 12, k_reg + 60);
        mma_bf16(s_acc + 28, q_reg + 12, k_reg + 62);
        // strip 1, step 0: depth 64 .. 79; fragments of the next step first
        ldmatrix_x4(k_reg + 80, k_frag_32 + 24576);
        ldmatrix_x4(k_reg + 84, k_frag_32 + 26624);
        ldmatrix_x4(k_reg + 88, k_frag_32 + 28672);
        ldmatrix_x4(k_reg + 92, k_frag_32 + 30720);
        mma_bf16(s_acc + 0, q_reg + 16, k_reg + 64);
        mma_bf16(s_acc + 4, q_reg + 16, k_reg + 66);
        mma_bf16(s_acc + 8, q_reg + 16, k_reg + 68);
        mma_bf16(s_acc + 12, q_reg + 16, k_reg + 70);
        mma_bf16(s_acc + 16, q_reg + 16, k_reg + 72);
        mma_bf16(s_acc + 20, q_reg + 16, k_reg + 74);
        mma_bf16(s_acc + 24, q_reg + 16, k_reg + 76);
        mma_bf16(s_acc + 28, q_reg + 16, k_reg + 78);
        // strip 1, step 1: depth 80 .. 95; fragments of the next step first
        ldmatrix_x4(k_reg + 96, k_frag_64 + 24576);
        ldmatrix_x4(k_reg + 100, k_frag_64 + 26624);
        ldmatrix_x4(k_reg + 104, k_frag_64 + 28672);
        ldmatrix_x4(k_reg + 108, k_frag_64 + 30720);
        mma_bf16(s_acc + 0, q_reg + 20, k_reg + 80);
        mma_bf16(s_acc + 4, q_reg + 20, k_reg + 82);
        mma_bf16(s_acc + 8, q_reg + 20, k_reg + 84);
        mma_bf16(s_acc + 12, q_reg + 20, k_reg + 86);
        mma_bf16(s_acc + 16, q_reg + 20, k_reg + 88);
        mma_bf16(s_acc + 20, q_reg + 20, k_reg + 90);
        mma_bf16(s_acc + 24, q_reg + 20, k_reg + 92);
        mma_bf16(s_acc + 28, q_reg + 20, k_reg + 94);
        // strip 1, step 2: depth 96 .. 111; fragments of the next step first
        ldmatrix_x4(k_reg + 112, k_frag_96 + 24576);
        ldmatrix_x4(k_reg + 116, k_frag_96 + 26624);
        ldmatrix_x4(k_reg + 120, k_frag_96 + 28672);
        ldmatrix_x4(k_reg + 124, k_frag_96 + 30720);
        mma_bf16(s_acc + 0, q_reg + 24, k_reg + 96);
        mma_bf16(s_acc + 4, q_reg + 24, k_reg + 98);
        mma_bf16(s_acc + 8, q_reg + 24, k_reg + 100);
        mma_bf16(s_acc + 12, q_reg + 24, k_reg + 102);
        mma_bf16(s_acc + 16, q_reg + 24, k_reg + 104);
        mma_bf16(s_acc + 20, q_reg + 24, k_reg + 106);
        mma_bf16(s_acc + 24, q_reg + 24, k_reg + 108);
        mma_bf16(s_acc + 28, q_reg + 24, k_reg + 110);
        // strip 1, step 3: depth 112 .. 127
        mma_bf16(s_acc + 0, q_reg + 28, k_reg + 112);
        mma_bf16(s_acc + 4, q_reg + 28, k_reg + 114);
        mma_bf16(s_acc + 8, q_reg + 28, k_reg + 116);
        mma_bf16(s_acc + 12, q_reg + 28, k_reg + 118);
        mma_bf16(s_acc + 16, q_reg + 28, k_reg + 120);
        mma_bf16(s_acc + 20, q_reg + 28, k_reg + 122);
        mma_bf16(s_acc + 24, q_reg + 28, k_reg + 124);
        mma_bf16(s_acc + 28, q_reg + 28, k_reg + 126);
        // the end of some row's keys lies in this tile
        if ((n + 1) * 64 > clean_end) {
          // keys past the row's own position or the end of the sequence do not count
          const int end_0 = min(seqlen_k, row_0 + seqlen_k - seqlen_q + 1) - (n * 64) - 2 * (lane & 3);
          const int end_1 = min(seqlen_k, row_0 + 8 + seqlen_k - seqlen_q + 1) - (n * 64) - 2 * (lane & 3);
          if (0 >= end_0) s_acc[0] = -kInfinity; if (1 >= end_0) s_acc[1] = -kInfinity;
          if (0 >= end_1) s_acc[2] = -kInfinity; if (1 >= end_1) s_acc[3] = -kInfinity;
          if (8 >= end_0) s_acc[4] = -kInfinity; if (9 >= end_0) s_acc[5] = -kInfinity;
          if (8 >= end_1) s_acc[6] = -kInfinity; if (9 >= end_1) s_acc[7] = -kInfinity;
          if (16 >= end_0) s_acc[8] = -kInfinity; if (17 >= end_0) s_acc[9] = -kInfinity;
          if (16 >= end_1) s_acc[10] = -kInfinity; if (17 >= end_1) s_acc[11] = -kInfinity;
          if (24 >= end_0) s_acc[12] = -kInfinity; if (25 >= end_0) s_acc[13] = -kInfinity;
          if (24 >= end_1) s_acc[14] = -kInfinity; if (25 >= end_1) s_acc[15] = -kInfinity;
          if (32 >= end_0) s_acc[16] = -kInfinity; if (33 >= end_0) s_acc[17] = -kInfinity;
          if (32 >= end_1) s_acc[18] = -kInfinity; if (33 >= end_1) s_acc[19] = -kInfinity;
          if (40 >= end_0) s_acc[20] = -kInfinity; if (41 >= end_0) s_acc[21] = -kInfinity;
          if (40 >= end_1) s_acc[22] = -kInfinity; if (41 >= end_1) s_acc[23] = -kInfinity;
          if (48 >= end_0) s_acc[24] = -kInfinity; if (49 >= end_0) s_acc[25] = -kInfinity;
          if (48 >= end_1) s_acc[26] = -kInfinity; if (49 >= end_1) s_acc[27] = -kInfinity;
          if (56 >= end_0) s_acc[28] = -kInfinity; if (57 >= end_0) s_acc[29] = -kInfinity;
          if (56 >= end_1) s_acc[30] = -kInfinity; if (57 >= end_1) s_acc[31] = -kInfinity;
        }
        // P = exp2(S - max), O follows the maximum
        float max_0a = s_acc[0], max_0b = s_acc[1], max_1a = s_acc[2], max_1b = s_acc[3];
        max_0a = fmaxf(max_0a, s_acc[4]); max_0b = fmaxf(max_0b, s_acc[5]);
        max_1a = fmaxf(max_1a, s_acc[6]); max_1b = fmaxf(max_1b, s_acc[7]);
        max_0a = fmaxf(max_0a, s_acc[8]); max_0b = fmaxf(max_0b, s_acc[9]);
        max_1a = fmaxf(max_1a, s_acc[10]); max_1b = fmaxf(max_1b, s_acc[11]);
        max_0a = fmaxf(max_0a, s_acc[12]); max_0b = fmaxf(max_0b, s_acc[13]);
        max_1a = fmaxf(max_1a, s_acc[14]); max_1b = fmaxf(max_1b, s_acc[15]);
        max_0a = fmaxf(max_0a, s_acc[16]); max_0b = fmaxf(max_0b, s_acc[17]);
        max_1a = fmaxf(max_1a, s_acc[18]); max_1b = fmaxf(max_1b, s_acc[19]);
        max_0a = fmaxf(max_0a, s_acc[20]); max_0b = fmaxf(max_0b, s_acc[21]);
        max_1a = fmaxf(max_1a, s_acc[22]); max_1b = fmaxf(max_1b, s_acc[23]);
        max_0a = fmaxf(max_0a, s_acc[24]); max_0b = fmaxf(max_0b, s_acc[25]);
        max_1a = fmaxf(max_1a, s_acc[26]); max_1b = fmaxf(max_1b, s_acc[27]);
        max_0a = fmaxf(max_0a, s_acc[28]); max_0b = fmaxf(max_0b, s_acc[29]);
        max_1a = fmaxf(max_1a, s_acc[30]); max_1b = fmaxf(max_1b, s_acc[31]);
        float max_0 = fmaxf(max_0a, max_0b), max_1 = fmaxf(max_1a, max_1b);
        max_0 = fmaxf(max_0, __shfl_xor_sync(0xffffffffu, max_0, 1)); max_1 = fmaxf(max_1, __shfl_xor_sync(0xffffffffu, max_1, 1));
        max_0 = fmaxf(max_0, __shfl_xor_sync(0xffffffffu, max_0, 2)); max_1 = fmaxf(max_1, __shfl_xor_sync(0xffffffffu, max_1, 2));
        max_0 = fmaxf(max_0, row_max_0); max_1 = fmaxf(max_1, row_max_1);
        float alpha_0 = 1.0f, alpha_1 = 1.0f;
        // Keep the old maximum while no row of the warp grew by more than 2^8.
        const bool grew = (max_0 - row_max_0) * scale_log2 > 8.0f || (max_1 - row_max_1) * scale_log2 > 8.0f;
        const bool rescale = __any_sync(0xffffffffu, grew);
        if (rescale) {
          alpha_0 = rescale_factor(row_max_0, max_0, scale_log2); row_sum_0 *= alpha_0; row_max_0 = max_0;
          alpha_1 = rescale_factor(row_max_1, max_1, scale_log2); row_sum_1 *= alpha_1; row_max_1 = max_1;
        }
        float shift_0 = row_max_0 == -kInfinity ? 0.0f : row_base(row_max_0, scale_log2);
        float shift_1 = row_max_1 == -kInfinity ? 0.0f : row_base(row_max_1, scale_log2);
        if (__any_sync(0xffffffffu, is_steep(shift_0) || is_steep(shift_1))) {
          const float steep_0 = is_steep(shift_0) && row_max_0 != -kInfinity ? row_max_0 : 0.0f;
          if (is_steep(shift_0)) shift_0 = 0.0f;
          const float steep_1 = is_steep(shift_1) && row_max_1 != -kInfinity ? row_max_1 : 0.0f;
          if (is_steep(shift_1)) shift_1 = 0.0f;
          s_acc[0] -= steep_0; s_acc[1] -= steep_0; s_acc[2] -= steep_1; s_acc[3] -= steep_1;
          s_acc[4] -= steep_0; s_acc[5] -= steep_0; s_acc[6] -= steep_1; s_acc[7] -= steep_1;
          s_acc[8] -= steep_0; s_acc[9] -= steep_0; s_acc[10] -= steep_1; s_acc[11] -= steep_1;
          s_acc[12] -= steep_0; s_acc[13] -= steep_0; s_acc[14] -= steep_1; s_acc[15] -= steep_1;
          s_acc[16] -= steep_0; s_acc[17] -= steep_0; s_acc[18] -= steep_1; s_acc[19] -= steep_1;
          s_acc[20] -= steep_0; s_acc[21] -= steep_0; s_acc[22] -= steep_1; s_acc[23] -= steep_1;
          s_acc[24] -= steep_0; s_acc[25] -= steep_0; s_acc[26] -= steep_1; s_acc[27] -= steep_1;
          s_acc[28] -= steep_0; s_acc[29] -= steep_0; s_acc[30] -= steep_1; s_acc[31] -= steep_1;
        }
        if (rescale) {
          o_acc[0] *= alpha_0; o_acc[1] *= alpha_0; o_acc[2] *= alpha_1; o_acc[3] *= alpha_1;
          o_acc[4] *= alpha_0; o_acc[5] *= alpha_0; o_acc[6] *= alpha_1; o_acc[7] *= alpha_1;
          o_acc[8] *= alpha_0; o_acc[9] *= alpha_0; o_acc[10] *= alpha_1; o_acc[11] *= alpha_1;
          o_acc[12] *= alpha_0; o_acc[13] *= alpha_0; o_acc[14] *= alpha_1; o_acc[15] *= alpha_1;
          o_acc[16] *= alpha_0; o_acc[17] *= alpha_0; o_acc[18] *= alpha_1; o_acc[19] *= alpha_1;
          o_acc[20] *= alpha_0; o_acc[21] *= alpha_0; o_acc[22] *= alpha_1; o_acc[23] *= alpha_1;
          o_acc[24] *= alpha_0; o_acc[25] *= alpha_0; o_acc[26] *= alpha_1; o_acc[27] *= alpha_1;
          o_acc[28] *= alpha_0; o_acc[29] *= alpha_0; o_acc[30] *= alpha_1; o_acc[31] *= alpha_1;
          o_acc[32] *= alpha_0; o_acc[33] *= alpha_0; o_acc[34] *= alpha_1; o_acc[35] *= alpha_1;
          o_acc[36] *= alpha_0; o_acc[37] *= alpha_0; o_acc[38] *= alpha_1; o_acc[39] *= alpha_1;
          o_acc[40] *= alpha_0; o_acc[41] *= alpha_0; o_acc[42] *= alpha_1; o_acc[43] *= alpha_1;
          o_acc[44] *= alpha_0; o_acc[45] *= alpha_0; o_acc[46] *= alpha_1; o_acc[47] *= alpha_1;
          o_acc[48] *= alpha_0; o_acc[49] *= alpha_0; o_acc[50] *= alpha_1; o_acc[51] *= alpha_1;
          o_acc[52] *= alpha_0; o_acc[53] *= alpha_0; o_acc[54] *= alpha_1; o_acc[55] *= alpha_1;
          o_acc[56] *= alpha_0; o_acc[57] *= alpha_0; o_acc[58] *= alpha_1; o_acc[59] *= alpha_1;
          o_acc[60] *= alpha_0; o_acc[61] *= alpha_0; o_acc[62] *= alpha_1; o_acc[63] *= alpha_1;
        }
        s_acc[0] = exp2_approx(fmaf(s_acc[0], scale_log2, -shift_0)); s_acc[1] = exp2_approx(fmaf(s_acc[1], scale_log2, -shift_0));
        s_acc[2] = exp2_approx(fmaf(s_acc[2], scale_log2, -shift_1)); s_acc[3] = exp2_approx(fmaf(s_acc[3], scale_log2, -shift_1));
        s_acc[4] = exp2_approx(fmaf(s_acc[4], scale_log2, -shift_0)); s_acc[5] = exp2_approx(fmaf(s_acc[5], scale_log2, -shift_0));
        s_acc[6] = exp2_approx(fmaf(s_acc[6], scale_log2, -shift_1)); s_acc[7] = exp2_approx(fmaf(s_acc[7], scale_log2, -shift_1));
        s_acc[8] = exp2_approx(fmaf(s_acc[8], scale_log2, -shift_0)); s_acc[9] = exp2_approx(fmaf(s_acc[9], scale_log2, -shift_0));
        s_acc[10] = exp2_approx(fmaf(s_acc[10], scale_log2, -shift_1)); s_acc[11] = exp2_approx(fmaf(s_acc[11], scale_log2, -shift_1));
        s_acc[12] = exp2_approx(fmaf(s_acc[12], scale_log2, -shift_0)); s_acc[13] = exp2_approx(fmaf(s_acc[13], scale_log2, -shift_0));
        s_acc[14] = exp2_approx(fmaf(s_acc[14], scale_log2, -shift_1)); s_acc[15] = exp2_approx(fmaf(s_acc[15], scale_log2, -shift_1));
        s_acc[16] = exp2_approx(fmaf(s_acc[16], scale_log2, -shift_0)); s_acc[17] = exp2_approx(fmaf(s_acc[17], scale_log2, -shift_0));
        s_acc[18] = exp2_approx(fmaf(s_acc[18], scale_log2, -shift_1)); s_acc[19] = exp2_approx(fmaf(s_acc[19], scale_log2, -shift_1));
        s_acc[20] = exp2_approx(fmaf(s_acc[20], scale_log2, -shift_0)); s_acc[21] = exp2_approx(fmaf(s_acc[21], scale_log2, -shift_0));
        s_acc[22] = exp2_approx(fmaf(s_acc[22], scale_log2, -shift_1)); s_acc[23] = exp2_approx(fmaf(s_acc[23], scale_log2, -shift_1));
        s_acc[24] = exp2_approx(fmaf(s_acc[24], scale_log2, -shift_0)); s_acc[25] = exp2_approx(fmaf(s_acc[25], scale_log2, -shift_0));
        s_acc[26] = exp2_approx(fmaf(s_acc[26], scale_log2, -shift_1)); s_acc[27] = exp2_approx(fmaf(s_acc[27], scale_log2, -shift_1));
        s_acc[28] = exp2_approx(fmaf(s_acc[28], scale_log2, -shift_0)); s_acc[29] = exp2_approx(fmaf(s_acc[29], scale_log2, -shift_0));
        s_acc[30] = exp2_approx(fmaf(s_acc[30], scale_log2, -shift_1)); s_acc[31] = exp2_approx(fmaf(s_acc[31], scale_log2, -shift_1));
        // row sums, two chains each
        float sum_0a_0 = s_acc[0], sum_0b_0 = s_acc[1];
        float sum_1a_0 = s_acc[2], sum_1b_0 = s_acc[3];
        sum_0a_0 += s_acc[4]; sum_0b_0 += s_acc[5]; sum_1a_0 += s_acc[6]; sum_1b_0 += s_acc[7];
        sum_0a_0 += s_acc[8]; sum_0b_0 += s_acc[9]; sum_1a_0 += s_acc[10]; sum_1b_0 += s_acc[11];
        sum_0a_0 += s_acc[12]; sum_0b_0 += s_acc[13]; sum_1a_0 += s_acc[14]; sum_1b_0 += s_acc[15];
        sum_0a_0 += s_acc[16]; sum_0b_0 += s_acc[17]; sum_1a_0 += s_acc[18]; sum_1b_0 += s_acc[19];
        sum_0a_0 += s_acc[20]; sum_0b_0 += s_acc[21]; sum_1a_0 += s_acc[22]; sum_1b_0 += s_acc[23];
        sum_0a_0 += s_acc[24]; sum_0b_0 += s_acc[25]; sum_1a_0 += s_acc[26]; sum_1b_0 += s_acc[27];
        sum_0a_0 += s_acc[28]; sum_0b_0 += s_acc[29]; sum_1a_0 += s_acc[30]; sum_1b_0 += s_acc[31];
        row_sum_0 += sum_0a_0 + sum_0b_0;
        row_sum_1 += sum_1a_0 + sum_1b_0;
        p[0] = pack_bf16(s_acc[0], s_acc[1]); p[1] = pack_bf16(s_acc[2], s_acc[3]);
        p[2] = pack_bf16(s_acc[4], s_acc[5]); p[3] = pack_bf16(s_acc[6], s_acc[7]);
        p[4] = pack_bf16(s_acc[8], s_acc[9]); p[5] = pack_bf16(s_acc[10], s_acc[11]);
        p[6] = pack_bf16(s_acc[12], s_acc[13]); p[7] = pack_bf16(s_acc[14], s_acc[15]);
        p[8] = pack_bf16(s_acc[16], s_acc[17]); p[9] = pack_bf16(s_acc[18], s_acc[19]);
        p[10] = pack_bf16(s_acc[20], s_acc[21]); p[11] = pack_bf16(s_acc[22], s_acc[23]);
        p[12] = pack_bf16(s_acc[24], s_acc[25]); p[13] = pack_bf16(s_acc[26], s_acc[27]);
        p[14] = pack_bf16(s_acc[28], s_acc[29]); p[15] = pack_bf16(s_acc[30], s_acc[31]);
        // O += P V(n)
        u32 v_reg[128];  // 64 fragments of 16x8
        // strip 0, step 0: keys 0 .. 15
        ldmatrix_x4_trans(v_reg + 0, v_frag_0 + 16384);
        ldmatrix_x4_trans(v_reg + 4, v_frag_32 + 16384);
        ldmatrix_x4_trans(v_reg + 8, v_frag_64 + 16384);
        ldmatrix_x4_trans(v_reg + 12, v_frag_96 + 16384);
        ldmatrix_x4_trans(v_reg + 16, v_frag_0 + 24576);
        ldmatrix_x4_trans(v_reg + 20, v_frag_32 + 24576);
        ldmatrix_x4_trans(v_reg + 24, v_frag_64 + 24576);
        ldmatrix_x4_trans(v_reg + 28, v_frag_96 + 24576);
        mma_bf16(o_acc + 0, p + 0, v_reg + 0);
        mma_bf16(o_acc + 4, p + 0, v_reg + 2);
        mma_bf16(o_acc + 8, p + 0, v_reg + 4);
        mma_bf16(o_acc + 12, p + 0, v_reg + 6);
        mma_bf16(o_acc + 16, p + 0, v_reg + 8);
        mma_bf16(o_acc + 20, p + 0, v_reg + 10);
        mma_bf16(o_acc + 24, p + 0, v_reg + 12);
        mma_bf16(o_acc + 28, p + 0, v_reg + 14);
        mma_bf16(o_acc + 32, p + 0, v_reg + 16);
        mma_bf16(o_acc + 36, p + 0, v_reg + 18);
        mma_bf16(o_acc + 40, p + 0, v_reg + 20);
        mma_bf16(o_acc + 44, p + 0, v_reg + 22);
        mma_bf16(o_acc + 48, p + 0, v_reg + 24);
        mma_bf16(o_acc + 52, p + 0, v_reg + 26);
        mma_bf16(o_acc + 56, p + 0, v_reg + 28);
        mma_bf16(o_acc + 60, p + 0, v_reg + 30);
        // strip 0, step 1: keys 16 .. 31
        ldmatrix_x4_trans(v_reg + 32, v_frag_0 + 18432);
        ldmatrix_x4_trans(v_reg + 36, v_frag_32 + 18432);
        ldmatrix_x4_trans(v_reg + 40, v_frag_64 + 18432);
        ldmatrix_x4_trans(v_reg + 44, v_frag_96 + 18432);
        ldmatrix_x4_trans(v_reg + 48, v_frag_0 + 26624);
        ldmatrix_x4_trans(v_reg + 52, v_frag_32 + 26624);
        ldmatrix_x4_trans(v_reg + 56, v_frag_64 + 26624);
        ldmatrix_x4_trans(v_reg + 60, v_frag_96 + 26624);
        mma_bf16(o_acc + 0, p + 4, v_reg + 32);
        mma_bf16(o_acc + 4, p + 4, v_reg + 34);
        mma_bf16(o_acc + 8, p + 4, v_reg + 36);
        mma_bf16(o_acc + 12, p + 4, v_reg + 38);
        mma_bf16(o_acc + 16, p + 4, v_reg + 40);
        mma_bf16(o_acc + 20, p + 4, v_reg + 42);
        mma_bf16(o_acc + 24, p + 4, v_reg + 44);
        mma_bf16(o_acc + 28, p + 4, v_reg + 46);
        mma_bf16(o_acc + 32, p + 4, v_reg + 48);
        mma_bf16(o_acc + 36, p + 4, v_reg + 50);
        mma_bf16(o_acc + 40, p + 4, v_reg + 52);
        mma_bf16(o_acc + 44, p + 4, v_reg + 54);
        mma_bf16(o_acc + 48, p + 4, v_reg + 56);
        mma_bf16(o_acc + 52, p + 4, v_reg + 58);
        mma_bf16(o_acc + 56, p + 4, v_reg + 60);
        mma_bf16(o_acc + 60, p + 4, v_reg + 62);
        // strip 0, step 2: keys 32 .. 47
        ldmatrix_x4_trans(v_reg + 64, v_frag_0 + 20480);
        ldmatrix_x4_trans(v_reg + 68, v_frag_32 + 20480);
        ldmatrix_x4_trans(v_reg + 72, v_frag_64 + 20480);
        ldmatrix_x4_trans(v_reg + 76, v_frag_96 + 20480);
        ldmatrix_x4_trans(v_reg + 80, v_frag_0 + 28672);
        ldmatrix_x4_trans(v_reg + 84, v_frag_32 + 28672);
        ldmatrix_x4_trans(v_reg + 88, v_frag_64 + 28672);
        ldmatrix_x4_trans(v_reg + 92, v_frag_96 + 28672);
        mma_bf16(o_acc + 0, p + 8, v_reg + 64);
        mma_bf16(o_acc + 4, p + 8, v_reg + 66);
        mma_bf16(o_acc + 8, p + 8, v_reg + 68);
        mma_bf16(o_acc + 12, p + 8, v_reg + 70);
        mma_bf16(o_acc + 16, p + 8, v_reg + 72);
        mma_bf16(o_acc + 20, p + 8, v_reg + 74);
        mma_bf16(o_acc + 24, p + 8, v_reg + 76);
        mma_bf16(o_acc + 28, p + 8, v_reg + 78);
        mma_bf16(o_acc + 32, p + 8, v_reg + 80);
        mma_bf16(o_acc + 36, p + 8, v_reg + 82);
        mma_bf16(o_acc + 40, p + 8, v_reg + 84);
        mma_bf16(o_acc + 44, p + 8, v_reg + 86);
        mma_bf16(o_acc + 48, p + 8, v_reg + 88);
        mma_bf16(o_acc + 52, p + 8, v_reg + 90);
        mma_bf16(o_acc + 56, p + 8, v_reg + 92);
        mma_bf16(o_acc + 60, p + 8, v_reg + 94);
        // strip 0, step 3: keys 48 .. 63
        ldmatrix_x4_trans(v_reg + 96, v_frag_0 + 22528);
        ldmatrix_x4_trans(v_reg + 100, v_frag_32 + 22528);
        ldmatrix_x4_trans(v_reg + 104, v_frag_64 + 22528);
        ldmatrix_x4_trans(v_reg + 108, v_frag_96 + 22528);
        ldmatrix_x4_trans(v_reg + 112, v_frag_0 + 30720);
        ldmatrix_x4_trans(v_reg + 116, v_frag_32 + 30720);
        ldmatrix_x4_trans(v_reg + 120, v_frag_64 + 30720);
        ldmatrix_x4_trans(v_reg + 124, v_frag_96 + 30720);
        mma_bf16(o_acc + 0, p + 12, v_reg + 96);
        mma_bf16(o_acc + 4, p + 12, v_reg + 98);
        mma_bf16(o_acc + 8, p + 12, v_reg + 100);
        mma_bf16(o_acc + 12, p + 12, v_reg + 102);
        mma_bf16(o_acc + 16, p + 12, v_reg + 104);
        mma_bf16(o_acc + 20, p + 12, v_reg + 106);
        mma_bf16(o_acc + 24, p + 12, v_reg + 108);
        mma_bf16(o_acc + 28, p + 12, v_reg + 110);
        mma_bf16(o_acc + 32, p + 12, v_reg + 112);
        mma_bf16(o_acc + 36, p + 12, v_reg + 114);
        mma_bf16(o_acc + 40, p + 12, v_reg + 116);
        mma_bf16(o_acc + 44, p + 12, v_reg + 118);
        mma_bf16(o_acc + 48, p + 12, v_reg + 120);
        mma_bf16(o_acc + 52, p + 12, v_reg + 122);
        mma_bf16(o_acc + 56, p + 12, v_reg + 124);
        mma_bf16(o_acc + 60, p + 12, v_reg + 126);
      }
      if (++n == num_tiles) break;
      // the next tile has landed, and every warp has finished this one
      CP_ASYNC_WAIT(0);
      __syncthreads();
    }
  }
  // NaN or infinity in V has reached O of all rows, seen or not: of two columns their product tells
  float odd_0 = 0.0f, odd_1 = 0.0f;
  odd_0 = fmaf(o_acc[0], o_acc[1], odd_0);
  odd_1 = fmaf(o_acc[4], o_acc[5], odd_1);
  odd_0 = fmaf(o_acc[8], o_acc[9], odd_0);
  odd_1 = fmaf(o_acc[12], o_acc[13], odd_1);
  odd_0 = fmaf(o_acc[16], o_acc[17], odd_0);
  odd_1 = fmaf(o_acc[20], o_acc[21], odd_1);
  odd_0 = fmaf(o_acc[24], o_acc[25], odd_0);
  odd_1 = fmaf(o_acc[28], o_acc[29], odd_1);
  odd_0 = fmaf(o_acc[32], o_acc[33], odd_0);
  odd_1 = fmaf(o_acc[36], o_acc[37], odd_1);
  odd_0 = fmaf(o_acc[40], o_acc[41], odd_0);
  odd_1 = fmaf(o_acc[44], o_acc[45], odd_1);
  odd_0 = fmaf(o_acc[48], o_acc[49], odd_0);
  odd_1 = fmaf(o_acc[52], o_acc[53], odd_1);
  odd_0 = fmaf(o_acc[56], o_acc[57], odd_0);
  odd_1 = fmaf(o_acc[60], o_acc[61], odd_1);
  const bool odd = !((odd_0 + odd_1) * 0.0f == 0.0f);

  // ---- epilogue: O / row_sum, LSE
  row_sum_0 += __shfl_xor_sync(0xffffffffu, row_sum_0, 1);
  row_sum_0 += __shfl_xor_sync(0xffffffffu, row_sum_0, 2);
  row_sum_1 += __shfl_xor_sync(0xffffffffu, row_sum_1, 1);
  row_sum_1 += __shfl_xor_sync(0xffffffffu, row_sum_1, 2);
  const float inv_sum_0 = row_sum_0 == 0.0f ? 0.0f : rcp_approx(row_sum_0);
  const float inv_sum_1 = row_sum_1 == 0.0f ? 0.0f : rcp_approx(row_sum_1);
  // This warp's rows of Q's shared memory are its own: O takes their place.
  __syncwarp();
  const u32 o_write_vector = (lane >> 2) * 8;
  const u32 o_write_lane = (o_write_vector ^ ((o_write_vector >> 3) & 7)) * 16 + 4 * (lane & 3);
  const u32 o_write_0 = smem_q_warp + o_write_lane;
  const u32 o_write_16 = smem_q_warp + (o_write_lane ^ 16);
  const u32 o_write_32 = smem_q_warp + (o_write_lane ^ 32);
  const u32 o_write_48 = smem_q_warp + (o_write_lane ^ 48);
  const u32 o_write_64 = smem_q_warp + (o_write_lane ^ 64);
  const u32 o_write_80 = smem_q_warp + (o_write_lane ^ 80);
  const u32 o_write_96 = smem_q_warp + (o_write_lane ^ 96);
  const u32 o_write_112 = smem_q_warp + (o_write_lane ^ 112);
  store_shared_32(o_write_0, pack_bf16(o_acc[0] * inv_sum_0, o_acc[1] * inv_sum_0));
  store_shared_32(o_write_0 + 1024, pack_bf16(o_acc[2] * inv_sum_1, o_acc[3] * inv_sum_1));
  store_shared_32(o_write_16, pack_bf16(o_acc[4] * inv_sum_0, o_acc[5] * inv_sum_0));
  store_shared_32(o_write_16 + 1024, pack_bf16(o_acc[6] * inv_sum_1, o_acc[7] * inv_sum_1));
  store_shared_32(o_write_32, pack_bf16(o_acc[8] * inv_sum_0, o_acc[9] * inv_sum_0));
  store_shared_32(o_write_32 + 1024, pack_bf16(o_acc[10] * inv_sum_1, o_acc[11] * inv_sum_1));
  store_shared_32(o_write_48, pack_bf16(o_acc[12] * inv_sum_0, o_acc[13] * inv_sum_0));
  store_shared_32(o_write_48 + 1024, pack_bf16(o_acc[14] * inv_sum_1, o_acc[15] * inv_sum_1));
  store_shared_32(o_write_64, pack_bf16(o_acc[16] * inv_sum_0, o_acc[17] * inv_sum_0));
  store_shared_32(o_write_64 + 1024, pack_bf16(o_acc[18] * inv_sum_1, o_acc[19] * inv_sum_1));
  store_shared_32(o_write_80, pack_bf16(o_acc[20] * inv_sum_0, o_acc[21] * inv_sum_0));
  store_shared_32(o_write_80 + 1024, pack_bf16(o_acc[22] * inv_sum_1, o_acc[23] * inv_sum_1));
  store_shared_32(o_write_96, pack_bf16(o_acc[24] * inv_sum_0, o_acc[25] * inv_sum_0));
  store_shared_32(o_write_96 + 1024, pack_bf16(o_acc[26] * inv_sum_1, o_acc[27] * inv_sum_1));
  store_shared_32(o_write_112, pack_bf16(o_acc[28] * inv_sum_0, o_acc[29] * inv_sum_0));
  store_shared_32(o_write_112 + 1024, pack_bf16(o_acc[30] * inv_sum_1, o_acc[31] * inv_sum_1));
  store_shared_32(o_write_0 + 8192, pack_bf16(o_acc[32] * inv_sum_0, o_acc[33] * inv_sum_0));
  store_shared_32(o_write_0 + 9216, pack_bf16(o_acc[34] * inv_sum_1, o_acc[35] * inv_sum_1));
  store_shared_32(o_write_16 + 8192, pack_bf16(o_acc[36] * inv_sum_0, o_acc[37] * inv_sum_0));
  store_shared_32(o_write_16 + 9216, pack_bf16(o_acc[38] * inv_sum_1, o_acc[39] * inv_sum_1));
  store_shared_32(o_write_32 + 8192, pack_bf16(o_acc[40] * inv_sum_0, o_acc[41] * inv_sum_0));
  store_shared_32(o_write_32 + 9216, pack_bf16(o_acc[42] * inv_sum_1, o_acc[43] * inv_sum_1));
  store_shared_32(o_write_48 + 8192, pack_bf16(o_acc[44] * inv_sum_0, o_acc[45] * inv_sum_0));
  store_shared_32(o_write_48 + 9216, pack_bf16(o_acc[46] * inv_sum_1, o_acc[47] * inv_sum_1));
  store_shared_32(o_write_64 + 8192, pack_bf16(o_acc[48] * inv_sum_0, o_acc[49] * inv_sum_0));
  store_shared_32(o_write_64 + 9216, pack_bf16(o_acc[50] * inv_sum_1, o_acc[51] * inv_sum_1));
  store_shared_32(o_write_80 + 8192, pack_bf16(o_acc[52] * inv_sum_0, o_acc[53] * inv_sum_0));
  store_shared_32(o_write_80 + 9216, pack_bf16(o_acc[54] * inv_sum_1, o_acc[55] * inv_sum_1));
  store_shared_32(o_write_96 + 8192, pack_bf16(o_acc[56] * inv_sum_0, o_acc[57] * inv_sum_0));
  store_shared_32(o_write_96 + 9216, pack_bf16(o_acc[58] * inv_sum_1, o_acc[59] * inv_sum_1));
  store_shared_32(o_write_112 + 8192, pack_bf16(o_acc[60] * inv_sum_0, o_acc[61] * inv_sum_0));
  store_shared_32(o_write_112 + 9216, pack_bf16(o_acc[62] * inv_sum_1, o_acc[63] * inv_sum_1));
  __syncwarp();
  // rows of O, 16 bytes a lane, 4 rows at a time
  const u32 o_read_vector = lane;
  const u32 o_read_lane = (o_read_vector ^ ((o_read_vector >> 3) & 7)) * 16;
  const u32 o_read_0 = smem_q_warp + o_read_lane;
  const u32 o_read_64 = smem_q_warp + (o_read_lane ^ 64);
  const int o_row = lane / 8, o_chunk = lane % 8;
  u16* const o_dst = o_head + 16 * warp * o_stride_seq + o_row * o_stride_seq + 8 * o_chunk;
  const int o_rows = seqlen_q - m_start - 16 * warp - o_row;
  if (o_rows > 0) copy_out_16(o_dst, o_read_0);
  if (o_rows > 4) copy_out_16(o_dst + 4 * o_stride_seq, o_read_64 + 512);
  if (o_rows > 8) copy_out_16(o_dst + 8 * o_stride_seq, o_read_0 + 1024);
  if (o_rows > 12) copy_out_16(o_dst + 12 * o_stride_seq, o_read_64 + 1536);
  if (o_rows > 0) copy_out_16(o_dst + 64, o_read_0 + 8192);
  if (o_rows > 4) copy_out_16(o_dst + 4 * o_stride_seq + 64, o_read_64 + 8704);
  if (o_rows > 8) copy_out_16(o_dst + 8 * o_stride_seq + 64, o_read_0 + 9216);
  if (o_rows > 12) copy_out_16(o_dst + 12 * o_stride_seq + 64, o_read_64 + 9728);
  // V of a key that is hidden from some of these rows and not from others, and is not finite: those rows again.
  if (same(any_lane(odd))) {
    const int lane_32 = (int)thread_id() & 31, row_begin = same(m_start + 16 * warp),
        row_end = same(min(m_start + 16 * warp + 16, seqlen_q));
    __syncwarp();  // before rows are written again
    // the last key past some row's end, and the first one before some row's first, with a V that is not finite
    int highest = -1, lowest = 0x7fffffff;
    {
      const int row = row_begin, last = same(min(num_tiles * 64, seqlen_k)) - 1;
  #pragma unroll 1
      for (int first = same(max(min(seqlen_k, (row + seqlen_k - seqlen_q) + 1), 0)); first <= last; first += 32) {
        const int key = min(first + lane_32, last);
        highest = finite_halves((const u32*)(v + kv_head * v_stride_head + batch * v_stride_batch + key * v_stride_seq), 64) ? highest
            : key;
      }
      highest = same(largest_of_lanes(highest));
    }
  #pragma unroll 1
    for (int row = row_begin; row < row_end; ++row) {
      const int begin = same(0), end = same(min(seqlen_k, (row + seqlen_k - seqlen_q) + 1));
      if (highest < end && lowest >= begin) continue;
      const u32* const query_words = (const u32*)(q + batch * q_stride_batch + row * q_stride_seq + head * q_stride_head);
      float maximum = -kInfinity, sum = 0.0f, out[4];
  #pragma unroll
      for (int i = 0; i < 4; ++i) out[i] = 0.0f;
      // from the row's last keys to its first: a lane each for the scores, two columns a lane for O
      bool left = end > begin;
  #pragma unroll 1
      for (int first = (max(end, 1) - 1) / 32 * 32; same(left && first > begin - 32); first -= 32) {
        float score[1] = {0.0f};
        {
          const int key = max(min(first + lane_32, end - 1), begin);
          const u32* const key_words = (const u32*)(k + kv_head * k_stride_head + batch * k_stride_batch + key * k_stride_seq);
          UNROLL_4
          for (int i = 0; i < 64; ++i) {
            score[0] = fmaf(low_half(query_words[i]), low_half(key_words[i]), score[0]);
            score[0] = fmaf(high_half(query_words[i]), high_half(key_words[i]), score[0]);
          }
          score[0] = key == first + lane_32 ? score[0] : -kInfinity;
        }
        const float largest = fmaxf(maximum, largest_of_lanes(score[0]));
        const float base = largest == -kInfinity ? 0.0f : largest;
        const float shrink = exp2_approx((maximum - base) * scale_log2);
        const float weight = score[0] == -kInfinity ? 0.0f : exp2_approx((score[0] - base) * scale_log2);
        sum = fmaf(sum, shrink, sum_of_lanes(weight));
        maximum = largest;
  #pragma unroll
        for (int i = 0; i < 4; ++i) out[i] *= shrink;
  #pragma unroll 1
        for (int j = 0; j < 32; ++j) {
          const int key = max(min(first + j, end - 1), begin);
          const float p = lane_float(weight, j);
          const bool seen = lane_float(score[0], j) != -kInfinity;
          const u32* const value_words = (const u32*)(v + kv_head * v_stride_head + batch * v_stride_batch + key * v_stride_seq);
  #pragma unroll
          for (int i = 0; i < 4; i += 2) {
            u32 two = value_words[min(lane_32 + 16 * i, 63)];
            two = seen ? two : 0u;
            out[i] = fmaf(p, low_half(two), out[i]);
            out[i + 1] = fmaf(p, high_half(two), out[i + 1]);
          }
        }
        // what the row itself sees may leave nothing to compute
        bool finite = false;
  #pragma unroll
        for (int i = 0; i < 4; ++i) finite |= out[i] * 0.0f == 0.0f;
        left = any_lane(finite);
      }
      const float inverse = sum == 0.0f ? 0.0f : rcp_approx(sum);
      u16* const to = o + batch * o_stride_batch + row * o_stride_seq + head * o_stride_head;
  #pragma unroll
      for (int i = 0; i < 4; i += 2) {
        const int column = 2 * lane_32 + 32 * i;
        const u32 two = pack_bf16(out[i] * inverse, out[i + 1] * inverse);
        if (column < 128 && writes_rows()) *(u32*)(to + column) = two;
      }
    }
  }
}
