// Bitonic sort of 512 keys in LDS.
KERNEL(256) bitonic(int* keys) {
  __shared__ int s[512];
  int* mine = keys + block_x() * 512;
  s[tid()] = mine[tid()];
  s[tid() + 256] = mine[tid() + 256];
  for (int size = 2; size <= 512; size *= 2) {
    for (int d = size / 2; d > 0; d /= 2) {
      sync();
      const int i = 2 * tid() - (tid() & (d - 1)), j = i + d;
      const bool up = (i & size) == 0;
      if ((s[i] > s[j]) == up) {
        const int t = s[i];
        s[i] = s[j];
        s[j] = t;
      }
    }
  }
  sync();
  mine[tid()] = s[tid()];
  mine[tid() + 256] = s[tid() + 256];
}
