// Gravitational accelerations: tiles of bodies in LDS, rsq, fma.
typedef float float4v __attribute__((ext_vector_type(4)));
KERNEL(128) nbody(const float4v* body, float4v* acceleration, int n) {
  __shared__ float4v s[128];
  const int i = block_x() * 128 + tid();
  const float4v me = body[i];
  float ax = 0, ay = 0, az = 0;
  for (int tile = 0; tile < n; tile += 128) {
    s[tid()] = body[tile + tid()];
    sync();
    for (int j = 0; j < 128; ++j) {
      const float dx = s[j].x - me.x, dy = s[j].y - me.y, dz = s[j].z - me.z;
      const float inv = __builtin_amdgcn_rsqf(dx * dx + dy * dy + dz * dz + 0.01f);
      const float f = s[j].w * inv * inv * inv;
      ax += f * dx;
      ay += f * dy;
      az += f * dz;
    }
    sync();
  }
  acceleration[i] = (float4v){ax, ay, az, 0};
}
