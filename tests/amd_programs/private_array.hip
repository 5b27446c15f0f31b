// A lane-private array with run-time indices: lives in scratch.
KERNEL(64) private_array(const int* x, int* y, int n) {
  int stack[32];
  for (int i = 0; i < 32; ++i) stack[i] = i * 3;
  const int t = block_x() * 64 + tid();
  for (int i = 0; i < n; ++i) {
    const int k = (x[t] + i * 7) & 31;
    stack[k] = stack[(k + 5) & 31] + i;
  }
  int sum = 0;
  for (int i = 0; i < 32; ++i) sum += stack[(i * x[t]) & 31] * (i + 1);
  y[t] = sum;
}
