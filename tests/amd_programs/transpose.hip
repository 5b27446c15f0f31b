// Out-of-place transposition through a padded LDS tile, two-dimensional blocks and grid.
KERNEL(256) transpose(const float* in, float* out, int rows, int columns) {
  __shared__ float tile[32][33];
  const int tx = tid() , ty = tid_y();
  const int x = block_x() * 32 + tx, y = block_y() * 32 + ty;
  for (int i = 0; i < 32; i += 8)
    if (x < columns && y + i < rows) tile[ty + i][tx] = in[(y + i) * columns + x];
  sync();
  const int ox = block_y() * 32 + tx, oy = block_x() * 32 + ty;
  for (int i = 0; i < 32; i += 8)
    if (ox < rows && oy + i < columns) out[(oy + i) * rows + ox] = tile[tx][ty + i];
}
