// The kernel that writes new rows of K and V into a paged cache: generator/emit/append.cpp says what it does and plans it.

//@ section types
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;

//@ section widen
// An element of a new row.
__device__ __forceinline__ float widen(u16 x) {
//@ if bf16
  return __uint_as_float((u32)x << 16);
//@ else
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
//@ end
}

//@ section rotate_types
// Two floats as elements of a row, nearest, the first in the low half.
__device__ __forceinline__ u32 pack(float low, float high) {
  u32 y;
//@ if bf16
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
//@ else
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
//@ end
  return y;
}

//@ section bytes
//@ if int8
// Nearest int8, halves to even, within 127.
__device__ __forceinline__ u32 narrow(float x) {
  return (u32)__float2int_rn(fminf(fmaxf(x, -127.0f), 127.0f)) & 0xffu;
}
//@ else
// Nearest E4M3, halves to even, within 448; below 2^-6 in steps of 2^-9. NaN stays NaN.
__device__ __forceinline__ u32 narrow(float x) {
  const u32 bits = __float_as_uint(x), sign = bits >> 24 & 0x80u;
  const float magnitude = fminf(fabsf(x), 448.0f);
  const u32 wide = __float_as_uint(magnitude);
  const u32 normal = (wide + 0x7ffffu + (wide >> 20 & 1u) >> 20) - (120u << 3);
  const u32 code = magnitude < 0.015625f ? (u32)__float2int_rn(magnitude * 512.0f) : normal;
  return sign | ((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fu : code);
}
//@ end

//@ section powers
// Of 32 elements with this largest magnitude: the exponent of a power of two (UE8M0) less that of 256, and its value.
__device__ __forceinline__ u32 power_byte(float largest) { return (u32)max((int)(__float_as_uint(largest) >> 23) - 8, 0); }
__device__ __forceinline__ float power_value(u32 byte) { return __uint_as_float(max(byte << 23, 0x400000u)); }

//@ section fours
// The value of a positive E4M3, and the nearest E2M1, halves to even, within 6; NaN is 6.
__device__ __forceinline__ float e4m3_value(u32 byte) { return __uint_as_float(byte << 20) * 1.329227995784916e36f; }
__device__ __forceinline__ u32 narrow_to_four(float x) {
  const float m = fabsf(x);
  const u32 code = !(m <= 0.25f) + !(m < 0.75f) + !(m <= 1.25f) + !(m < 1.75f) + !(m <= 2.5f) + !(m < 3.5f) + !(m <= 5.0f);
  return code | (x == x ? __float_as_uint(x) >> 28 & 8u : 0u);
}

//@ section kernel
extern "C" __global__ void __launch_bounds__(${threads})
${entry}(${parameters}) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, head = blockIdx.y, batch = blockIdx.z;
  const int first = cu_seqlens_q[batch], rows = cu_seqlens_q[batch + 1] - first, length = seqlens_k[batch];
  // new row `row` of a sequence is its token length - rows + row
  const int end = min(rows, (int)blockIdx.x * ${rows} + ${rows});
  for (int row = blockIdx.x * ${rows} + warp; row < end; row += ${warps}) {
    const int token = length - rows + row;
    if (token < 0) continue;
    const int page = ${page};
    if (page < 0) continue;  // no page of the pool: nothing is written

    ${row_of_k}
    ${rope_of_k}
    ${row_of_v}
  }
}
//@ section row
{  // a row of ${tensor}
  const u16* const from = new_${name} + (first + row) * ${source}_stride_seq + head * ${source}_stride_head;
  ${element}* const to = ${name} + ${row_offset} + head * ${name}_stride_head${first_column};
  u32 pair[${steps}];  // columns 64 * i + 2 * lane and the next
#pragma unroll
  for (int i = 0; i < ${steps}; ++i) {
    const int column = 64 * i + 2 * lane;
//@ if partial
    pair[i] = column < ${depth} ? *(const u32*)(from + column) : 0u;
//@ else
    pair[i] = *(const u32*)(from + column);
//@ end
  }
  ${rotate}
//@ if bytes
  float low[${steps}], high[${steps}];
#pragma unroll
  for (int i = 0; i < ${steps}; ++i) low[i] = widen((u16)pair[i]), high[i] = widen((u16)(pair[i] >> 16));
//@ if finds_scales
  float scale[${scales}];  // of ${group} elements each: ${note}
#pragma unroll
  for (int g = 0; g < ${scales}; ++g) {
    float largest = 0.0f;
#pragma unroll
    for (int i = g * ${steps_per_scale}; i < min(${steps}, (g + 1) * ${steps_per_scale}); ++i)
      largest = fmaxf(largest, fmaxf(fabsf(low[i]), fabsf(high[i])));
#pragma unroll
    for (int step = 1; step < ${lanes_per_scale}; step *= 2)
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
    const ${stored_type} stored = ${stored_scale};
    scale[g] = ${scale};
//@ if parts
    const int index = ${parts} * g + lane / ${lanes_per_scale};
    if (lane % ${lanes_per_scale} == 0 && index < ${groups})
//@ else
    const int index = g;
    if (lane == 0)
//@ end
      ${name}_scale[page * ${name}_scale_stride_page + ${scale_of_row} + index] = ${as_stored};
  }
//@ end
//@ if given_scale
  const float scale = ${name}_scale[${scale_index}];
//@ end
#pragma unroll
  for (int i = 0; i < ${steps}; ++i) {
    const int column = 64 * i + 2 * lane;
//@ if fours
    const float own = scale[i / ${steps_per_scale}];
    const u32 two = own != 0.0f ? narrow_to_four(low[i] / own) | narrow_to_four(high[i] / own) << 4 : 0u;
    ${if_in_row}to[column / 2] = (u8)two;
//@ else
    const u32 bytes = narrow(low[i]${by_scale}) | narrow(high[i]${by_scale}) << 8;
    ${if_in_row}*(u16*)(to + column) = (u16)bytes;
//@ end
  }
//@ else
#pragma unroll
  for (int i = 0; i < ${steps}; ++i) {
    const int column = 64 * i + 2 * lane;
    ${if_in_row}*(u32*)(to + column) = pair[i];
  }
//@ end
}
//@ section rotate
// Rotary embedding of the first 2 * rotary_half columns.
const int place = rotary_seqlens != nullptr ? rotary_seqlens[batch] : length - rows;
const int turn = min(max(place${row_step}, 0), rotary_positions - 1) * rotary_half;
#pragma unroll
for (int i = 0; i < ${steps}; ++i) {
  const int column = 64 * i + 2 * lane;
  if (column >= 2 * rotary_half) continue;
  const float low = widen((u16)pair[i]), high = widen((u16)(pair[i] >> 16));
//@ if interleaved
  const float c = widen(rotary_cos[turn + column / 2]), s = widen(rotary_sin[turn + column / 2]);
  pair[i] = pack(low * c - high * s, low * s + high * c);
//@ else
  const bool first_half = column < rotary_half;
  const u32 others = *(const u32*)(from + (first_half ? column + rotary_half : column - rotary_half));
  const int at = turn + (first_half ? column : column - rotary_half);
  const u32 cosines = *(const u32*)(rotary_cos + at), sines = *(const u32*)(rotary_sin + at);
  const float sign = first_half ? -1.0f : 1.0f;
  pair[i] = pack(low * widen((u16)cosines) + sign * widen((u16)others) * widen((u16)sines),
                 high * widen((u16)(cosines >> 16)) + sign * widen((u16)(others >> 16)) * widen((u16)(sines >> 16)));
//@ end
}
//@ section rope
{  // its rotary columns, as they are
  const u16* const from = new_k + (first + row) * q_stride_seq + head * q_stride_head + ${columns};
//@ if own_tensor
  u16* const tail = k_rope + ${row_offset} + head * k_rope_stride_head;
//@ else
  ${element}* const to = k + ${row_offset} + head * k_stride_head${first_column};
  u16* const tail = (u16*)((u8*)to + ${padded_depth});
//@ end
  for (int i = 2 * lane; i < ${rope_depth}; i += 64) *(u32*)(tail + i) = *(const u32*)(from + i);
}
