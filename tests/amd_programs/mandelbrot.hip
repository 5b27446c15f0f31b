// Escape times: a data-dependent loop per lane, in FP64.
KERNEL(64) mandelbrot(int* out, int width, int limit) {
  const int x = tid(), y = block_x();
  const double cr = -2.0 + 3.0 * x / width, ci = -1.0 + 2.0 * y / width;
  double zr = 0, zi = 0;
  int n = 0;
  while (n < limit && zr * zr + zi * zi < 4.0) {
    const double t = zr * zr - zi * zi + cr;
    zi = 2 * zr * zi + ci;
    zr = t;
    ++n;
  }
  out[y * width + x] = n;
}
