// FP16 vectors: packed arithmetic and conversions, one wave per row.
typedef _Float16 half2v __attribute__((ext_vector_type(2)));
KERNEL(64) half_dot(const half2v* a, const half2v* b, float* y, int pairs) {
  float sum = 0;
  for (int i = tid(); i < pairs; i += 64) {
    const half2v x = a[block_x() * pairs + i], w = b[i];
    const half2v p = x * w + w;
    sum += (float)p.x + (float)p.y;
  }
  sum = wave_sum(sum);
  if (tid() == 0) y[block_x()] = sum;
}
