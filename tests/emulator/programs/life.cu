// Conway's life on bytes, several generations by ping-pong over a cluster-free grid of one block.
extern "C" __global__ void life(unsigned char* board, int generations) {
  __shared__ unsigned char cells[2][32][32];
  const int x = threadIdx.x, y = threadIdx.y;
  cells[0][y][x] = board[y * 32 + x];
  __syncthreads();
  for (int g = 0; g < generations; ++g) {
    int neighbours = 0;
    for (int dy = 31; dy <= 33; ++dy) {
      for (int dx = 31; dx <= 33; ++dx) neighbours += (dx != 32 || dy != 32) ? cells[g % 2][(y + dy) % 32][(x + dx) % 32] : 0;
    }
    cells[(g + 1) % 2][y][x] = neighbours == 3 || (neighbours == 2 && cells[g % 2][y][x]);
    __syncthreads();
  }
  board[y * 32 + x] = cells[generations % 2][y][x];
}
