// Five-point stencil with halo rows in LDS.
KERNEL(64) stencil(const float* in, float* out, int width, int height) {
  __shared__ float s[3][66];
  const int x = block_x() * 64 + tid(), y = block_y();
  for (int r = 0; r < 3; ++r) {
    const int yy = y + r - 1;
    const bool row = yy >= 0 && yy < height;
    s[r][tid() + 1] = row && x < width ? in[yy * width + x] : 0.0f;
    if (tid() == 0) s[r][0] = row && x > 0 ? in[yy * width + x - 1] : 0.0f;
    if (tid() == 63) s[r][65] = row && x + 1 < width ? in[yy * width + x + 1] : 0.0f;
  }
  sync();
  if (x < width) out[y * width + x] = 0.5f * s[1][tid() + 1] + 0.125f * (s[0][tid() + 1] + s[2][tid() + 1] + s[1][tid()] + s[1][tid() + 2]);
}
