// One generation of Conway's game of life on a torus of bytes.
KERNEL(64) life(const u8* in, u8* out, int width, int height) {
  const int x = block_x() * 64 + tid(), y = block_y();
  if (x >= width) return;
  int n = 0;
  for (int dy = -1; dy <= 1; ++dy)
    for (int dx = -1; dx <= 1; ++dx)
      if (dx != 0 || dy != 0) n += in[(y + dy + height) % height * width + (x + dx + width) % width];
  out[y * width + x] = n == 3 || (n == 2 && in[y * width + x]);
}
