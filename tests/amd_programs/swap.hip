// Two waves turn a tile around through LDS: one load, one store, one barrier and one read that all matter.
typedef float float4v __attribute__((ext_vector_type(4)));
KERNEL(128) swap(const float4v* in, float4v* out) {
  __shared__ float4v tile[128];
  tile[tid()] = in[tid()];
  sync();
  out[tid()] = tile[127 - tid()];
}
