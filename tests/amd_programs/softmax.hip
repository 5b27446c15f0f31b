// Row softmax, one wave per row: bpermute reductions, exp2.
KERNEL(64) softmax(const float* x, float* y, int columns) {
  const float* row = x + (long)block_x() * columns;
  float m = -__builtin_inff();
  for (int i = tid(); i < columns; i += 64) m = __builtin_fmaxf(m, row[i]);
  m = wave_max(m);
  float sum = 0;
  for (int i = tid(); i < columns; i += 64) sum += __builtin_exp2f((row[i] - m) * 1.44269504f);
  sum = wave_sum(sum);
  for (int i = tid(); i < columns; i += 64) y[(long)block_x() * columns + i] = __builtin_exp2f((row[i] - m) * 1.44269504f) / sum;
}
