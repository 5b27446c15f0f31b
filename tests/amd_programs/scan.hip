// Inclusive scan of 1024 integers per block: DPP steps within rows, LDS across waves.
template <int Ctrl, int Rows>
static __device__ int step(int x) {
  return x + __builtin_amdgcn_update_dpp(0, x, Ctrl, Rows, 0xf, false);
}
KERNEL(1024) scan(const int* x, int* y) {
  __shared__ int totals[16];
  const int t = tid(), wave = t / 64;
  int v = x[block_x() * 1024 + t];
  v = step<0x111, 0xf>(v);
  v = step<0x112, 0xf>(v);
  v = step<0x114, 0xf>(v);
  v = step<0x118, 0xf>(v);
  v = step<0x142, 0xa>(v);
  v = step<0x143, 0xc>(v);
  if (t % 64 == 63) totals[wave] = v;
  sync();
  int before = 0;
  for (int w = 0; w < wave; ++w) before += totals[w];
  y[block_x() * 1024 + t] = v + before;
}
