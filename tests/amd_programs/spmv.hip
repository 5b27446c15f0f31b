// Sparse matrix times vector, CSR, one lane per row: divergent loop lengths.
KERNEL(64) spmv(const int* start, const int* column, const float* value, const float* x, float* y, int rows) {
  const int row = block_x() * 64 + tid();
  if (row >= rows) return;
  float sum = 0;
  for (int i = start[row]; i < start[row + 1]; ++i) sum += value[i] * x[column[i]];
  y[row] = sum;
}
