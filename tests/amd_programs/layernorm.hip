// Layer normalisation of rows in BF16, statistics in FP32, correctly rounded division and square root.
KERNEL(64) layernorm(const u16* x, const float* gain, u16* y, int columns) {
  const u16* row = x + (long)block_x() * columns;
  float sum = 0, squares = 0;
  for (int i = tid(); i < columns; i += 64) {
    const float v = __builtin_bit_cast(float, (u32)row[i] << 16);
    sum += v;
    squares += v * v;
  }
  sum = wave_sum(sum) / (float)columns;
  squares = wave_sum(squares) / (float)columns;
  const float scale = 1.0f / __builtin_sqrtf(squares - sum * sum + 1e-5f);
  for (int i = tid(); i < columns; i += 64) {
    const float v = (__builtin_bit_cast(float, (u32)row[i] << 16) - sum) * scale * gain[i];
    u32 b = __builtin_bit_cast(u32, v);
    b += 0x7fff + (b >> 16 & 1);
    y[(long)block_x() * columns + i] = (u16)(b >> 16);
  }
}
