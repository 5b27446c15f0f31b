// Escape times: divergent loops, double precision.
extern "C" __global__ void mandelbrot(unsigned short* out, int width, int height, int limit) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  const double cx = -2.0 + 3.0 * x / width, cy = -1.25 + 2.5 * y / height;
  double zx = 0, zy = 0;
  int steps = 0;
  while (zx * zx + zy * zy < 4.0 && steps < limit) {
    const double next = zx * zx - zy * zy + cx;
    zy = 2.0 * zx * zy + cy;
    zx = next;
    ++steps;
  }
  out[y * width + x] = static_cast<unsigned short>(steps);
}
